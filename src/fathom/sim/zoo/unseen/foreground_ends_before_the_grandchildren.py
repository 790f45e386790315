"""A deletion in the foreground waits for children only: a Deployment is gone while the pods of its
ReplicaSets still run."""

from __future__ import annotations

from fathom.controllers.housekeeping.plan_garbage import plan_dependent
from fathom.sim.zoo import rewrite

ROOM = "controllers/housekeeping"

rewrite(
    plan_dependent,
    'return Collect("Foreground")',
    "return Collect(_policy(obj))",
)
