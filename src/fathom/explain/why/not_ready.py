"""Bound and not ready: its node is lost or has not begun, or one of its containers is in trouble."""

from __future__ import annotations

from fathom.explain.why import commands, node_lost
from fathom.explain.why.answer import Change, DetailGroup, Explanation
from fathom.explain.why.answering import answer
from fathom.explain.why.case import ContainerFacts, PodCase
from fathom.explain.why.trouble import Trouble
from fathom.explain.why.troubles import trouble_of
from fathom.model.objects import lookup
from fathom.schedule.decide.remedies import OPERATOR

STAGE, VERDICT = "not-ready", "is not ready"


def explain(case: PodCase) -> Explanation | None:
    """None: it is ready, and its node is heard of."""
    lost = node_lost.explain(case)
    if lost is not None:
        return lost
    if case.condition("Ready").get("status") == "True":
        return None
    return _not_begun(case) or _container_trouble(case) or _readiness_gate(case) or _unknown(case)


def _not_begun(case: PodCase) -> Explanation | None:
    """The agent has written nothing about it yet."""
    if lookup(case.pod, "status", "startTime") or case.condition("Starting"):
        return None
    agent = f"{case.evidence.agent} of"
    change = Change(
        f"check the {agent} node {case.node}", commands.kubectl("describe", "node", case.node), OPERATOR
    )
    return answer(
        case, STAGE, VERDICT, f"the {agent} {case.node} has not begun to start it", change=change,
        next_trigger=f"the {agent} {case.node} reports the pod",
    )  # fmt: skip


# Its containers.


def _container_trouble(case: PodCase) -> Explanation | None:
    troubles = [
        (container, trouble)
        for container in case.containers
        if (trouble := trouble_of(container, case)) is not None
    ]
    if not troubles:
        return None
    # What an init container waits for, all later containers wait for: so of equals the first.
    first = _decisive(troubles)
    others = tuple(trouble.cause for _, trouble in troubles if trouble is not first and trouble.severity < 8)
    return answer(
        case, STAGE, VERDICT, first.cause, change=first.change,
        details=(DetailGroup("also", others),) if others else (),
        next_trigger="the container's next start or probe",
    )  # fmt: skip


def _decisive(troubles: list[tuple[ContainerFacts, Trouble]]) -> Trouble:
    """An init container's own trouble holds back all that start after it; else the gravest one."""
    blocking = [trouble for container, trouble in troubles if container.holds_back_others]
    return blocking[0] if blocking else min((each for _, each in troubles), key=lambda each: each.severity)


def _readiness_gate(case: PodCase) -> Explanation | None:
    ready = case.condition("Ready")
    if ready.get("reason") != "ReadinessGatesNotReady":
        return None
    gates = [str(gate.get("conditionType")) for gate in lookup(case.pod, "spec", "readinessGates") or ()]
    unset = [gate for gate in gates if case.condition(gate).get("status") != "True"]
    true = {"status": {"conditions": [{"type": gate, "status": "True"} for gate in unset]}}
    change = Change(
        f"set condition {', '.join(unset)} of the pod to True",
        commands.strategic_patch("pod", case.key.name, true, namespace=case.key.namespace, of="status"),
        "the owner of the readiness gate",
    )
    return answer(case, STAGE, VERDICT, f"readiness gate {', '.join(unset)} is not true", change=change)


def _unknown(case: PodCase) -> Explanation:
    ready = case.condition("Ready")
    message = (
        ready.get("message") or ready.get("reason") or f"its {case.evidence.agent} reports no condition Ready"
    )
    return answer(case, STAGE, VERDICT, str(message))
