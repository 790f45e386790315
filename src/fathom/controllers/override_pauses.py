"""Overrides that are in force for something that a controller decides about: what they pause, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from fathom.cache.snapshot import Snapshot
from fathom.control.watches import own
from fathom.kinds import scheduler_override
from fathom.kinds.override_scope import (
    InScope,
    WorkloadName,
    targets_node,
    targets_workload,
    workload_in_scope,
)
from fathom.kinds.scheduler_override import OVERRIDES, SchedulerOverride, expiry_ns, named, override_active
from fathom.kinds.shape import read
from fathom.model.decision import Considered, considered
from fathom.model.objects import Key, Obj, key_of, labels_of, lookup

OVERRIDE = own(scheduler_override.DEFINITION)


class WorkloadPause(msgspec.Struct, frozen=True):
    override: str  # Its name.
    until_ns: int
    considered: tuple[Considered, ...] = ()  # All overrides that pause the workload now.


def paused(
    overrides: Iterable[Obj], kind: str, key: Key, *fields: str, now_ns: int, in_scope: InScope
) -> WorkloadPause | None:
    """The override that pauses one of these (`pause_rollout`, …) for the workload, the longest-lasting one if
    several do. An unreadable override pauses nothing."""
    itself = (WorkloadName(kind.lower(), key.name),)

    def concerns(override: SchedulerOverride) -> bool:
        return targets_workload(override, key.namespace, itself) and in_scope(override.spec.scope)

    return _longest(overrides, fields, concerns, now_ns)


def paused_at(
    overrides: Iterable[Obj],
    field: str,
    *,
    namespace: str,
    names: Iterable[WorkloadName],
    node: str,
    node_labels: dict[str, str],
    in_scope: InScope,
    now_ns: int,
) -> WorkloadPause | None:
    """As `paused`, for an object that has controllers and may be on a node: the override may target any of
    them, or the node, its zone or its pool."""
    chain = tuple(names)

    def concerns(override: SchedulerOverride) -> bool:
        if targets_workload(override, namespace, chain):
            return in_scope(override.spec.scope)
        return bool(node) and targets_node(override, node, node_labels)

    return _longest(overrides, (field,), concerns, now_ns)


def _longest(
    overrides: Iterable[Obj],
    fields: Iterable[str],
    concerns: Callable[[SchedulerOverride], bool],
    now_ns: int,
) -> WorkloadPause | None:
    wanted = tuple(fields)
    pauses = [
        WorkloadPause(key_of(obj).name, expiry_ns(override) or 0, (considered(OVERRIDES, obj),))
        for obj in overrides
        if (override := read_override(obj)) is not None
        and any(getattr(override.spec.changes, field) for field in wanted)
        and override_active(override, now_ns)
        and concerns(override)
    ]
    longest = max(pauses, key=lambda pause: (pause.until_ns, pause.override), default=None)
    if longest is None:
        return None
    every = tuple(override for pause in pauses for override in pause.considered)
    return msgspec.structs.replace(longest, considered=every)


def in_scope_of(view: Snapshot, pods: Callable[[], Iterable[Obj]]) -> InScope:
    """Whether a scope includes the workload that has these pods. They are looked at only if somebody asks."""

    def own_nodes() -> Iterator[dict[str, str]]:
        names = dict.fromkeys(str(lookup(pod, "spec", "nodeName") or "") for pod in pods())
        nodes = (view.get("Node", Key("", name)) for name in names if name)
        yield from (labels_of(node) for node in nodes if node is not None)

    def includes(scope: str) -> bool:
        return workload_in_scope(scope, own_nodes(), (labels_of(node) for node in view.list("Node")))

    return includes


def as_decisive(considered: tuple[Considered, ...], name: str) -> tuple[Considered, ...]:
    """The overrides, of which the named one made the decision what it is."""
    return tuple(msgspec.structs.replace(override, decisive=override.name == name) for override in considered)


def read_override(obj: Obj) -> SchedulerOverride | None:
    try:
        return read(SchedulerOverride, obj)
    except msgspec.ValidationError:
        return None


def workload_of(obj: Obj) -> Key | None:
    """The workload that an override is about, if it is about one."""
    override = read_override(obj)
    about = None if override is None else named(override.spec.target)
    if about is None or about.kind in {"node", "zone", "pool"}:
        return None
    return Key(key_of(obj).namespace, about.name)
