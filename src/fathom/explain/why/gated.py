"""Gated: a scheduling gate holds the pod back from the scheduler."""

from __future__ import annotations

import msgspec

from fathom.explain.why import commands
from fathom.explain.why.answer import Change, DetailGroup, Explanation
from fathom.explain.why.answering import answer
from fathom.explain.why.case import PodCase
from fathom.explain.why.changes import joined
from fathom.explain.why.other_scheduler import context_of
from fathom.explain.why.unschedulable import smallest_changes
from fathom.model.objects import lookup


def explain(case: PodCase) -> Explanation | None:
    gates = [str(gate.get("name")) for gate in lookup(case.pod, "spec", "schedulingGates") or ()]
    if not gates:
        return None
    listed = ", ".join(gates)
    namespace, name = case.key
    removal: commands.Operation = {"op": "remove", "path": "/spec/schedulingGates"}
    change = Change(
        f"remove the scheduling gate{'s' if len(gates) > 1 else ''} {listed}",
        commands.json_patch("pod", name, [removal], namespace=namespace),
        f"whoever set the gate{'s' if len(gates) > 1 else ''}",
    )
    further, details = _once_removed(case)
    change = change if further is None else joined([change, further])
    cause = f"it has {'a scheduling gate' if len(gates) == 1 else f'{len(gates)} scheduling gates'}"
    return answer(
        case, "gated", "is not scheduled", cause,
        change=change, details=details, next_trigger="its gates are removed",
    )  # fmt: skip


def _once_removed(case: PodCase) -> tuple[Change | None, tuple[DetailGroup, ...]]:
    """What else the pod needs: without its gates, no node might take it."""
    shape = msgspec.structs.replace(case.view.shape, gates=())
    context = context_of(case, case.view)
    ungated = msgspec.structs.replace(case.view, shape=shape)
    placement = case.cluster.decider.place(ungated, context)
    if placement.node is not None:
        return None, ()
    _, changes = smallest_changes(case, context, shape)
    detail = DetailGroup("once its gates are removed", (f"no node would take it: {placement.message}",))
    return (changes[0] if changes else None), (detail,)
