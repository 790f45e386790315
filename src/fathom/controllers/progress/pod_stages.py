"""How far a pod has come, and what holds it there. Pure.

    admitted → queued → scheduled → bound → starting → ready → serving

Each stage but the last has a deadline: a pod that has been in it for longer is stuck, and the boundary says
which component has to act. Boundaries and reasons are those of `model/reasons.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.controllers.pod_states import created_s, is_ready, phase_of, seconds
from fathom.controllers.progress.crash_loops import CrashLoop
from fathom.model.conditions import SCHEDULING_RETRYING, SERVING_CONDITION, conditions_of, find_condition
from fathom.model.objects import Obj, lookup
from fathom.model.reasons import CRASH, SCHEDULER, boundary_of, container_boundary

STAGES = ("admitted", "queued", "scheduled", "bound", "starting", "ready", "serving")
ADMITTED, QUEUED, SCHEDULED, BOUND, STARTING, READY, SERVING = range(len(STAGES))

MESSAGE_LENGTH_MAX = 500  # Of quoted messages.

# How long a pod may stay in a stage. Longer than it takes when all is well, shorter than a rollout's own
# deadline of ten minutes, so that the cause is shown before the rollout is given up.
DEADLINES_S = {
    "missing": 30.0,
    "admitted": 300.0,  # Other components remove scheduling gates.
    "queued": 60.0,
    "scheduled": 30.0,
    "bound": 60.0,
    "starting": 300.0,
    "ready": 30.0,
    "going": 60.0,
}

# The scheduler of pods that name none.
DEFAULT_SCHEDULER = "default-scheduler"
UNSCHEDULABLE = "Unschedulable"  # The reason that schedulers gave before they had specific ones.

START_UP = ("image", "config", "crash", "probe", "start")


class PodStage(msgspec.Struct, frozen=True):
    """Where one pod is. `boundary` and `reason` say what the next stage waits for."""

    stage: int
    since_s: float
    boundary: str = ""
    reason: str = ""  # As pending reasons read: 'quota/risk-zone-c', 'topology', 'image'.
    message: str = ""
    until_s: float | None = None  # For a pod that has crashed and runs: when it counts as running well.

    @property
    def deadline_s(self) -> float | None:
        """When it counts as stuck; None for one that has arrived. A crash-looping pod has not, even if
        ready."""
        if self.boundary == CRASH:
            return self.since_s + DEADLINES_S["starting"]
        return None if self.stage == SERVING else self.since_s + DEADLINES_S[STAGES[self.stage]]


def stand_of(pod: Obj, *, serves: bool, heard: bool = True, crashes: CrashLoop | None = None) -> PodStage:
    """`serves`: it gets traffic, or no Service would send it any. `heard`: whether its node is reachable."""
    pod_stage = _stage_of(pod, serves=serves, heard=heard)
    if crashes is None or not heard or pod_stage.stage < STARTING:
        return pod_stage
    return PodStage(pod_stage.stage, crashes.since_s, CRASH, CRASH, crashes.message, crashes.until_s)


def _stage_of(pod: Obj, *, serves: bool, heard: bool) -> PodStage:
    if not lookup(pod, "spec", "nodeName"):
        return _waiting(pod)
    if not _has_begun(pod):
        node = str(lookup(pod, "spec", "nodeName"))
        why = f"node {node} has not begun to start it" if heard else f"node {node} is unreachable"
        return PodStage(BOUND, _since(pod, "PodScheduled"), "node", f"node/{node}", why)
    if not is_ready(pod):
        return _starting(pod) if heard else _on_unreachable_node(pod)
    if not serves:
        return _ready(pod)
    return PodStage(SERVING, _since(pod, "Ready"))


def _on_unreachable_node(pod: Obj) -> PodStage:
    node = str(lookup(pod, "spec", "nodeName"))
    return PodStage(STARTING, _unready_since(pod), "node", f"node/{node}", f"node {node} is unreachable")


def _ready(pod: Obj) -> PodStage:
    reached = find_condition(conditions_of(pod), SERVING_CONDITION) or {}
    if reached.get("status") == "False":
        why = str(reached.get("message") or "")
        return PodStage(READY, _since(pod, SERVING_CONDITION), "gateway", "gateway", why)
    why = "no EndpointSlice of its Service lists it as ready yet"
    return PodStage(READY, _since(pod, "Ready"), "endpoints", "endpoints", why)


def _waiting(pod: Obj) -> PodStage:
    gates = [str(gate.get("name")) for gate in lookup(pod, "spec", "schedulingGates") or ()]
    if gates:
        return PodStage(
            ADMITTED, created_s(pod), "gate", f"gate/{gates[0]}", f"scheduling gates: {', '.join(gates)}"
        )
    condition = find_condition(conditions_of(pod), "PodScheduled")
    if condition is None or condition.get("status") != "False":
        return _unreported(pod)
    reason = held_by(pod)
    # The same verdict in other words is no progress: it waits since it was created.
    return PodStage(QUEUED, created_s(pod), boundary_of(reason), reason, str(condition.get("message") or ""))


def held_by(pod: Obj) -> str:
    """The reason that our scheduler gives. Other schedulers give only a message: then it is `scheduler`."""
    retrying = find_condition(conditions_of(pod), SCHEDULING_RETRYING) or {}
    reason = str(retrying.get("reason") or "")
    return SCHEDULER if reason in {"", UNSCHEDULABLE} else reason


def _unreported(pod: Obj) -> PodStage:
    """Its scheduler has not reported anything."""
    name = str(lookup(pod, "spec", "schedulerName") or DEFAULT_SCHEDULER)
    if name == DEFAULT_SCHEDULER:
        return PodStage(
            QUEUED, created_s(pod), "scheduler", "scheduler", "no scheduler has tried to place it yet"
        )
    why = f"no scheduler named {name} has tried to place it yet"
    return PodStage(QUEUED, created_s(pod), "scheduler", f"scheduler/{name}", why)


def _has_begun(pod: Obj) -> bool:
    """Whether the agent has begun to start it."""
    if phase_of(pod) != "Pending" or lookup(pod, "status", "startTime"):
        return True
    return find_condition(conditions_of(pod), "Starting") is not None


def _starting(pod: Obj) -> PodStage:
    reason, message = _trouble(pod)
    boundary = container_boundary(reason)
    why = f"{reason}: {message}" if message else reason
    return PodStage(STARTING, _unready_since(pod), boundary, boundary, why)


def _unready_since(pod: Obj) -> float:
    """A pod that was ready gets the full time to become ready again."""
    ready = find_condition(conditions_of(pod), "Ready") or {}
    started_s = seconds(lookup(pod, "status", "startTime")) or _since(pod, "Starting")
    return max(started_s, seconds(ready.get("lastTransitionTime")))


def _trouble(pod: Obj) -> tuple[str, str]:
    """The reason and message of its containers, else of its agent."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in lookup(pod, "status", field) or ():
            waiting = lookup(container, "state", "waiting") or {}
            if waiting.get("reason") not in {None, "PodInitializing", "ContainerCreating"}:
                return str(waiting["reason"]), str(waiting.get("message") or "")
    condition = find_condition(conditions_of(pod), "Starting") or {}
    if condition.get("reason") not in {None, "Started"}:
        return str(condition["reason"]), str(condition.get("message") or "")
    ready = find_condition(conditions_of(pod), "Ready") or {}
    if ready.get("reason") in {"ReadinessGatesNotReady", "NodeUnreachable"}:
        return str(ready["reason"]), str(ready.get("message") or "")
    if phase_of(pod) == "Running":
        return "WaitingForProbe", str(ready.get("message") or "")
    return str(ready.get("reason") or "ContainerCreating"), str(ready.get("message") or "")


def _since(pod: Obj, type_: str) -> float:
    condition = find_condition(conditions_of(pod), type_) or {}
    return seconds(condition.get("lastTransitionTime")) or created_s(pod)


def reached(stands: Sequence[PodStage], stage: int) -> int:
    return sum(pod_stage.stage >= stage for pod_stage in stands)
