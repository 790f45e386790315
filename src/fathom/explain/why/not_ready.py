"""Bound and not ready: its node is lost or has not begun, or one of its containers is in trouble."""

from __future__ import annotations

from fathom.explain.why import commands
from fathom.explain.why.answer import Change, DetailGroup, Explanation
from fathom.explain.why.answering import answer
from fathom.explain.why.case import ContainerFacts, PodCase
from fathom.explain.why.control_plane import replacement_trouble
from fathom.explain.why.troubles import Trouble, trouble_of
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, lookup
from fathom.model.well_known import NOT_READY_TAINT, UNREACHABLE_TAINT
from fathom.schedule.decide.remedies import OPERATOR

STAGE, VERDICT = "not-ready", "is not ready"
LOST = "fathom.dev/Lost"  # Condition of a node.
STATES = (LOST, "fathom.dev/Unreachable")


def explain(case: PodCase) -> Explanation | None:
    """None: it is ready, and its node is heard of."""
    lost = _node_lost(case)
    if lost is not None:
        return lost
    if case.condition("Ready").get("status") == "True":
        return None
    return _not_begun(case) or _container_trouble(case) or _readiness_gate(case) or _unknown(case)


# Its node.


def _node_lost(case: PodCase) -> Explanation | None:
    node = case.node_object
    if node is None:
        change = Change(
            f"delete the pod: node {case.node} no longer exists", _force_delete(case), "the pod's owner"
        )
        return answer(case, STAGE, "does not run", f"its node {case.node} does not exist", change=change)
    unheard = unheard_of(node)
    if unheard is None:
        return None
    ours = replacement_trouble(case)
    repair = Change(
        f"repair node {case.node}, or declare it lost",
        f"kubectl annotate node {case.node} fathom.dev/declare-lost=true",
        OPERATOR,
    )
    if ours is not None:
        cause = f"{unheard}; {ours.cause}"
        return answer(case, "control-plane", VERDICT, cause, change=ours.change or repair)
    return answer(
        case, STAGE, VERDICT, unheard, change=repair, next_trigger="the node answers, or the pod is evicted"
    )


def unheard_of(node: Obj) -> str | None:
    """Why the node's reports cannot be relied on; None: it reports."""
    name = lookup(node, "metadata", "name")
    for type_ in STATES:
        condition = find_condition(conditions_of(node), type_) or {}
        if condition.get("status") == "True":
            word = type_.partition("/")[2].lower()
            since = f" since {condition['lastTransitionTime']}" if condition.get("lastTransitionTime") else ""
            why = f": {condition['message']}" if condition.get("message") else ""
            return f"its node {name} is {word}{since}{why}"
    ready = find_condition(conditions_of(node), "Ready") or {}
    taints = {taint.get("key") for taint in lookup(node, "spec", "taints") or ()}
    if ready.get("status") == "Unknown" or UNREACHABLE_TAINT in taints:
        return (
            f"its node {name} sends no heartbeats since {ready.get('lastTransitionTime', 'an unknown time')}"
        )
    if ready.get("status") == "False" and NOT_READY_TAINT in taints:
        return f"its node {name} is not ready: {ready.get('message') or ready.get('reason')}"
    return None


def _force_delete(case: PodCase) -> str:
    return commands.kubectl("delete", "pod", case.key.name, "--force", namespace=case.key.namespace)


def _not_begun(case: PodCase) -> Explanation | None:
    """The agent has written nothing about it yet."""
    if lookup(case.pod, "status", "startTime") or case.condition("Starting"):
        return None
    change = Change(
        f"check the agent of node {case.node}", commands.kubectl("describe", "node", case.node), OPERATOR
    )
    return answer(
        case, STAGE, VERDICT, f"the agent of {case.node} has not begun to start it", change=change,
        next_trigger=f"the agent of {case.node} reports the pod",
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
    return blocking[0] if blocking else min((trouble for _, trouble in troubles), key=lambda each: each.severity)


def _readiness_gate(case: PodCase) -> Explanation | None:
    ready = case.condition("Ready")
    if ready.get("reason") != "ReadinessGatesNotReady":
        return None
    gates = [str(gate.get("conditionType")) for gate in lookup(case.pod, "spec", "readinessGates") or ()]
    unset = [gate for gate in gates if case.condition(gate).get("status") != "True"]
    change = Change(
        f"set condition {', '.join(unset)} of the pod to True", "", "the owner of the readiness gate"
    )
    return answer(case, STAGE, VERDICT, f"readiness gate {', '.join(unset)} is not true", change=change)


def _unknown(case: PodCase) -> Explanation:
    ready = case.condition("Ready")
    said = ready.get("message") or ready.get("reason") or "its agent reports no condition Ready"
    return answer(case, STAGE, VERDICT, str(said))
