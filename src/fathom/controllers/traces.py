"""What was last done for a workload, what last went wrong, and why pods of it are missing, told from what its
objects say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fathom.controllers.podstates import seconds
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.own import LastAction, LastError

DECISION = "fathom.dev/decision"
MESSAGE_LENGTH_MAX = 500


def last_action(workload: Obj, sets: Sequence[Obj], pods: Sequence[Obj]) -> LastAction | None:
    """The newest; of what happened within one second, what comes later in a pod's life."""
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
                    decision=str((metadata(pod).get("annotations") or {}).get(DECISION, "")),
                    time=str(condition.get("lastTransitionTime") or ""),
                )
            )
    return found


def last_error(workload: Obj, sets: Sequence[Obj], pods: Sequence[Obj]) -> LastError | None:
    found = [
        *_said((workload,), "Progressing", "False", "deployments"),
        *_said((workload, *sets), "ReplicaFailure", "True", "replicasets"),
        *_said(pods, "PodScheduled", "False", "scheduler"),
        *_containers(pods),
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
        for one in lookup(pod, "status", "containerStatuses") or ():
            waiting = lookup(one, "state", "waiting") or {}
            if waiting.get("reason") in {None, "ContainerCreating", "PodInitializing"}:
                continue
            ended = lookup(one, "lastState", "terminated", "finishedAt")
            found.append(
                LastError(
                    controller="agent",
                    reason=str(waiting["reason"]),
                    message=f"{metadata(pod)['name']}: {waiting.get('message') or ''}"[:MESSAGE_LENGTH_MAX],
                    time=str(ended or metadata(pod).get("creationTimestamp") or ""),
                )
            )
    return found


def why_missing(workload: Obj, sets: Sequence[Obj]) -> tuple[str, str, float] | None:
    """Boundary, message and since when. None where nobody says why: they are simply not made yet."""
    for obj in (*sets, workload):
        condition = find_condition(conditions_of(obj), "ReplicaFailure")
        if condition is not None and condition.get("status") == "True":
            message = str(condition.get("message") or "")
            boundary = "quota" if "quota" in message.lower() else "admission"
            return boundary, message[:MESSAGE_LENGTH_MAX], seconds(condition.get("lastTransitionTime"))
    return None
