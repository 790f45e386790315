"""What was last done for a workload and what last went wrong, read from its objects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fathom.controllers.pod_states import seconds
from fathom.controllers.progress.pod_stages import MESSAGE_LENGTH_MAX
from fathom.kinds.workload_progress import LastAction, LastError
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.well_known import DECISION_ANNOTATION


def last_action(workload: Obj, sets: Sequence[Obj], pods: Sequence[Obj]) -> LastAction | None:
    """The newest; of actions within one second, the later one in a pod's life."""
    in_order = (_creations(sets, "deployments"), _creations(pods, _creator(workload)), _bindings(pods))
    actions = [
        (seconds(action.time), number, action.action, action)
        for number, group in enumerate(in_order)
        for action in group
    ]
    return max(actions, key=lambda entry: entry[:3])[3] if actions else None


def _creator(workload: Obj) -> str:
    return "jobs" if workload.get("kind") == "Job" else "replicasets"


def _creations(objs: Iterable[Obj], controller: str) -> list[LastAction]:
    return [
        LastAction(
            controller=controller,
            action=f"create {obj.get('kind', '')} {metadata(obj)['name']}".replace("  ", " "),
            time=str(metadata(obj).get("creationTimestamp") or ""),
        )
        for obj in objs
    ]


def _bindings(pods: Iterable[Obj]) -> list[LastAction]:
    actions = []
    for pod in pods:
        condition = find_condition(conditions_of(pod), "PodScheduled")
        node = lookup(pod, "spec", "nodeName")
        if condition is not None and node and condition.get("status") == "True":
            actions.append(
                LastAction(
                    controller="scheduler",
                    action=f"bind Pod {metadata(pod)['name']} to {node}",
                    decision=str((metadata(pod).get("annotations") or {}).get(DECISION_ANNOTATION, "")),
                    time=str(condition.get("lastTransitionTime") or ""),
                )
            )
    return actions


def last_error(workload: Obj, refusal_sources: Sequence[Obj], pods: Sequence[Obj]) -> LastError | None:
    """`refusal_sources`: the objects that may carry the server's refusal of a pod."""
    errors = [
        *_failed_conditions((workload,), "Progressing", "False", "deployments"),
        *_failed_conditions((workload,), "Failed", "True", "jobs"),
        *_failed_conditions(refusal_sources, "ReplicaFailure", "True", _creator(workload)),
        *_failed_conditions(pods, "PodScheduled", "False", "scheduler"),
        *_containers(pods),
        *_probes(pods),
    ]
    return max(errors, key=lambda error: (seconds(error.time), error.message), default=None)


def _failed_conditions(objs: Iterable[Obj], type_: str, status: str, controller: str) -> list[LastError]:
    errors = []
    for obj in objs:
        condition = find_condition(conditions_of(obj), type_)
        if condition is not None and condition.get("status") == status:
            errors.append(
                LastError(
                    controller=controller,
                    reason=str(condition.get("reason") or ""),
                    message=f"{metadata(obj)['name']}: {condition.get('message') or ''}"[:MESSAGE_LENGTH_MAX],
                    time=str(condition.get("lastTransitionTime") or ""),
                )
            )
    return errors


def _containers(pods: Iterable[Obj]) -> list[LastError]:
    errors = []
    for pod in pods:
        for field in ("initContainerStatuses", "containerStatuses"):
            for container in lookup(pod, "status", field) or ():
                errors += _container(pod, container)
    return errors


def _container(pod: Obj, container: Obj) -> list[LastError]:
    """A container that cannot be started, or whose last run failed, also while it runs again: the exit code
    says more than that it is in back-off."""
    waiting = lookup(container, "state", "waiting") or {}
    ended = lookup(container, "state", "terminated") or lookup(container, "lastState", "terminated") or {}
    is_waiting = waiting.get("reason") not in {None, "ContainerCreating", "PodInitializing"}
    words = [_end(ended)] if ended.get("exitCode") else []
    words += [str(waiting["message"])] if is_waiting and waiting.get("message") else []
    if not is_waiting and not ended.get("exitCode"):
        return []
    return [
        LastError(
            controller="agent",
            reason=str(waiting["reason"] if is_waiting else ended.get("reason") or "Error"),
            message=f"{metadata(pod)['name']}: {'; '.join(words)}"[:MESSAGE_LENGTH_MAX],
            time=str(ended.get("finishedAt") or metadata(pod).get("creationTimestamp") or ""),
        )
    ]


def _end(ended: Obj) -> str:
    why = ended.get("message") or ended.get("reason") or ""
    return f"exit code {ended['exitCode']}" + (f" ({str(why).strip()})" if why else "")


def _probes(pods: Iterable[Obj]) -> list[LastError]:
    """A container that runs and is not ready gives no reason itself."""
    errors = []
    for pod in pods:
        condition = find_condition(conditions_of(pod), "Starting") or {}
        if condition.get("reason") == "WaitingForProbe":
            errors.append(
                LastError(
                    controller="agent",
                    reason="WaitingForProbe",
                    message=f"{metadata(pod)['name']}: {condition['message']}"[:MESSAGE_LENGTH_MAX],
                    time=str(condition.get("lastTransitionTime") or ""),
                )
            )
    return errors
