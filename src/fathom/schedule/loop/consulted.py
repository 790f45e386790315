"""Policies, rollouts, overrides, quotas, classes and budgets that a decision consults, as records name them.

They are kept as the newest change has them, also where that changed nothing that a rule reads: the record
says which revision of an object was in the view.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.kinds.capacity_class import CAPACITY_CLASSES
from fathom.kinds.policy_rollout import ROLLOUTS
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.kinds.scheduling_policy import POLICIES
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.decision import Considered, considered
from fathom.model.objects import Key, Obj, key_of
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.preempt import ConsultedBudget

BUDGET = "PodDisruptionBudget"
RESOURCES = {
    "TenantQuota": TENANT_QUOTAS,
    "CapacityClass": CAPACITY_CLASSES,
    "SchedulingPolicy": POLICIES,
    "PolicyRollout": ROLLOUTS,
    "SchedulerOverride": OVERRIDES,
    BUDGET: "poddisruptionbudgets.policy",
}


class Consulted(msgspec.Struct, frozen=True):
    """What a decision consults beside nodes and pods. None of it is marked as decisive: that depends on the
    placement."""

    policies: tuple[Considered, ...] = ()  # The policy, and the rollout that made it the pod's.
    overrides: tuple[Considered, ...] = ()
    quotas: tuple[Considered, ...] = ()  # Of the tenant.
    classes: tuple[Considered, ...] = ()  # All of them: which ones matter depends on the nodes.
    budgets: tuple[Considered, ...] = ()  # Of a preemption.


class ConsultedObjects:
    def __init__(self) -> None:
        self._objects: dict[str, dict[Key, Considered]] = {kind: {} for kind in RESOURCES}
        self._last: tuple[PlacementContext, Consulted] | None = None  # The last answer.

    def put(self, kind: str, before: Obj | None, after: Obj | None) -> None:
        if kind != BUDGET:  # Not in an answer of `under`, and their status changes with every pod.
            self._last = None
        if after is None:
            self._objects[kind].pop(key_of(before or {}), None)
        else:
            self._objects[kind][key_of(after)] = considered(RESOURCES[kind], after)

    def under(self, context: PlacementContext) -> Consulted:
        """What a decision under this context consults."""
        if self._last is None or self._last[0] is not context:
            self._last = (context, self._resolved(context))
        return self._last[1]

    def _resolved(self, context: PlacementContext) -> Consulted:
        policy, quota = context.policy, context.quota
        used = self._get("SchedulingPolicy", policy.name) or (Considered(policy.name),)
        overrides = dict.fromkeys(
            [
                *(avoided.override for avoided in context.avoided),
                *(each.override for each in context.allowed),
                *context.raised,
            ]
        )
        return Consulted(
            policies=(*used, *self._get("PolicyRollout", policy.rollout)),
            overrides=tuple(each for name in overrides for each in self._get("SchedulerOverride", name)),
            quotas=() if quota is None else self._get("TenantQuota", quota.tenant),
            classes=tuple(each for _, each in sorted(self._objects["CapacityClass"].items())),
        )

    def with_budgets(self, consulted: Consulted, budgets: Iterable[ConsultedBudget]) -> Consulted:
        known = self._objects[BUDGET]
        named = tuple(
            msgspec.structs.replace(known[budget.key], decisive=budget.decisive)
            for budget in budgets
            if budget.key in known
        )
        return msgspec.structs.replace(consulted, budgets=named) if named else consulted

    def _get(self, kind: str, path: str) -> tuple[Considered, ...]:
        """`path`: 'NAME', or 'NAMESPACE/NAME'. Empty if there is no such object."""
        namespace, _, name = path.rpartition("/")
        obj = self._objects[kind].get(Key(namespace, name))
        return () if obj is None else (obj,)
