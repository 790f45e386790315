"""How many replicas a HorizontalPodAutoscaler asks for, and why not more. Pure.

    use ──> recommendation ──> held back? ──> stabilized ──> policies ──> min and max ──> paused? ──> replicas

Scaling up is held back while the present replicas do not all work yet: when the scheduler lags, a quota or a
topology holds replicas, or they are still starting, more of them would wait at the same boundary. This is
read from the WorkloadProgress, not guessed from readiness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fathom.cache.needs import Need, NoOlderThan
from fathom.control.plan import NOTHING, OWN_WRITES, Patch, Plan, contains, target
from fathom.controllers.autoscaler.plan_behavior import (
    DOWN,
    UP,
    History,
    least,
    longest_period_s,
    most,
    stabilized,
)
from fathom.controllers.autoscaler.plan_metrics import (
    MeasuredUse,
    Proposal,
    UnknownUse,
    propose,
    tolerance_of,
)
from fathom.controllers.autoscaler.samples import PodSample
from fathom.controllers.deployment.revisions import size_of
from fathom.controllers.override_pauses import as_decisive
from fathom.controllers.pod_states import seconds
from fathom.controllers.progress.pod_stages import START_UP
from fathom.model.conditions import Status, conditions_of, set_condition
from fathom.model.decision import Considered
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Obj, is_deleting, lookup, metadata
from fathom.model.reasons import SCHEDULER, boundary_of
from fathom.model.resource import Resource

SCALE = "scale"  # The subresource.
LATE_S = 60.0  # How late a request may arrive: for longer, kube-apiserver works on none (--request-timeout).
# The first part of condition messages; their Events have the reason alone.
UNREAD = "the HPA was unable to compute the replica count: "
UNSCALED = "the HPA controller was unable to get the target's current scale: "
ABLE, ACTIVE, LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"
PAUSED = "Paused"
HELD_BY = "HeldBy"  # With the boundary that holds scaling up back: HeldByQuota.

BEHIND_READY = ("endpoints", "gateway")
NEEDS: tuple[Need, ...] = (
    OWN_WRITES,
    NoOlderThan(FRESH_S, ("HorizontalPodAutoscaler", "Deployment", "ReplicaSet", "Pod", "WorkloadProgress")),
)


class AutoscalerFacts(msgspec.Struct, frozen=True):
    """The inputs of one decision."""

    workload: Obj | None  # None: the target does not exist, or cannot be scaled.
    resource: Resource | None = None  # Of a workload that is scaled by its `scale` subresource.
    pods: Sequence[Obj] = ()
    samples: Mapping[str, PodSample] = {}
    trouble: str = ""  # Why there are no samples at all.
    progress: Obj | None = None
    paused_by: str = ""  # The override that pauses it, in both directions.
    growth_paused_by: str = ""  # The override that pauses scaling up alone.
    rivals: tuple[str, ...] = ()  # All autoscalers of this workload, if there are several.
    history: History = History()
    term_s: float = 0.0  # How long this process has led.
    needs: tuple[Need, ...] = ()
    considered: tuple[Considered, ...] = ()  # The overrides that pause it.


class AutoscalerStatus(msgspec.Struct, frozen=True):
    type: str
    status: Status
    reason: str
    message: str


FOUND = AutoscalerStatus(
    ABLE, "True", "SucceededGetScale", "the HPA controller was able to get the target's current scale"
)


class ReplicaDecision(msgspec.Struct, frozen=True):
    replicas: int
    why: str
    statuses: tuple[AutoscalerStatus, ...]
    metrics: tuple[Obj, ...] = ()
    recommendation: int | None = None  # By the metrics alone; None if they give no number.
    because: str = ""  # In Kubernetes' short wording, for an Event; `why` is for the journal.


def min_of(autoscaler: Obj) -> int:
    value = lookup(autoscaler, "spec", "minReplicas")
    return 1 if value is None else int(value)


def max_of(autoscaler: Obj) -> int:
    return int(lookup(autoscaler, "spec", "maxReplicas") or 1)


def decide(autoscaler: Obj, facts: AutoscalerFacts, *, now: str) -> ReplicaDecision:
    decided = _unpaused(autoscaler, facts, now=now)
    return decided if facts.workload is None else _unless_paused(facts, decided, size_of(facts.workload))


def _unless_paused(facts: AutoscalerFacts, decided: ReplicaDecision, current: int) -> ReplicaDecision:
    """An override keeps the present number, whatever the reason for another one."""
    by = pausing(facts, decided.replicas, current)
    if not by:
        return decided
    held = AutoscalerStatus(LIMITED, "True", PAUSED, f"paused by the override {by}")
    statuses = (*(status for status in decided.statuses if status.type != LIMITED), held)
    why = f"held at {current} instead of {decided.replicas}: {held.message}; {decided.why}"
    return ReplicaDecision(current, why, statuses, decided.metrics, decided.recommendation)


def pausing(facts: AutoscalerFacts, wanted: int, current: int) -> str:
    """The override that forbids this change of size; '' if none does."""
    if wanted == current:
        return ""
    return facts.paused_by or (facts.growth_paused_by if wanted > current else "")


def _unpaused(autoscaler: Obj, facts: AutoscalerFacts, *, now: str) -> ReplicaDecision:
    if facts.workload is None:
        reference = lookup(autoscaler, "spec", "scaleTargetRef") or {}
        problem = f"{reference.get('kind')} {reference.get('name')} does not exist or cannot be scaled"
        desired = int(lookup(autoscaler, "status", "desiredReplicas") or 0)
        return ReplicaDecision(
            desired,
            problem,
            (AutoscalerStatus(ABLE, "False", "FailedGetScale", f"{UNSCALED}{problem}"),),
            because=problem,
        )
    current = size_of(facts.workload)
    able = FOUND
    if current == 0 and min_of(autoscaler) != 0:
        message = "scaling is disabled since the replica count of the target is zero"
        return ReplicaDecision(
            0, message, (able, AutoscalerStatus(ACTIVE, "False", "ScalingDisabled", message))
        )
    if facts.rivals:
        message = f"the target is controlled by multiple HPAs: {', '.join(facts.rivals)}"
        return ReplicaDecision(
            current, message, (able, AutoscalerStatus(ACTIVE, "False", "AmbiguousSelector", message))
        )
    if not min_of(autoscaler) <= current <= max_of(autoscaler):
        return _into_range(autoscaler, current, able)
    return _by_metrics(autoscaler, facts, current, now)


def _into_range(autoscaler: Obj, current: int, able: AutoscalerStatus) -> ReplicaDecision:
    low, high = min_of(autoscaler), max_of(autoscaler)
    replicas = low if current < low else high
    reason = "TooFewReplicas" if current < low else "TooManyReplicas"
    message = f"the target has {current} replicas; {low} to {high} are allowed"
    beyond = "below Spec.MinReplicas" if current < low else "above Spec.MaxReplicas"
    because = f"Current number of replicas {beyond}"
    statuses = (able, AutoscalerStatus(LIMITED, "True", reason, message))
    return ReplicaDecision(replicas, f"{because}; {message}", statuses, because=because)


def _by_metrics(autoscaler: Obj, facts: AutoscalerFacts, current: int, now: str) -> ReplicaDecision:
    metrics = lookup(autoscaler, "spec", "metrics") or ()
    seen = MeasuredUse(facts.pods, facts.samples, current, seconds(now), tolerance_of(autoscaler))
    results = [propose(metric, seen) for metric in metrics]
    proposals = [result for result in results if isinstance(result, Proposal)]
    unknown = [result for result in results if isinstance(result, UnknownUse)]
    shown = tuple(proposal.metric for proposal in proposals)
    best = max(proposals, key=lambda proposal: proposal.replicas, default=None)
    # A metric that cannot be read might have asked for more: then nothing is scaled down.
    if best is None or (unknown and best.replicas < current):
        why, statuses = _unread(facts, unknown)
        return ReplicaDecision(current, why, statuses, shown, None if best is None else current, because=why)
    message = f"the HPA was able to successfully calculate a replica count from {best.name}"
    active = AutoscalerStatus(ACTIVE, "True", "ValidMetricFound", message)
    return _limited(autoscaler, facts, best, current=current, now=now, active=active, shown=shown)


def _unread(
    facts: AutoscalerFacts, unknown: Sequence[UnknownUse]
) -> tuple[str, tuple[AutoscalerStatus, ...]]:
    first = unknown[0] if unknown else UnknownUse("FailedGetResourceMetric", "spec.metrics is empty")
    why = facts.trouble or first.message
    return why, (FOUND, AutoscalerStatus(ACTIVE, "False", first.reason, f"{UNREAD}{why}"))


def _able() -> AutoscalerStatus:
    return AutoscalerStatus(ABLE, "True", "ReadyForNewScale", "recommended size matches current size")


def _limited(
    autoscaler: Obj,
    facts: AutoscalerFacts,
    best: Proposal,
    *,
    current: int,
    now: str,
    active: AutoscalerStatus,
    shown: tuple[Obj, ...],
) -> ReplicaDecision:
    now_s, recommended = seconds(now), best.replicas
    stable = stabilized(autoscaler, facts.history, recommended, current, now_s)
    able = _able()
    if stable != recommended:
        able = _stabilized(recommended, stable)
    blocked_by = blocker(facts) if stable > current else None
    if blocked_by is not None:
        why = f"{best.why}; held at {current}: {blocked_by.message}"
        return ReplicaDecision(current, why, (able, active, blocked_by), shown, recommended)
    replicas, limit = _within(autoscaler, facts, stable, current, now_s)
    way = f"{best.name} above target" if replicas > current else "All metrics below target"
    why = best.why if replicas == current else f"{way}; {best.why}"
    return ReplicaDecision(replicas, why, (able, active, limit), shown, recommended, because=way)


def _stabilized(recommended: int, stable: int) -> AutoscalerStatus:
    down = recommended < stable
    message = (
        f"recent recommendations were {'higher' if down else 'lower'} than current one, "
        f"applying the {'highest' if down else 'lowest'} recent recommendation: "
        f"{stable} instead of {recommended}"
    )
    return AutoscalerStatus(ABLE, "True", "ScaleDownStabilized" if down else "ScaleUpStabilized", message)


_FASTER = "the desired replica count is {} faster than the maximum scale rate: {} for now"
_BEYOND = "the desired replica count is {} than the {} replica count: {}"


def _within(
    autoscaler: Obj, facts: AutoscalerFacts, recommended: int, current: int, now_s: float
) -> tuple[int, AutoscalerStatus]:
    history = facts.history
    low, high = min_of(autoscaler), max_of(autoscaler)
    fast, slow = most(autoscaler, history, current, now_s), least(autoscaler, history, current, now_s)
    if _stepped_unseen(autoscaler, facts, now_s, period_s=longest_period_s(autoscaler, "scaleUp", UP)):
        fast = current
    if _stepped_unseen(autoscaler, facts, now_s, period_s=longest_period_s(autoscaler, "scaleDown", DOWN)):
        slow = current
    if recommended > min(high, fast):
        if fast < high:
            return fast, AutoscalerStatus(LIMITED, "True", "ScaleUpLimit", _FASTER.format("increasing", fast))
        return high, AutoscalerStatus(
            LIMITED, "True", "TooManyReplicas", _BEYOND.format("more", "maximum", high)
        )
    if recommended < max(low, slow):
        if slow > low:
            return slow, AutoscalerStatus(
                LIMITED, "True", "ScaleDownLimit", _FASTER.format("decreasing", slow)
            )
        return low, AutoscalerStatus(
            LIMITED, "True", "TooFewReplicas", _BEYOND.format("less", "minimum", low)
        )
    return recommended, AutoscalerStatus(
        LIMITED, "False", "DesiredWithinRange", "the desired count is within the acceptable range"
    )


def _stepped_unseen(autoscaler: Obj, facts: AutoscalerFacts, now_s: float, *, period_s: int) -> bool:
    """Whether an earlier process may have scaled within a policy's period: the size of that step is unknown,
    so there is no step before the period is over. Repeated crashes do not make scaling faster.

    1. The earlier leader writes the time. 2. Its request to scale is slow to arrive. 3. It arrives, and that
    leader dies. So the step may be later than the written time by as long as a request may take; but it was
    before our term, whatever any clock says: nothing holds us for longer than a period of our term."""
    last = str(lookup(autoscaler, "status", "lastScaleTime") or "")
    if not last or last in facts.history.noted or facts.term_s >= period_s:
        return False
    return now_s - seconds(last) < period_s + LATE_S


def rivals_of(autoscaler: Obj, autoscalers: Sequence[Obj]) -> tuple[str, ...]:
    """All autoscalers with the same target; none if there is only one. Two would undo each other's work for
    ever: Kubernetes lets neither scale."""
    own_target = _target_of(autoscaler)
    names = sorted(
        str(metadata(rival)["name"])
        for rival in autoscalers
        if _target_of(rival) == own_target and not is_deleting(rival)
    )
    return tuple(names) if len(names) > 1 else ()


def _target_of(autoscaler: Obj) -> tuple[str, ...]:
    reference = lookup(autoscaler, "spec", "scaleTargetRef") or {}
    group = str(reference.get("apiVersion") or "").rpartition("/")[0]
    return group, str(reference.get("kind")), str(reference.get("name"))


# What holds scaling up back.


def blocker(facts: AutoscalerFacts) -> AutoscalerStatus | None:
    """None if all requested replicas are ready."""
    if facts.workload is None:
        return None
    generation = int(metadata(facts.workload).get("generation") or 0)
    status = (facts.progress or {}).get("status") or {}
    if int(status.get("observedGeneration") or 0) < generation:
        message = f"the progress of generation {generation} is not known yet"
        return AutoscalerStatus(LIMITED, "True", "ProgressUnknown", message)
    current, previous = status.get("current") or {}, status.get("previous") or {}
    desired, ready = int(current.get("desired") or 0), int(current.get("ready") or 0)
    if ready >= desired or ready + int(previous.get("ready") or 0) >= desired:
        return None
    return _held_by(current, desired=desired, ready=ready)


def _held_by(current: Obj, *, desired: int, ready: int) -> AutoscalerStatus:
    reasons = [str(pending.get("reason")) for pending in current.get("pendingReasons") or ()]
    # Ready pods are not waited for; and a rollout itself waits for another reason.
    first = next(
        (reason for reason in sorted(reasons, key="rollout".__eq__) if reason not in BEHIND_READY), ""
    )
    boundary = boundary_of(first) or SCHEDULER
    word = "StartUp" if boundary in START_UP else boundary.capitalize()
    message = f"{desired - ready} of {desired} replicas are not ready yet ({first or 'no reason given'})"
    return AutoscalerStatus(LIMITED, "True", f"{HELD_BY}{word}", message)


# The plan.


def plan_autoscaler(autoscaler: Obj, facts: AutoscalerFacts, decided: ReplicaDecision, *, now: str) -> Plan:
    """The scale time is written before scaling: after a crash, the next process must know of it."""
    if is_deleting(autoscaler):
        return NOTHING
    current = decided.replicas if facts.workload is None else size_of(facts.workload)
    scales = facts.workload is not None and decided.replicas != current
    status: Obj = {
        "observedGeneration": metadata(autoscaler).get("generation") or 0,
        "currentReplicas": current,
        "desiredReplicas": decided.replicas,
        "currentMetrics": list(decided.metrics) or None,
        "conditions": _conditions(autoscaler, decided, scales=scales, now=now),
    }
    if scales:
        status["lastScaleTime"] = now
    patches: list[Patch] = []
    if not _is_written(autoscaler, status):
        patches.append(
            Patch(target("HorizontalPodAutoscaler", autoscaler), {"status": status}, subresource="status")
        )
    if scales and facts.workload is not None:
        at = target(str(facts.workload["kind"]), facts.workload, facts.resource)
        change = {"spec": {"replicas": decided.replicas}}
        how = SCALE if facts.resource is not None else ""
        patches.append(Patch(at, change, subresource=how, destructive=True))
    return Plan(
        patches=tuple(patches),
        needs=(*NEEDS, *facts.needs) if scales else (),
        why=f"{current} -> {decided.replicas}: {decided.why}" if scales else decided.why,
        because=decided.because,
        considered=as_decisive(facts.considered, _paused_by(facts, decided)),
        heeds_pauses=scales,
    )


def _paused_by(facts: AutoscalerFacts, decided: ReplicaDecision) -> str:
    """The override that held back what would have been done without it."""
    held = any(status.reason == PAUSED for status in decided.statuses)
    return (facts.paused_by or facts.growth_paused_by) if held else ""


def _is_written(autoscaler: Obj, status: Obj) -> bool:
    current = autoscaler.get("status") or {}
    filled = {**current, **{name: current.get(name) or 0 for name in ("currentReplicas", "desiredReplicas")}}
    return contains(filled, status)


def _conditions(autoscaler: Obj, decided: ReplicaDecision, *, scales: bool, now: str) -> list[Obj]:
    conditions = conditions_of(autoscaler)
    for status in decided.statuses:
        shown = status
        if status.type == ABLE and scales and status.status == "True":
            message = (
                f"the HPA controller was able to update the target scale to {decided.replicas}: {decided.why}"
            )
            shown = AutoscalerStatus(ABLE, "True", "SucceededRescale", message)
        conditions = set_condition(
            conditions,
            type=shown.type,
            status=shown.status,
            reason=shown.reason,
            message=shown.message,
            observed_generation=metadata(autoscaler).get("generation"),
            now=now,
        )
    return conditions
