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
    in_order = (_made(sets, "deployments"), _made(pods, _maker(workload)), _bound(pods))
    found = [
        (seconds(one.time), number, one.action, one) for number, some in enumerate(in_order) for one in some
    ]
    return max(found, key=lambda one: one[:3])[3] if found else None


def _maker(workload: Obj) -> str:
    return "jobs" if workload.get("kind") == "Job" else "replicasets"


def _made(objs: Iterable[Obj], controller: str) -> list[LastAction]:
    return [
        LastAction(
            controller=controller,
            action=f"create {obj.get('kind', '')} {metadata(obj)['name']}".replace("  ", " "),
            time=str(metadata(obj).get("creationTimestamp") or ""),
        )
        for obj in objs
    ]


def _bound(pods: Iterable[Obj]) -> list[LastAction]:
    found = []
    for pod in pods:
        condition = find_condition(conditions_of(pod), "PodScheduled")
        node = lookup(pod, "spec", "nodeName")
        if condition is not None and node and condition.get("status") == "True":
            found.append(
                LastAction(
                    controller="scheduler",
                    action=f"bind Pod {metadata(pod)['name']} to {node}",
                    decision=str((metadata(pod).get("annotations") or {}).get(DECISION_ANNOTATION, "")),
                    time=str(condition.get("lastTransitionTime") or ""),
                )
            )
    return found


def last_error(workload: Obj, said: Sequence[Obj], pods: Sequence[Obj]) -> LastError | None:
    """`said`: the objects that may carry the server's refusal of a pod."""
    found = [
        *_said((workload,), "Progressing", "False", "deployments"),
        *_said((workload,), "Failed", "True", "jobs"),
        *_said(said, "ReplicaFailure", "True", _maker(workload)),
        *_said(pods, "PodScheduled", "False", "scheduler"),
        *_containers(pods),
        *_probes(pods),
    ]
    return max(found, key=lambda one: (seconds(one.time), one.message), default=None)


def _said(objs: Iterable[Obj], type_: str, status: str, controller: str) -> list[LastError]:
    found = []
    for obj in objs:
        condition = find_condition(conditions_of(obj), type_)
        if condition is not None and condition.get("status") == status:
            found.append(
                LastError(
                    controller=controller,
                    reason=str(condition.get("reason") or ""),
                    message=f"{metadata(obj)['name']}: {condition.get('message') or ''}"[:MESSAGE_LENGTH_MAX],
                    time=str(condition.get("lastTransitionTime") or ""),
                )
            )
    return found


def _containers(pods: Iterable[Obj]) -> list[LastError]:
    found = []
    for pod in pods:
        for field in ("initContainerStatuses", "containerStatuses"):
            for one in lookup(pod, "status", field) or ():
                found += _container(pod, one)
    return found


def _container(pod: Obj, one: Obj) -> list[LastError]:
    """A container that cannot be started, or whose last run failed, also while it runs again: the exit code
    says more than that it is in back-off."""
    waiting = lookup(one, "state", "waiting") or {}
    ended = lookup(one, "state", "terminated") or lookup(one, "lastState", "terminated") or {}
    held = waiting.get("reason") not in {None, "ContainerCreating", "PodInitializing"}
    words = [_end(ended)] if ended.get("exitCode") else []
    words += [str(waiting["message"])] if held and waiting.get("message") else []
    if not held and not ended.get("exitCode"):
        return []
    return [
        LastError(
            controller="agent",
            reason=str(waiting["reason"] if held else ended.get("reason") or "Error"),
            message=f"{metadata(pod)['name']}: {'; '.join(words)}"[:MESSAGE_LENGTH_MAX],
            time=str(ended.get("finishedAt") or metadata(pod).get("creationTimestamp") or ""),
        )
    ]


def _end(ended: Obj) -> str:
    why = ended.get("message") or ended.get("reason") or ""
    return f"exit code {ended['exitCode']}" + (f" ({str(why).strip()})" if why else "")


def _probes(pods: Iterable[Obj]) -> list[LastError]:
    """A container that runs and is not ready gives no reason itself."""
    found = []
    for pod in pods:
        said = find_condition(conditions_of(pod), "Starting") or {}
        if said.get("reason") == "WaitingForProbe":
            found.append(
                LastError(
                    controller="agent",
                    reason="WaitingForProbe",
                    message=f"{metadata(pod)['name']}: {said['message']}"[:MESSAGE_LENGTH_MAX],
                    time=str(said.get("lastTransitionTime") or ""),
                )
            )
    return found
