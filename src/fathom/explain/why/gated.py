"""Gated: a scheduling gate holds the pod back from the scheduler."""

from __future__ import annotations

from fathom.explain.why import commands
from fathom.explain.why.answer import Change, Explanation
from fathom.explain.why.answering import answer
from fathom.explain.why.case import PodCase
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
    cause = f"it has {'a scheduling gate' if len(gates) == 1 else f'{len(gates)} scheduling gates'}"
    return answer(
        case, "gated", "is not scheduled", cause, change=change, next_trigger="its gates are removed"
    )
