"""`fathom taint`: keep pods off nodes, but for those that tolerate it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from fathom.cli.api_server import Refused
from fathom.cli.objects.changes import DryRun, ObjectChanges, Output
from fathom.cli.objects.resources import NamedObject
from fathom.cli.places import Kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem

Obj = dict[str, Any]

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
ATTEMPTS = 5  # Of a write to a node whose taints change meanwhile.


class TaintChange(msgspec.Struct, frozen=True):
    key: str
    effect: str  # '' removes the key with every effect.
    value: str = ""
    removes: bool = False


def taint(
    *what: Annotated[
        str, Parameter(help="Nodes, then KEY=VALUE:EFFECT to set and KEY:EFFECT- or KEY- to remove.")
    ],
    overwrite: Annotated[bool, Parameter(negative=(), help="Also change a value that is there.")] = False,
    dry_run: DryRun = "none",
    output: Output = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Set or remove taints of nodes. Effects: NoSchedule, PreferNoSchedule, NoExecute (also evicts).

    Prints a line for each node: tainted, untainted or modified.

    fathom taint node node-1 disk=slow:NoSchedule
    fathom taint node node-1 disk:NoSchedule-
    """
    words = [word for word in what if ":" in word or word.endswith("-")]
    wanted = [read_taint(word) for word in words]
    if not wanted:
        raise Problem("say which taint to set or remove: KEY=VALUE:EFFECT, KEY:EFFECT- or KEY-")
    changes = ObjectChanges(kubeconfig, namespace="", dry_run=dry_run, output=output)
    for target in changes.named([word for word in what if word not in words]):
        if target.resource.kind != "Node":
            raise Problem(f"only nodes have taints, not {target.label}")
        changed, word = _changed(changes, target, wanted, overwrite=overwrite)
        changes.report(target, changed, word)
    return 0


def read_taint(word: str) -> TaintChange:
    """Raises Problem."""
    removes = word.endswith("-")
    typed, colon, effect = word.removesuffix("-").partition(":")
    key, _, value = typed.partition("=")
    if not key or ((colon or not removes) and effect not in EFFECTS):
        raise Problem(
            f"a taint reads KEY=VALUE:EFFECT, KEY:EFFECT- or KEY-, not {word!r}; effects are"
            f" {', '.join(EFFECTS)}"
        )
    return TaintChange(key=key, effect=effect, value=value, removes=removes)


def tainted(there: Sequence[Obj], wanted: Sequence[TaintChange]) -> list[Obj]:
    """The taints of a node after the changes."""
    kept = [taint for taint in there if not any(_same(taint, change) for change in wanted)]
    added = [change for change in wanted if not change.removes]
    return [*kept, *({"key": each.key, "value": each.value, "effect": each.effect} for each in added)]


def _same(taint: Obj, change: TaintChange) -> bool:
    return taint.get("key") == change.key and change.effect in ("", taint.get("effect"))


def _changed(
    changes: ObjectChanges, target: NamedObject, wanted: Sequence[TaintChange], *, overwrite: bool
) -> tuple[Obj, str]:
    """The node, and what was done. Taints are one list: another writer's change in between is not lost."""
    for attempt in range(ATTEMPTS):
        node = changes.read(target)
        there = (node.get("spec") or {}).get("taints") or []
        _check(target, there, wanted, overwrite=overwrite)
        patch = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": tainted(there, wanted) or None},
        }
        try:
            return changes.patch(target, patch), _word(there, wanted)
        except Refused as refused:
            if refused.code != 409 or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("not reached")


def _check(
    target: NamedObject, there: Sequence[Obj], wanted: Sequence[TaintChange], *, overwrite: bool
) -> None:
    """Raises Problem."""
    for change in wanted:
        same = [taint for taint in there if _same(taint, change)]
        shown = f"{change.key}:{change.effect}".rstrip(":")
        if change.removes and not same:
            raise Problem(f"{target.label} has no taint {shown}", exit_code=ANSWER_IS_NO)
        if not change.removes and not overwrite and any(t.get("value", "") != change.value for t in same):
            raise Problem(
                f"{target.label} has the taint {shown} with another value: give --overwrite to change it",
                exit_code=ANSWER_IS_NO,
            )


def _word(there: Sequence[Obj], wanted: Sequence[TaintChange]) -> str:
    removed = all(change.removes for change in wanted)
    touched = any(_same(taint, change) for taint in there for change in wanted)
    return "untainted" if removed else "modified" if touched else "tainted"
