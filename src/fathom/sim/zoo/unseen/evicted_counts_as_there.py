"""A budget forgets at once which pods were evicted: until their end is seen they count as healthy."""

from __future__ import annotations

from fathom.controllers.budget.plan import still_disrupted
from fathom.sim.zoo import rewrite

ROOM = "controllers/budget"

rewrite(
    still_disrupted,
    "if name in present and _left_s(name, since, now, seen_s) > 0",
    "if False",
)
