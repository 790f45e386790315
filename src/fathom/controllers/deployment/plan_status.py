"""The status of a Deployment: counts, whether it is available, whether its rollout progresses. Pure.

`Progressing` names the ReplicaSet that it is about, in its message. When another ReplicaSet becomes the
newest, the condition about the previous one no longer applies, and the progress deadline begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.control.plan import WriteStatus, target
from fathom.controllers.deployment.proportions import max_unavailable, wanted_of
from fathom.controllers.deployment.revisions import HISTORY, Sets, notes_of, size_of, total
from fathom.controllers.pod_states import seconds
from fathom.controllers.refusals import REPLICA_FAILURE
from fathom.model.conditions import Status, conditions_of, find_condition, without_condition
from fathom.model.objects import Obj, lookup, metadata

AVAILABLE, PROGRESSING = "Available", "Progressing"
CREATED, FOUND, UPDATED = "NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated"
COMPLETE, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
FAILED_CREATE = "ReplicaSetCreateError"

NO_DEADLINE = 2**31 - 1


def said(
    conditions: Sequence[Obj],
    type_: str,
    status: Status,
    reason: str,
    message: str,
    *,
    now: str,
    refresh: bool = False,
) -> list[Obj]:
    """The conditions with this one set, as Kubernetes' controller does: `lastUpdateTime` moves with the
    reason, or when it is refreshed, `lastTransitionTime` with the status alone."""
    before = find_condition(conditions, type_)
    if (
        before is not None
        and not refresh
        and (before.get("status"), before.get("reason"), before.get("message")) == (status, reason, message)
    ):
        return list(conditions)
    same = before is not None and before.get("status") == status
    condition: Obj = {
        "type": type_,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": (before.get("lastTransitionTime") or now) if same and before else now,
        "reason": reason,
        "message": message,
    }
    return [*without_condition(conditions, type_), condition]


def counts_of(deployment: Obj, sets: Sets) -> Obj:
    everyone = sets.all
    available = total(everyone, "availableReplicas")
    return {
        "observedGeneration": metadata(deployment).get("generation") or 0,
        "replicas": total(everyone, "replicas"),
        "updatedReplicas": 0 if sets.new is None else total((sets.new,), "replicas"),
        "readyReplicas": total(everyone, "readyReplicas"),
        "availableReplicas": available,
        # Left out if it is 0, as in Kubernetes: clients wait for that.
        "unavailableReplicas": max(0, sum(map(size_of, everyone)) - available) or None,
        "terminatingReplicas": total(everyone, "terminatingReplicas"),
    }


def is_complete(deployment: Obj, counts: Obj) -> bool:
    wanted = wanted_of(deployment)
    return bool(counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == wanted)


def plan_status(
    deployment: Obj, sets: Sets, *, now: str, paused_by: str = "", waited_s: float | None = None
) -> tuple[WriteStatus, ...]:
    """`paused_by`: an override that pauses it, beside its own spec. `waited_s`: see `progress_left_s`."""
    counts = counts_of(deployment, sets)
    conditions = _available(deployment, counts, conditions_of(deployment), now)
    conditions = _replica_failure(sets, conditions, now)
    why = f"Deployment is paused by the override {paused_by}" if paused_by else "Deployment is paused"
    paused = why if paused_by or lookup(deployment, "spec", "paused") else ""
    conditions = _progressing(deployment, sets, counts, conditions, now=now, paused=paused, waited_s=waited_s)
    before = deployment.get("status") or {}
    # A count of 0 may be absent on either side.
    is_counted = all((before.get(name) or 0) == (count or 0) for name, count in counts.items())
    if is_counted and conditions == (before.get("conditions") or []):
        return ()
    return (WriteStatus(target("Deployment", deployment), {**counts, "conditions": conditions}),)


def _available(deployment: Obj, counts: Obj, conditions: list[Obj], now: str) -> list[Obj]:
    enough = counts["availableReplicas"] >= wanted_of(deployment) - max_unavailable(deployment)
    if enough:
        message = "Deployment has minimum availability."
        return said(conditions, AVAILABLE, "True", "MinimumReplicasAvailable", message, now=now)
    message = "Deployment does not have minimum availability."
    return said(conditions, AVAILABLE, "False", "MinimumReplicasUnavailable", message, now=now)


def _replica_failure(sets: Sets, conditions: list[Obj], now: str) -> list[Obj]:
    """Copied from the newest ReplicaSet, else from any: what keeps pods from being created."""
    newest_first = [*(() if sets.new is None else (sets.new,)), *reversed(sets.old)]
    failures = [find_condition(conditions_of(replica_set), REPLICA_FAILURE) for replica_set in newest_first]
    failure = next((condition for condition in failures if condition is not None), None)
    if failure is None:
        return without_condition(conditions, REPLICA_FAILURE)
    reason, message = str(failure.get("reason")), str(failure.get("message") or "")
    return said(conditions, REPLICA_FAILURE, failure["status"], reason, message, now=now)


# Progress.


def deadline_s_of(deployment: Obj) -> int | None:
    deadline = lookup(deployment, "spec", "progressDeadlineSeconds")
    return None if deadline is None or deadline >= NO_DEADLINE else int(deadline)


def is_about(condition: Obj | None, new: Obj) -> bool:
    return condition is not None and f'"{metadata(new)["name"]}"' in str(condition.get("message"))


def has_timed_out(deployment: Obj, sets: Sets) -> bool:
    """Whether `Progressing` says that the newest ReplicaSet timed out."""
    condition = find_condition(conditions_of(deployment), PROGRESSING)
    if sets.new is None or condition is None or condition.get("reason") != TIMED_OUT:
        return False
    return is_about(condition, sets.new)


def _progressing(
    deployment: Obj,
    sets: Sets,
    counts: Obj,
    conditions: list[Obj],
    *,
    now: str,
    paused: str,
    waited_s: float | None,
) -> list[Obj]:
    if deadline_s_of(deployment) is None:
        return without_condition(conditions, PROGRESSING)
    current = find_condition(conditions, PROGRESSING)
    waiting = _paused(paused, current, conditions, now)
    if waiting is not None:
        return waiting
    if sets.new is None:
        return conditions
    name = metadata(sets.new)["name"]
    if is_complete(deployment, counts):
        message = f'ReplicaSet "{name}" has successfully progressed.'
        return said(conditions, PROGRESSING, "True", COMPLETE, message, now=now)
    if current is None or (current.get("reason") != RESUMED and not is_about(current, sets.new)):
        return _begun(sets.new, conditions, now)
    was_complete = current.get("reason") == COMPLETE
    if was_complete and counts["replicas"] == counts["updatedReplicas"]:
        return conditions  # The rollout is complete. Pods that fail later do not change that.
    if _has_progressed(deployment, counts):
        message = f'ReplicaSet "{name}" is progressing.'
        return said(conditions, PROGRESSING, "True", UPDATED, message, now=now, refresh=True)
    # Pods that another client made for an old revision do not make a complete rollout late.
    is_late = not was_complete and not progress_left_s(deployment, conditions, now, waited_s)
    if is_late and current.get("reason") != TIMED_OUT:
        message = f'ReplicaSet "{name}" has timed out progressing.'
        return said(conditions, PROGRESSING, "False", TIMED_OUT, message, now=now)
    return conditions


def _begun(new: Obj, conditions: list[Obj], now: str) -> list[Obj]:
    """A ReplicaSet that was the newest before is "found" again; any other was created for this rollout."""
    existed = HISTORY in notes_of(new)
    message = f'{"Found" if existed else "Created"} new replica set "{metadata(new)["name"]}"'
    return said(
        conditions, PROGRESSING, "True", FOUND if existed else CREATED, message, now=now, refresh=True
    )


def _paused(paused: str, current: Obj | None, conditions: list[Obj], now: str) -> list[Obj] | None:
    """Paused time does not count as time without progress. A rollout that has failed stays failed."""
    if current is not None and current.get("reason") == TIMED_OUT:
        return conditions if paused else None
    if paused:
        return said(conditions, PROGRESSING, "Unknown", PAUSED, paused, now=now)
    if current is not None and current.get("reason") == PAUSED:
        return said(conditions, PROGRESSING, "Unknown", RESUMED, "Deployment is resumed", now=now)
    return None


def _has_progressed(deployment: Obj, counts: Obj) -> bool:
    """More updated pods, fewer old ones, or more that are ready or available."""
    before = deployment.get("status") or {}

    def was(name: str) -> int:
        return int(before.get(name) or 0)

    old_before = was("replicas") - was("updatedReplicas")
    return bool(
        counts["updatedReplicas"] > was("updatedReplicas")
        or counts["replicas"] - counts["updatedReplicas"] < old_before
        or counts["readyReplicas"] > was("readyReplicas")
        or counts["availableReplicas"] > was("availableReplicas")
    )


def progressed_at(deployment: Obj) -> str | None:
    """When `Progressing` was last updated."""
    condition = find_condition(conditions_of(deployment), PROGRESSING) or {}
    return condition.get("lastUpdateTime") or condition.get("lastTransitionTime")


def without_progress_s(deployment: Obj, age_s: float | None, seen_s: float) -> float | None:
    """How long it counts as being without progress. `age_s`: how old its last update is, by the wall clock if
    that was written before its controller looked; `seen_s`: for how long the controller has seen it.

    1. A leader whose clock is behind writes when the rollout progressed. 2. Another one takes over, whose
    clock is ahead: the rollout would be given up at once, and perhaps reverted.

    So who gives it up has itself seen no progress for half of its time. Not for all of it: where leaders
    change often, nobody would."""
    deadline_s = deadline_s_of(deployment)
    return age_s if age_s is None or deadline_s is None else min(age_s, deadline_s / 2 + seen_s)


def progress_left_s(
    deployment: Obj, conditions: Sequence[Obj], now: str, waited_s: float | None = None
) -> float:
    """How long it may still be without progress; 0 when that time is over. `waited_s`: how long it has been
    (see `without_progress_s`); None: by the wall clock."""
    deadline_s, condition = deadline_s_of(deployment), find_condition(conditions, PROGRESSING)
    if deadline_s is None or condition is None:
        return float("inf")
    since = condition.get("lastUpdateTime") or condition.get("lastTransitionTime")
    return max(0.0, deadline_s - (seconds(now) - seconds(since) if waited_s is None else waited_s))


def look_again_s(deployment: Obj, *, now: str, waited_s: float | None = None) -> float | None:
    """When to check the deadline again, if anything depends on it."""
    condition = find_condition(conditions_of(deployment), PROGRESSING)
    if condition is None or condition.get("reason") in {COMPLETE, TIMED_OUT, PAUSED}:
        return None
    left_s = progress_left_s(deployment, conditions_of(deployment), now, waited_s)
    return None if left_s == float("inf") else left_s + 1.0
