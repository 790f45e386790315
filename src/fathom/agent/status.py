"""A pod's status, from the state of its containers. Pure; fields that other writers set are kept.

The condition `Starting` is the stage between bound and ready: it becomes true when the agent has admitted the
pod, stays true, and its reason and message say what delays the pod (image, configuration, probe, back-off).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.agent.admission import REJECTED, Rejection
from fathom.agent.backoff import crashes_after, delay_s
from fathom.agent.container_views import Container, ContainerView, Views, containers_of, restarts_for
from fathom.agent.plan import NEVER_STARTED, past_deadline, phase_at_end, start_ns
from fathom.agent.runtime import ContainerRun, Exit
from fathom.model.conditions import Status, find_condition, set_condition
from fathom.model.objects import Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.times import timestamp

MESSAGE_LENGTH_MAX = 1024


class PodPlace(msgspec.Struct, frozen=True):
    """The pod's address and its node's."""

    pod_ip: str
    host_ip: str


def pod_status(pod: Obj, views: Views, place: PodPlace, *, now_ns: int, over: bool = False) -> Obj:
    """The whole status. `over`: no container runs, and none will."""
    before, now = pod.get("status") or {}, timestamp(now_ns)
    phase, reason, message = _phase(pod, views, now_ns, over=over)
    status: Obj = {
        **before,
        "phase": phase,
        "conditions": _conditions(pod, views, phase, now=now),
        "startTime": before.get("startTime") or now,
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
    }
    if place.pod_ip:  # A pod that was not admitted has none.
        status |= {"podIP": place.pod_ip, "podIPs": [{"ip": place.pod_ip}]}
    if generation := metadata(pod).get("generation"):
        status["observedGeneration"] = generation
    if reason and not before.get("reason"):
        status |= {"reason": reason, "message": message}
    for field, roles in (("initContainerStatuses", ("init", "sidecar")), ("containerStatuses", ("main",))):
        containers = [container for container in containers_of(pod) if container.role in roles]
        if containers:
            status[field] = [
                _container(pod, container, _view(views, container), now_ns, over=over)
                for container in containers
            ]
    return status


def rejected_status(pod: Obj, rejection: Rejection, *, now_ns: int) -> Obj:
    """The status of a pod that did not fit: no container was started."""
    before, now = pod.get("status") or {}, timestamp(now_ns)
    conditions: list[Obj] = list(before.get("conditions") or ())
    for type_ in ("ContainersReady", "Ready"):
        conditions = _with(conditions, pod, (type_, "False", "PodFailed", ""), now=now)
    failure = {"reason": rejection.reason, "message": REJECTED + rejection.message}
    began = before.get("startTime") or now
    return {**before, "phase": "Failed", **failure, "conditions": conditions, "startTime": began}


def _view(views: Views, container: Container) -> ContainerView:
    return views.get(container.name, NEVER_STARTED)


# Phase.


def _phase(pod: Obj, views: Views, now_ns: int, *, over: bool) -> tuple[str, str, str]:
    """The phase, its reason and its message."""
    ended = phase_at_end(pod, views, now_ns=now_ns)
    phase = lookup(pod, "status", "phase") or "Pending"
    if ended and over:
        if past_deadline(pod, now_ns):
            return ended, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
        return ended, "", ""
    if over and is_deleting(pod):
        return ("Succeeded" if _all_well(pod, views) else "Failed"), "", ""
    if phase not in TERMINAL_PHASES and (phase == "Running" or _begun(pod, views)):
        return "Running", "", ""
    return phase, "", ""  # What has ended never runs again, though its containers may still be stopping.


def _begun(pod: Obj, views: Views) -> bool:
    """Whether every main container has run at least once."""
    return all(
        _view(views, container).run is not None
        for container in containers_of(pod)
        if container.role == "main"
    )


def _all_well(pod: Obj, views: Views) -> bool:
    runs = [_view(views, container).run for container in containers_of(pod) if container.role == "main"]
    return all(run is not None and run.exit is not None and run.exit.code == 0 for run in runs)


# Conditions: type, status, reason and message.

PodCondition = tuple[str, Status, str, str]


def _conditions(pod: Obj, views: Views, phase: str, *, now: str) -> list[Obj]:
    conditions = list(lookup(pod, "status", "conditions") or ())
    for type_, status, reason, message in (
        _starting(pod, views, phase),
        _initialized(pod, views, phase),
        _containers_ready(pod, views, phase),
        _ready(pod, views, phase, conditions),
    ):
        conditions = _with(conditions, pod, (type_, status, reason, message), now=now)
    if find_condition(conditions, "PodScheduled") is None:  # Bound by its creator, without a scheduler.
        conditions = _with(conditions, pod, ("PodScheduled", "True", "", ""), now=now)
    return conditions


def _with(conditions: Sequence[Obj], pod: Obj, values: PodCondition, *, now: str) -> list[Obj]:
    type_, status, reason, message = values
    generation = metadata(pod).get("generation")
    changed = set_condition(
        conditions, type=type_, status=status, reason=reason, message=message[:MESSAGE_LENGTH_MAX],
        observed_generation=generation, now=now,
    )  # fmt: skip
    return [_bare(condition) if condition.get("type") == type_ else condition for condition in changed]


def _bare(condition: Obj) -> Obj:
    """Kubernetes leaves empty fields out of a pod's conditions."""
    return {name: value for name, value in condition.items() if value != ""}


def _starting(pod: Obj, views: Views, phase: str) -> PodCondition:
    if phase in TERMINAL_PHASES:
        return "Starting", "True", "Ended", ""
    done: PodCondition | None = None  # Ended for good, while others run.
    for container in containers_of(pod):
        view = _view(views, container)
        if view.trouble is not None and not view.running:
            return "Starting", "True", view.trouble.reason, f"{container.name}: {view.trouble.message}"
        if view.run is None:
            return "Starting", "True", "ContainerCreating", f"container {container.name} has not started yet"
        exit_ = view.run.exit
        if exit_ is not None and (container.role == "main" or exit_.code):
            restarts = restarts_for(container, pod, exit_.code)
            ended = "CrashLoopBackOff" if restarts else "Error" if exit_.code else "Completed"
            condition: PodCondition = ("Starting", "True", ended, f"{container.name} {_exit_text(exit_)}")
            if restarts:
                return condition
            done = condition
        if view.running and container.role == "init":
            return "Starting", "True", "PodInitializing", f"init container {container.name} has not ended yet"
        if view.running and not (view.health.started and view.health.ready):
            if not view.health.said:
                return "Starting", "True", "ProbePending", f"{container.name}: no probe has passed yet"
            return "Starting", "True", "WaitingForProbe", f"{container.name}: {view.health.said}"
    if done is not None:
        return done
    notes = [
        f"{container.name}: {_view(views, container).health.note}"
        for container in containers_of(pod)
        if _view(views, container).health.note
    ]
    return "Starting", "True", "Started", "; ".join(notes)


def _exit_text(exit_: Exit) -> str:
    return f"ended with code {exit_.code}{': ' + exit_.message if exit_.message else ''}"


def _initialized(pod: Obj, views: Views, phase: str) -> PodCondition:
    if phase == "Succeeded":
        return "Initialized", "True", "PodCompleted", ""
    # Once initialized, a pod stays so: sidecars that end with the others do not undo it, and `_state` reports
    # containers that never started by it.
    begun = _begun(pod, views) or (phase == "Failed" and _was_initialized(pod))
    late = [
        container.name
        for container in containers_of(pod)
        if container.role != "main" and not begun and not _is_initialized(container, _view(views, container))
    ]
    if late:
        message = f"containers with incomplete status: [{' '.join(late)}]"
        return "Initialized", "False", "ContainersNotInitialized", message
    return "Initialized", "True", "", ""


def _is_initialized(container: Container, view: ContainerView) -> bool:
    if container.role == "sidecar":
        return view.running and view.health.started
    return view.run is not None and view.run.exit is not None and view.run.exit.code == 0


def _unready(pod: Obj, views: Views) -> list[str]:
    return [
        container.name
        for container in containers_of(pod)
        if container.role != "init" and not _is_ready(_view(views, container))
    ]


def _is_ready(view: ContainerView) -> bool:
    return view.running and view.health.started and view.health.ready


def _containers_ready(pod: Obj, views: Views, phase: str) -> PodCondition:
    if phase in TERMINAL_PHASES:
        return "ContainersReady", "False", "PodCompleted" if phase == "Succeeded" else "PodFailed", ""
    unready = _unready(pod, views)
    if unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        return "ContainersReady", "False", "ContainersNotReady", message
    return "ContainersReady", "True", "", ""


def _ready(pod: Obj, views: Views, phase: str, conditions: Sequence[Obj]) -> PodCondition:
    _, status, reason, message = _containers_ready(pod, views, phase)
    if status != "True":
        return "Ready", status, reason, message
    for gate in lookup(pod, "spec", "readinessGates") or ():
        condition = find_condition(conditions, gate["conditionType"])
        if condition is None or condition.get("status") != "True":
            problem = "does not exist" if condition is None else "is not true"
            message = f'corresponding condition of pod readiness gate "{gate["conditionType"]}" {problem}.'
            return "Ready", "False", "ReadinessGatesNotReady", message
    return "Ready", "True", "", ""


# Containers.


def _container(pod: Obj, container: Container, view: ContainerView, now_ns: int, *, over: bool) -> Obj:
    run = view.run
    done = container.role == "init" and run is not None and run.exit is not None and run.exit.code == 0
    status: Obj = {
        "name": container.name,
        "image": container.spec.get("image", ""),
        "imageID": container.spec.get("image", "") if run is not None else "",
        "ready": done or (container.role != "init" and _is_ready(view)),
        "started": view.running and view.health.started,
        "restartCount": run.attempt if run is not None else 0,
        "state": _state(pod, container, view, now_ns, over=over),
        "lastState": _last_state(pod, container, view, now_ns, over=over),
    }
    if run is not None:
        status["containerID"] = run.id
    return status


def _state(pod: Obj, container: Container, view: ContainerView, now_ns: int, *, over: bool) -> Obj:
    run = view.run
    if view.running and run is not None:
        return {"running": {"startedAt": timestamp(run.started_ns)}}
    if not over and _waits(pod, container, view, now_ns):
        return {"waiting": _waiting(pod, container, view)}
    if run is not None:
        return {"terminated": terminated(run)}
    if over and _was_initialized(pod):
        return {
            "terminated": {
                "exitCode": 137,
                "reason": "ContainerStatusUnknown",
                "message": "The container could not be located when the pod was terminated",
            }
        }
    # Perhaps for ever: kubelet leaves it so when an init container has failed.
    return {"waiting": {"reason": "PodInitializing" if _after_init(pod, container) else "ContainerCreating"}}


def _waits(pod: Obj, container: Container, view: ContainerView, now_ns: int) -> bool:
    """Whether the next run has to wait, or could not start."""
    if view.trouble is not None:
        return True
    if view.run is None or view.run.exit is None:
        return False
    due_ns = start_ns(pod, container, view)
    return due_ns is not None and due_ns > now_ns


def _waiting(pod: Obj, container: Container, view: ContainerView) -> Obj:
    if view.trouble is not None:
        return {"reason": view.trouble.reason, "message": view.trouble.message[:MESSAGE_LENGTH_MAX]}
    assert view.run is not None
    key = key_of(pod)
    wait_s = delay_s(crashes_after(view.run))
    message = (
        f"back-off {_duration(wait_s)} restarting failed container={container.name} "
        f"pod={key.name}_{key.namespace}({uid_of(pod)})"
    )
    return {"reason": "CrashLoopBackOff", "message": message}


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _was_initialized(pod: Obj) -> bool:
    initialized = find_condition(lookup(pod, "status", "conditions") or (), "Initialized")
    return not lookup(pod, "spec", "initContainers") or (
        initialized is not None and initialized.get("status") == "True"
    )


def _after_init(pod: Obj, container: Container) -> bool:
    return container.role == "main" and bool(lookup(pod, "spec", "initContainers"))


def _last_state(pod: Obj, container: Container, view: ContainerView, now_ns: int, *, over: bool) -> Obj:
    run, previous = view.run, view.previous
    if run is not None and run.exit is not None and not over and _waits(pod, container, view, now_ns):
        return {"terminated": terminated(run)}
    if previous is not None and previous.exit is not None:
        return {"terminated": terminated(previous)}
    return {}


def terminated(run: ContainerRun) -> Obj:
    exit_ = run.exit
    assert exit_ is not None
    ended: Obj = {
        "exitCode": exit_.code,
        "reason": exit_.reason or ("Error" if exit_.code else "Completed"),
        "startedAt": timestamp(run.started_ns),
        "finishedAt": timestamp(exit_.finished_ns),
        "containerID": run.id,
    }
    if exit_.signal:
        ended["signal"] = exit_.signal
    if exit_.message:
        ended["message"] = exit_.message
    return ended
