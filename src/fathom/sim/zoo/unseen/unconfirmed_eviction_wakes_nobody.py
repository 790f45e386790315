"""Nothing wakes a disruption budget when an eviction that never happened expires: it goes on counting the
pod as evicted, and refuses the evictions that it should allow."""

from __future__ import annotations

from fathom.controllers.budget.controller import DisruptionBudgets
from fathom.sim.zoo import rewrite

ROOM = "controllers/budget"
NOT_FOUND_BECAUSE = "It is one of those invented last. No scenario has been written for it yet."

rewrite(
    DisruptionBudgets.reconcile,
    "in_s=look_again_s(budget, pods, now=now, seen_s=seen_s),",
    "in_s=None,",
)
