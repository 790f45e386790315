"""What is done about a node in each state: its conditions, and taints that keep pods away. Pure.

    Suspect       fathom.dev/suspect:NoSchedule
    Unreachable   Ready=Unknown, node.kubernetes.io/unreachable:NoSchedule and :NoExecute
    Lost          fathom.dev/lost:NoExecute, if more than one source says so: silence alone evicts no pod
                  that tolerates Unreachable before that time is over
    spared        (another path sees it alive) as Unreachable, without NoExecute
    not ready     (the agent says so itself) node.kubernetes.io/not-ready:NoSchedule and :NoExecute

A pod that tolerates a taint for a time stays for that time; `plan_evictions` counts it. Taints that other
clients set are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.cache.needs import NoOlderThan
from fathom.control.plan import Patch, Plan, WriteStatus, target, write_status
from fathom.controllers.node_health.evidence import Assessment, NodeState, plain
from fathom.controllers.node_health.plan_evictions import LOST
from fathom.model.conditions import Status, conditions_of, find_condition, set_condition
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.well_known import (
    NOT_READY_TAINT,
    SUSPECT_TAINT,
    UNREACHABLE_TAINT,
    UNSCHEDULABLE_TAINT,
    ZONE_LABEL,
)

PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
OURS = frozenset(
    {UNREACHABLE_TAINT, NOT_READY_TAINT, SUSPECT_TAINT, LOST, UNSCHEDULABLE_TAINT, *PRESSURES.values()}
)

# Conditions of a node that show its state, each with its own time.
STATES = (
    (NodeState.SUSPECT, "fathom.dev/Suspect"),
    (NodeState.UNREACHABLE, "fathom.dev/Unreachable"),
    (NodeState.LOST, "fathom.dev/Lost"),
)

HELD = "fathom.dev/Held"  # What the evidence would allow is held back, and since when.
SPARED = "Spared"  # Its reason where another path sees the node alive. Others are the brake's.

# Leases change every ten seconds: a view that is older than this has missed some.
NEEDS = (NoOlderThan(FRESH_S, ("Node", "Lease")),)


class HeldBack(msgspec.Struct, frozen=True):
    """Why a reaction that the evidence would allow is held back: the condition Held."""

    reason: str  # SPARED, or of the brake.
    message: str


def plan_node(
    node: Obj, assessment: Assessment, allowed: NodeState, held: HeldBack | None, *, now: str
) -> Plan:
    """`allowed`: how far the brake lets us go; `held`: why it holds back the rest."""
    spared = HeldBack(SPARED, f"no pod is evicted: {assessment.spared}") if assessment.spared else None
    conditions = _conditions(node, assessment, allowed, held or spared, now=now)
    status = write_status("Node", node, {"conditions": conditions})
    taints = wanted_taints(
        node, allowed, now=now, spared=bool(assessment.spared), confirmed=assessment.confirmed
    )
    return Plan(
        patches=_retainted(node, taints, destructive=allowed > NodeState.SUSPECT),
        statuses=status,
        needs=NEEDS,
        why=f"{allowed.word}: {assessment.message}" + (f"; held: {held.message}" if held is not None else ""),
    )


def state_of(node: Obj) -> NodeState:
    """The state that was acted on, as the node's conditions show it."""
    return max((state for state, name in STATES if _is_true(node, name)), default=NodeState.HEALTHY)


def entered(node: Obj, state: NodeState) -> str | None:
    """Since when it is in this state or a stronger one."""
    name = dict(STATES)[state]
    condition = find_condition(conditions_of(node), name)
    if condition is None or condition.get("status") != "True":
        return None
    return str(condition["lastTransitionTime"])


def _is_true(node: Obj, name: str) -> bool:
    condition = find_condition(conditions_of(node), name)
    return condition is not None and condition.get("status") == "True"


def _conditions(
    node: Obj, assessment: Assessment, allowed: NodeState, held: HeldBack | None, *, now: str
) -> list[Obj]:
    conditions = conditions_of(node)
    for state, name in STATES:
        if allowed < state and find_condition(conditions, name) is None:
            continue  # A node that was never unhealthy needs no such condition.
        status: Status = "True" if allowed >= state else "False"
        conditions = set_condition(
            conditions,
            type=name,
            status=status,
            reason="Evidence" if status == "True" else "Held" if assessment.state >= state else "Heard",
            message=_message(assessment, status == "True" or assessment.state >= state),
            now=now,
        )
    conditions = _held(conditions, held, now=now)
    return _unknown(conditions, now=now) if allowed >= NodeState.UNREACHABLE else conditions


def _held(conditions: list[Obj], held: HeldBack | None, *, now: str) -> list[Obj]:
    """A node that was never held needs no such condition."""
    if held is None and find_condition(conditions, HELD) is None:
        return conditions
    return set_condition(
        conditions,
        type=HELD,
        status="False" if held is None else "True",
        reason="Released" if held is None else held.reason,
        message="" if held is None else held.message,
        now=now,
    )


def _message(assessment: Assessment, is_unhealthy: bool) -> str:
    """Without the seconds, which would make every pass a write. The condition Held says what is held back."""
    if not is_unhealthy:
        return ""
    parts = [plain(evidence) for evidence in assessment.evidence] or [
        "no heartbeat since it entered this state"
    ]
    return "; ".join(parts)


def _unknown(conditions: list[Obj], *, now: str) -> list[Obj]:
    """As kube-controller-manager writes it for a silent agent."""
    for name in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
        if name != "Ready" and find_condition(conditions, name) is None:
            continue
        conditions = _keeping_heartbeat(conditions, name, now=now)
    return conditions


def _keeping_heartbeat(conditions: list[Obj], name: str, *, now: str) -> list[Obj]:
    before = find_condition(conditions, name) or {}
    after = set_condition(
        conditions,
        type=name,
        status="Unknown",
        reason="NodeStatusUnknown",
        message="Kubelet stopped posting node status.",
        now=now,
    )
    heartbeat = before.get("lastHeartbeatTime")
    if heartbeat is None:
        return after
    return [
        {**condition, "lastHeartbeatTime": heartbeat} if condition.get("type") == name else condition
        for condition in after
    ]


# Taints.


def wanted_taints(
    node: Obj, state: NodeState, *, now: str, spared: bool = False, confirmed: bool = True
) -> list[Obj]:
    """Taints of other clients as they are, then ours; a taint that stays keeps its time. `spared`: no pod is
    evicted. `confirmed`: more than silence says that it is lost, so pods need not stay for as long as they
    tolerate."""
    before = [taint for taint in lookup(node, "spec", "taints") or () if isinstance(taint, dict)]
    confirmed = confirmed or any(taint.get("key") == LOST for taint in before)
    wanted = [*_for_state(state, confirmed), *_for_conditions(node, state), *_for_spec(node)]
    if spared:
        wanted = [(key, effect) for key, effect in wanted if effect != "NoExecute"]
    present = {(taint.get("key"), taint.get("effect")): taint for taint in before}
    kept = [taint for taint in before if taint.get("key") not in OURS]
    return kept + [present.get(pair) or _taint(*pair, now=now) for pair in wanted]


def _for_state(state: NodeState, confirmed: bool) -> list[tuple[str, str]]:
    wanted = [(SUSPECT_TAINT, "NoSchedule")] if state >= NodeState.SUSPECT else []
    if state >= NodeState.UNREACHABLE:
        wanted += [(UNREACHABLE_TAINT, "NoSchedule"), (UNREACHABLE_TAINT, "NoExecute")]
    return [*wanted, (LOST, "NoExecute")] if state >= NodeState.LOST and confirmed else wanted


def _for_conditions(node: Obj, state: NodeState) -> list[tuple[str, str]]:
    """The taints that follow from the agent's own conditions, while its heartbeats arrive."""
    if state >= NodeState.UNREACHABLE:
        return []
    statuses = {str(condition.get("type")): condition.get("status") for condition in conditions_of(node)}
    wanted = [(taint, "NoSchedule") for name, taint in PRESSURES.items() if statuses.get(name) == "True"]
    if statuses.get("Ready") == "False":
        wanted += [(NOT_READY_TAINT, "NoSchedule"), (NOT_READY_TAINT, "NoExecute")]
    elif statuses.get("Ready") != "True":
        wanted += [(NOT_READY_TAINT, "NoSchedule")]  # It has just registered.
    return wanted


def _for_spec(node: Obj) -> list[tuple[str, str]]:
    return [(UNSCHEDULABLE_TAINT, "NoSchedule")] if lookup(node, "spec", "unschedulable") else []


def _taint(key: str, effect: str, *, now: str) -> Obj:
    return {"key": key, "effect": effect, "timeAdded": now}


def _retainted(node: Obj, wanted: Sequence[Obj], *, destructive: bool) -> tuple[Patch, ...]:
    if list(lookup(node, "spec", "taints") or ()) == list(wanted):
        return ()
    return (Patch(target("Node", node), {"spec": {"taints": list(wanted) or None}}, destructive=destructive),)


# Pods of the node.


def plan_out_of_service(pods: Sequence[Obj], *, now: str) -> tuple[WriteStatus, ...]:
    """Sets pods of an unreachable node to not ready: they get no traffic. The agent undoes that when it
    can."""
    return tuple(
        status
        for pod in pods
        if lookup(pod, "status", "phase") == "Running" and _is_true(pod, "Ready")
        for status in write_status("Pod", pod, {"conditions": _not_ready(pod, now=now)})
    )


def _not_ready(pod: Obj, *, now: str) -> list[Obj]:
    return set_condition(
        conditions_of(pod),
        type="Ready",
        status="False",
        reason="NodeUnreachable",
        message=f"node {lookup(pod, 'spec', 'nodeName')} is unreachable",
        # The agent's condition names a generation: one with an older one, or none, does not replace it.
        observed_generation=metadata(pod).get("generation"),
        now=now,
    )


def zone_of(node: Obj) -> str:
    return str((metadata(node).get("labels") or {}).get(ZONE_LABEL) or "")
