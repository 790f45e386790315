"""The garbage collector deletes an object when one of its owners is gone, although another lives."""

from __future__ import annotations

from fathom.controllers.housekeeping.plan_garbage import plan_dependent
from fathom.sim.zoo import rewrite

ROOM = "controllers/housekeeping"

rewrite(
    plan_dependent,
    "    if solid:\n",
    "    if solid and not gone:\n",
)
