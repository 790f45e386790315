"""How far a workload has come, as one object that clients can read instead of guessing. Pure.

Autoscalers, rollouts and people read it: how many replicas have reached each stage, what the others wait for,
what was last done, what last went wrong, and which boundary holds a stage beyond its deadline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from fathom.cache.needs import Need, NoOlderThan
from fathom.control.ownership import controller_ref, is_controlled_by, named_after
from fathom.control.plan import NOTHING, OWN_WRITES, Create, Delete, Plan, WriteStatus, contains, target
from fathom.controllers.observed_generation import with_observed
from fathom.controllers.pod_states import seconds
from fathom.controllers.progress.missing_pods import MissingPods
from fathom.controllers.progress.pod_stages import MESSAGE_LENGTH_MAX, STAGES, PodStage, reached
from fathom.controllers.refusals import without_refusal
from fathom.kinds.shape import read
from fathom.kinds.workload_progress import LastAction, LastError, PendingReason, Progress
from fathom.model.conditions import Status, conditions_of, set_condition, without_digits
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Obj, is_deleting, key_of, lookup, metadata
from fathom.model.reasons import CRASH
from fathom.model.times import timestamp

NEEDS: tuple[Need, ...] = (OWN_WRITES, NoOlderThan(FRESH_S, ("WorkloadProgress",)))

REASONS_MAX = 10
STUCK_LENGTH_MAX = 1000  # A condition is read in a terminal; `pendingReasons` has all of it.

NUMBERS_WAIT = Plan(why="only numbers in messages have changed, and it was written within the last minute")


class PodCounts(msgspec.Struct, frozen=True):
    """One generation of a workload, as it is seen now."""

    desired: int
    stands: Sequence[PodStage]
    missing: MissingPods = MissingPods("admission")  # Why pods are not created.
    going: MissingPods | None = None  # Why a workload that is being deleted is still there.
    deadline_s: float | None = None  # The workload's own.
    last_action: LastAction | None = None
    last_error: LastError | None = None


def progress_name(kind: str, name: str) -> str:
    return named_after(kind.lower(), name)


def progress_of(counted: PodCounts, *, generation: int, now: str) -> Progress:
    stands = counted.stands
    counts = {stage: reached(stands, number) for number, stage in enumerate(STAGES)}
    deadline_s = _deadline_s(counted)
    return Progress(
        generation=generation,
        desired=counted.desired,
        **counts,
        pending_reasons=_pending(counted),
        last_action=counted.last_action,
        last_error=counted.last_error,
        deadline=None if deadline_s is None else timestamp(round(deadline_s * 1e9)),
        stuck_at=_stuck(counted, seconds(now)),
    )


def _lacking(counted: PodCounts) -> int:
    return max(0, counted.desired - len(counted.stands))


def _waits(counted: PodCounts) -> list[tuple[int, str, float | None]]:
    """Stage, boundary and deadline of all pods that have not arrived. A missing pod is before the first
    stage; but a stalled rollout waits for the pods that exist."""
    waits: list[tuple[int, str, float | None]] = [
        (pod_stage.stage, pod_stage.boundary, pod_stage.deadline_s)
        for pod_stage in counted.stands
        if pod_stage.deadline_s is not None
    ]
    if _lacking(counted):
        stage = len(STAGES) if counted.missing.boundary == "rollout" else -1
        waits.append((stage, counted.missing.boundary, counted.missing.deadline_s))
    if counted.going is not None:
        waits.append((-2, counted.going.boundary, counted.going.deadline_s))
    return waits


def _deadline_s(counted: PodCounts) -> float | None:
    """The earliest deadline of the pods that have not arrived, or the workload's own if that is sooner."""
    waits = _waits(counted)
    deadlines = [*(deadline_s for *_, deadline_s in waits), counted.deadline_s if waits else None]
    return min((end_s for end_s in deadlines if end_s is not None), default=None)


def _stuck(counted: PodCounts, now_s: float) -> str:
    """The boundary of the earliest stage that holds a pod for too long: later stages wait for it. When the
    workload's own deadline is over, every waiting pod counts as late."""
    over = counted.deadline_s is not None and counted.deadline_s <= now_s
    late = [
        (stage, boundary)
        for stage, boundary, deadline_s in _waits(counted)
        if deadline_s is not None and (over or deadline_s <= now_s)
    ]
    return min(late)[1] if late else ""


def _pending(counted: PodCounts) -> tuple[PendingReason, ...]:
    """The reason of a deletion comes first, with a count of 0, as no pod is wanted any more."""
    counts: Counter[str] = Counter()
    messages: dict[str, str] = {}
    if lacking := _lacking(counted):
        counts[counted.missing.boundary] += lacking
        messages[counted.missing.boundary] = counted.missing.message
    for pod_stage in counted.stands:
        if pod_stage.reason:
            counts[pod_stage.reason] += 1
            messages.setdefault(pod_stage.reason, pod_stage.message)
    most = sorted(counts, key=lambda reason: (-counts[reason], reason))[:REASONS_MAX]
    first = [] if counted.going is None else [_deletion_reason(counted.going)]
    since = {CRASH: _crashes_since(counted)}
    reasons = (
        PendingReason(reason, counts[reason], messages[reason][:MESSAGE_LENGTH_MAX], since.get(reason, ""))
        for reason in most
    )
    return (*first, *reasons)


def _crashes_since(counted: PodCounts) -> str:
    """Kept here, as nothing in a pod's status shows when the first of many crashes was."""
    since_s = [pod_stage.since_s for pod_stage in counted.stands if pod_stage.boundary == CRASH]
    return timestamp(round(min(since_s) * 1e9)) if since_s else ""


def said_to_crash_since(progress: Obj | None) -> tuple[str | None, ...]:
    """The start recorded by `_crashes_since`, for the current generation and the previous one."""
    return tuple(
        reason.get("since")
        for which in ("current", "previous")
        for reason in lookup(progress or {}, "status", which, "pendingReasons") or ()
        if reason.get("reason") == CRASH
    )


def _deletion_reason(going: MissingPods) -> PendingReason:
    return PendingReason(going.reason or going.boundary, 0, going.message[:MESSAGE_LENGTH_MAX])


# The object.


def plan_progress(
    workload: Obj,
    progress: Obj | None,
    current: PodCounts,
    before: PodCounts | None,
    *,
    now: str,
    behind: bool = False,
    recently: bool = False,
) -> Plan:
    """`before`: the pods left of earlier generations, if they can be told apart. `behind`: its own controller
    has not observed its newest generation for long. `recently`: it was written within the last minute, so
    other numbers in its messages can wait."""
    if progress is None and is_deleting(workload):
        return NOTHING
    if progress is None:
        return Plan(
            creates=(Create("WorkloadProgress", _new_progress(workload)),), why="create the WorkloadProgress"
        )
    if not is_controlled_by(progress, workload):
        # Of an earlier workload of this name, or without its owner: it is created anew.
        return forget(progress)
    generation = int(metadata(workload).get("generation") or 0)
    if generation < int(lookup(progress, "status", "observedGeneration") or 0):
        # 1. The old leader counts a generation, and dies. 2. The next one has not seen that generation yet.
        # 3. Conditions about a newer generation stay as they are, so its counts would contradict them.
        return NOTHING
    shown = progress_of(current, generation=generation, now=now)
    status: Obj = {
        "current": _plain(shown),
        "observedGeneration": generation,
        "conditions": with_observed(
            _conditions(progress, shown, generation, now, current), workload, behind=behind, now=now
        ),
    }
    previous = _previous(progress, before, generation, now)
    if previous is not None:
        status["previous"] = previous
    written = progress.get("status") or {}
    if all(_same(written.get(name), value) for name, value in status.items()):
        return NOTHING
    if recently and all(
        _same(_without_numbers(written.get(name)), _without_numbers(value)) for name, value in status.items()
    ):
        return NUMBERS_WAIT
    return Plan(statuses=(WriteStatus(target("WorkloadProgress", progress), status),), why=_why(shown))


def forget(progress: Obj | None) -> Plan:
    """The workload is no longer counted. A progress with an owner is deleted with it, but a workload that is
    deleted without its pods leaves this behind too."""
    if progress is None or is_deleting(progress):
        return NOTHING
    deletes = (Delete(target("WorkloadProgress", progress)),)
    return Plan(deletes=deletes, needs=NEEDS, why="its workload is not tracked any more")


def _new_progress(workload: Obj) -> Obj:
    key = key_of(workload)
    reference = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "namespace": key.namespace,
        "name": key.name,
        "uid": metadata(workload)["uid"],
    }
    meta = {
        "name": progress_name(workload["kind"], key.name),
        "namespace": key.namespace,
        "ownerReferences": [controller_ref(workload)],
    }
    return {"metadata": meta, "spec": {"workload": reference}}


def _plain(shown: Progress) -> Obj:
    """Every field, so that a merge patch removes outdated values."""
    fields: Obj = {
        field: getattr(shown, name)
        for field, name in (
            ("generation", "generation"), ("desired", "desired"), *((stage, stage) for stage in STAGES),
        )
    }  # fmt: skip
    fields["pendingReasons"] = [msgspec.to_builtins(reason) for reason in shown.pending_reasons]
    fields["lastAction"] = _or_none(shown.last_action)
    fields["lastError"] = _or_none(shown.last_error)
    fields["deadline"] = shown.deadline
    fields["stuckAt"] = shown.stuck_at or None
    return fields


def _or_none(struct: msgspec.Struct | None) -> Obj | None:
    """Every field here too: this action may lack fields that the previous one had."""
    if struct is None:
        return None
    names = zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True)
    return {encoded: getattr(struct, name) or None for encoded, name in names}


def _same(current: object, value: object) -> bool:
    """Whether writing it would change nothing; an empty list may be absent."""
    if isinstance(value, dict):
        shown = current if isinstance(current, dict) else {}
        return all(_same(shown.get(name), inner) for name, inner in value.items())
    return (current or None) == (value or None) or contains(current, value)


def _without_numbers(value: object, name: str = "") -> object:
    """Without the numbers in messages, and the times of errors that repeat."""
    if isinstance(value, dict):
        return {field: _without_numbers(inner, field) for field, inner in value.items()}
    if isinstance(value, list):
        return [_without_numbers(inner) for inner in value]
    if name == "message" and isinstance(value, str):
        return without_digits(value)
    return None if name == "time" else value


def _previous(progress: Obj, before: PodCounts | None, generation: int, now: str) -> Obj | None:
    """The previous generation: as it is now if its pods can be told apart, else as it was last seen."""
    current = lookup(progress, "status", "current") or {}
    earlier: Obj | None = lookup(progress, "status", "previous")
    if current and int(current.get("generation") or 0) < generation:
        earlier = current
    if earlier is None:  # The first report comes in the middle of a rollout.
        earlier = {"generation": generation - 1} if before is not None and before.stands else None
    if earlier is None:
        return None
    if before is None:
        return _plain(read(Progress, earlier))
    shown = progress_of(before, generation=int(earlier.get("generation") or 0), now=now)
    return _plain(shown)


def _why(shown: Progress) -> str:
    counts = " ".join(f"{stage}={getattr(shown, stage)}" for stage in STAGES)
    return f"desired={shown.desired} {counts}{' stuck at ' + shown.stuck_at if shown.stuck_at else ''}"


WantedCondition = tuple[str, Status, str, str]  # Type, status, reason and message of a condition.


def _conditions(progress: Obj, shown: Progress, generation: int, now: str, current: PodCounts) -> list[Obj]:
    """Under well-known names; each with the generation it is about."""
    conditions = conditions_of(progress)
    if not _lacking(current):
        conditions = without_refusal(conditions)
    for type_, status, reason, message in _wanted_conditions(shown, current):
        conditions = set_condition(
            conditions,
            type=type_,
            status=status,
            reason=reason,
            message=message,
            observed_generation=generation,
            now=now,
        )
    return conditions


def _wanted_conditions(shown: Progress, current: PodCounts) -> tuple[WantedCondition, ...]:
    """A condition is True, and a reason claims something, only if it holds."""
    reasons = ", ".join(reason.reason for reason in shown.pending_reasons)
    waits = f"pending reasons: {reasons}" if reasons else ""
    stuck: WantedCondition = ("Stuck", "False", "WithinDeadlines", "")
    if shown.stuck_at:
        stuck = ("Stuck", "True", shown.stuck_at.capitalize(), _sentences(shown))
    going = current.going is not None
    return (
        _reached("Bound", "AllBound", shown.bound, shown.desired, going=going),
        _retrying(shown, current, waits),
        _reached("Ready", "AllReady", shown.ready, shown.desired, going=going),
        stuck,
    )


def _sentences(shown: Progress) -> str:
    """What the pods wait for, each with its sentence: 'image: no such command; quota/retail: …'"""
    parts = (
        f"{reason.reason}: {reason.message}" if reason.message else reason.reason
        for reason in shown.pending_reasons
    )
    return "; ".join(parts)[:STUCK_LENGTH_MAX]


def _reached(type_: str, all_: str, count: int, desired: int, *, going: bool) -> WantedCondition:
    if going:  # No pod is wanted any more: "all ready" would be read as that it serves.
        return type_, "False", "Deleting", "the workload is being deleted"
    whole, message = count >= desired, f"{count} of {desired} pods are {type_.lower()}"
    return type_, "True" if whole else "False", all_ if whole else "Waiting", message


def _retrying(shown: Progress, current: PodCounts, waits: str) -> WantedCondition:
    """Whether a scheduler looks for nodes. If not, all pods have one, or some did not reach it: they are not
    created, or something holds them back."""
    if shown.queued > shown.bound:
        return "SchedulingRetrying", "True", "Unplaced", waits
    if _lacking(current):
        return "SchedulingRetrying", "False", "NotCreated", waits
    if shown.admitted > shown.queued:
        return "SchedulingRetrying", "False", "NotQueued", waits
    return "SchedulingRetrying", "False", "AllPlaced", ""
