"""Notes about active overrides, for commands that change or show what an override holds.

A user who may not read overrides, and a server that has none, get no note and no error.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from fathom.cli.api_server import NoAnswerNow, ServerConnection
from fathom.cli.objects.resources import NamedObject
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.kinds.scheduler_override import SchedulerOverride

Obj = dict[str, Any]

OVERRIDES_PATH = "/apis/fathom.dev/v1alpha1{}/scheduleroverrides?limit=500"
HELD_KINDS = frozenset({"Pod", "Deployment", "ReplicaSet", "Job", "Node"})
NODE_OVERRIDES = "fathom-system"  # The namespace of overrides of nodes, zones and pools.
NAMES_MAX = 3


class Shown(msgspec.Struct, frozen=True):
    """An object that a command has changed or shown: `obj` needs its metadata alone."""

    kind: str
    label: str  # 'deployment.apps/web'
    obj: Obj


def shown(target: NamedObject, obj: Obj | None = None) -> Shown:
    """Without the object, its name says which overrides hold it: enough for a workload, not for a pod."""
    meta = {"name": target.name, "namespace": target.namespace, **((obj or {}).get("metadata") or {})}
    return Shown(target.resource.kind, target.label, {"metadata": meta})


def say_overrides(server: ServerConnection, objs: Sequence[Shown], *, namespace: str) -> None:
    """A line on standard error for each active override that holds one of these. `namespace`: '' for all."""
    held = [each for each in objs if each.kind in HELD_KINDS]
    places = {"" if not namespace else _place(each.kind, namespace) for each in held}
    overrides = [obj for place in sorted(places) for obj in _fetch(server, place)]
    if overrides:
        say(*note_lines(overrides, held, now_ns=time.time_ns()), err=True)


def _place(kind: str, namespace: str) -> str:
    return NODE_OVERRIDES if kind == "Node" else namespace


def _fetch(server: ServerConnection, namespace: str) -> list[Obj]:
    try:
        path = OVERRIDES_PATH.format(f"/namespaces/{namespace}" if namespace else "")
        status, answer = server.request("GET", path)
    except NoAnswerNow:
        return []
    items: list[Obj] = answer.get("items") or [] if status == 200 else []
    return items


def note_lines(overrides: Iterable[Obj], held: Sequence[Shown], *, now_ns: int) -> list[str]:
    """Pure."""
    from fathom.kinds.override_scope import holds  # noqa: PLC0415
    from fathom.kinds.scheduler_override import SchedulerOverride, override_active  # noqa: PLC0415
    from fathom.kinds.shape import read  # noqa: PLC0415

    lines = []
    for obj in overrides:
        try:
            override = read(SchedulerOverride, obj)
        except ValueError:  # One that another server has stored: nobody acts on it.
            continue
        labels = [each.label for each in held if holds(override, each.kind, each.obj)]
        if labels and override_active(override, now_ns) and not _is_declined(override):
            lines.append(_line(override, labels))
    return lines


def _is_declined(override: SchedulerOverride) -> bool:
    """Whether everybody who would carry it out has declined it: it holds nothing."""
    from fathom.kinds.override_summary import ack_counts  # noqa: PLC0415

    acks = ack_counts(override)
    return bool(acks.declined) and not acks.honoring and not acks.missing


def _line(override: SchedulerOverride, labels: Sequence[str]) -> str:
    from fathom.kinds.override_summary import set_changes  # noqa: PLC0415
    from fathom.kinds.scheduler_override import expiry_ns  # noqa: PLC0415
    from fathom.model.times import timestamp  # noqa: PLC0415

    meta, more = override.metadata, len(labels) - NAMES_MAX
    what = ", ".join(labels[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")
    scope = "" if override.spec.scope in {"", "cluster"} else f" in {override.spec.scope}"
    return (
        f"Note: the override {meta.namespace}/{meta.name} of {override.status.author or 'somebody'}"
        f" is active for {what}{scope} until {timestamp(expiry_ns(override) or 0)}:"
        f" {', '.join(set_changes(override))};"
        f" {_enforced(override)}"
    )


def _enforced(override: SchedulerOverride) -> str:
    """Who carries it out, and who of them has not said so yet."""
    from fathom.kinds.override_summary import ack_counts  # noqa: PLC0415

    acks = ack_counts(override)
    missing, declined = acks.missing, acks.declined
    everybody = sorted((*acks.honoring, *missing, *declined))
    line = f"enforced by {_joined(everybody)}"
    if declined:
        line += f"; {_joined(declined)} declined it"
    if missing and len(everybody) == 1:
        return f"{line}, which has not acknowledged it"
    if len(missing) == len(everybody):
        return f"{line}, of which none has acknowledged it"
    has = "has" if len(missing) == 1 else "have"
    return f"{line}, of which {_joined(missing)} {has} not acknowledged it" if missing else line


def _joined(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
