"""A disruption budget is raised from a view of any age."""

from __future__ import annotations

from fathom.controllers.budget.plan import plan_budget
from fathom.sim.zoo import rewrite

ROOM = "controllers/budget"

rewrite(
    plan_budget,
    "needs=(*NEEDS, *needs) if raises else (),",
    "needs=(),",
)
