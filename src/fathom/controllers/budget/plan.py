"""How many pods of a PodDisruptionBudget may be evicted now. Pure.

Clients use up what it allows at once, so the number is raised only from a view that is known to be fresh; any
view will do to lower it. Each write applies only to the revision of the budget that was read: it does not
undo an eviction that was counted in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from fathom.cache.needs import Need, NoOlderThan
from fathom.control.plan import NOTHING, OWN_WRITES, Patch, Plan, contains, target
from fathom.controllers.deployment.proportions import resolved
from fathom.controllers.pod_states import has_ended, is_ready, seconds
from fathom.model.conditions import Status, conditions_of, set_condition
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Obj, is_deleting, lookup, metadata

ALLOWED = "DisruptionAllowed"
# An evicted pod that is still there after this time was not evicted; Kubernetes' number.
CONFIRM_S = 120.0
# A note names a whole second, and its event takes a while: so far apart are clocks that were never set.
CLOCKS_DIFFER_S = 5.0

NEEDS: tuple[Need, ...] = (OWN_WRITES, NoOlderThan(FRESH_S, ("PodDisruptionBudget", "Pod")))


class BudgetTrouble(msgspec.Struct, frozen=True):
    """Why the expected number of pods cannot be computed."""

    message: str


class BudgetCounts(msgspec.Struct, frozen=True):
    expected: int
    desired: int  # Healthy.
    healthy: int

    @property
    def allowed(self) -> int:
        return max(0, self.healthy - self.desired) if self.expected > 0 else 0


# How many pods the owners want: the base of a percentage.
Expected = Callable[[], int | BudgetTrouble]


def plan_budget(
    budget: Obj,
    pods: Sequence[Obj],
    expected: Expected,
    *,
    now: str,
    seen_s: Mapping[str, float] | None = None,
    needs: tuple[Need, ...] = (),
) -> Plan:
    """`pods`: those that the budget selects and that have not ended. `seen_s`: for how long each note of an
    eviction has been seen; None: as long as it says."""
    if is_deleting(budget):
        return NOTHING
    disrupted = still_disrupted(budget, pods, now=now, seen_s=seen_s)
    counted = count(budget, pods, disrupted, expected)
    status = (
        _failed(budget, counted, now) if isinstance(counted, BudgetTrouble) else _status(budget, counted, now)
    )
    status["disruptedPods"] = _without_others(budget, disrupted)
    if contains(budget.get("status") or {}, status):
        return NOTHING
    before = int(lookup(budget, "status", "disruptionsAllowed") or 0)
    raises = status["disruptionsAllowed"] > before
    patch = Patch(
        target("PodDisruptionBudget", budget), {"status": status}, subresource="status", destructive=raises
    )
    return Plan(
        patches=(patch,),
        needs=(*NEEDS, *needs) if raises else (),
        why=f"disruptions allowed: {before} -> {status['disruptionsAllowed']}",
    )


def count(
    budget: Obj, pods: Sequence[Obj], disrupted: dict[str, str], expected: Expected
) -> BudgetCounts | BudgetTrouble:
    healthy = sum(_is_healthy(pod, disrupted) for pod in pods)
    spec = budget.get("spec") or {}
    if spec.get("maxUnavailable") is not None:
        expected_pods = expected()
        if isinstance(expected_pods, BudgetTrouble):
            return expected_pods
        missing = resolved(spec["maxUnavailable"], expected_pods, up=True)
        return BudgetCounts(expected_pods, max(0, expected_pods - missing), healthy)
    least = spec.get("minAvailable")
    if least is None:  # Without a limit it allows nothing, as in Kubernetes.
        return BudgetCounts(0, 0, healthy)
    if isinstance(least, int):
        return BudgetCounts(len(pods), least, healthy)
    expected_pods = expected()
    if isinstance(expected_pods, BudgetTrouble):
        return expected_pods
    return BudgetCounts(expected_pods, resolved(least, expected_pods, up=True), healthy)


def _is_healthy(pod: Obj, disrupted: dict[str, str]) -> bool:
    """A terminating pod, or one that was just evicted, counts as gone."""
    return is_ready(pod) and not is_deleting(pod) and metadata(pod)["name"] not in disrupted


def evictions_noted(budget: Obj) -> dict[str, str]:
    """By the pod's name, when it was evicted."""
    return lookup(budget, "status", "disruptedPods") or {}


def still_disrupted(
    budget: Obj, pods: Sequence[Obj], *, now: str, seen_s: Mapping[str, float] | None = None
) -> dict[str, str]:
    """Pods that were evicted and are not yet seen to terminate."""
    present = {metadata(pod)["name"] for pod in pods if not is_deleting(pod) and not has_ended(pod)}
    return {
        name: since
        for name, since in evictions_noted(budget).items()
        if name in present and _left_s(name, since, now, seen_s) > 0
    }


def _left_s(name: str, since: str, now: str, seen_s: Mapping[str, float] | None) -> float:
    """How long the note of an eviction still counts. Where a wall clock was set, the duration counts for
    which the note was seen: an eviction that is forgotten too early lets another one through."""
    by_wall_s = seconds(since) + CONFIRM_S - seconds(now)
    if seen_s is None:
        return by_wall_s
    left_s = CONFIRM_S - seen_s.get(name, 0.0)
    return by_wall_s if abs(by_wall_s - left_s) <= CLOCKS_DIFFER_S else left_s


def _without_others(budget: Obj, disrupted: dict[str, str]) -> Obj | None:
    """As a merge patch."""
    noted = evictions_noted(budget)
    if not noted:
        return None
    return {name: disrupted.get(name) for name in noted} if disrupted else None


def _status(budget: Obj, counted: BudgetCounts, now: str) -> Obj:
    enough = counted.allowed > 0
    return {
        "currentHealthy": counted.healthy,
        "desiredHealthy": counted.desired,
        "expectedPods": counted.expected,
        "disruptionsAllowed": counted.allowed,
        "observedGeneration": metadata(budget).get("generation") or 0,
        "conditions": _conditions(
            budget, "True" if enough else "False", "SufficientPods" if enough else "InsufficientPods", "", now
        ),
    }


def _failed(budget: Obj, trouble: BudgetTrouble, now: str) -> Obj:
    """If the number cannot be computed, no eviction is allowed."""
    return {
        "disruptionsAllowed": 0,
        "observedGeneration": metadata(budget).get("generation") or 0,
        "conditions": _conditions(budget, "False", "SyncFailed", trouble.message, now),
    }


def _conditions(budget: Obj, status: Status, reason: str, message: str, now: str) -> list[Obj]:
    return set_condition(
        conditions_of(budget),
        type=ALLOWED,
        status=status,
        reason=reason,
        message=message,
        observed_generation=metadata(budget).get("generation"),
        now=now,
    )


def look_again_s(
    budget: Obj, pods: Sequence[Obj], *, now: str, seen_s: Mapping[str, float] | None = None
) -> float | None:
    """When the next unconfirmed eviction is forgotten."""
    disrupted = still_disrupted(budget, pods, now=now, seen_s=seen_s)
    left_s = [_left_s(name, since, now, seen_s) for name, since in disrupted.items()]
    return min(left_s) + 1.0 if left_s else None
