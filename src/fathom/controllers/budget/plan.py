"""How many pods of a PodDisruptionBudget may be evicted now. Pure.

Clients use up what it allows at once, so the number is raised only from a view that is known to be fresh; any
view will do to lower it. Each write applies only to the revision of the budget that was read: it does not
undo an eviction that was counted in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    budget: Obj, pods: Sequence[Obj], expected: Expected, *, now: str, needs: tuple[Need, ...] = ()
) -> Plan:
    """`pods`: those that the budget selects and that have not ended."""
    if is_deleting(budget):
        return NOTHING
    disrupted = still_disrupted(budget, pods, now=now)
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


def still_disrupted(budget: Obj, pods: Sequence[Obj], *, now: str) -> dict[str, str]:
    """Pods that were evicted and are not yet seen to terminate."""
    present = {metadata(pod)["name"] for pod in pods if not is_deleting(pod) and not has_ended(pod)}
    noted: dict[str, str] = lookup(budget, "status", "disruptedPods") or {}
    return {
        name: since
        for name, since in noted.items()
        if name in present and seconds(since) + CONFIRM_S > seconds(now)
    }


def _without_others(budget: Obj, disrupted: dict[str, str]) -> Obj | None:
    """As a merge patch."""
    noted: dict[str, str] = lookup(budget, "status", "disruptedPods") or {}
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


def look_again_s(budget: Obj, pods: Sequence[Obj], *, now: str) -> float | None:
    """When the next unconfirmed eviction is forgotten."""
    ends = [seconds(since) + CONFIRM_S for since in still_disrupted(budget, pods, now=now).values()]
    return min(ends) - seconds(now) + 1.0 if ends else None
