"""Which pod of a Job's index came last is told by the clock of its creation: after the clock was set back, an
older failure counts as the last one, and the index is tried more often than its limit."""

from __future__ import annotations

from fathom.controllers.job import plan_failure_policy
from fathom.sim.zoo import rewrite

ROOM = "controllers/job"
NOT_FOUND_BECAUSE = "It is one of those invented last. No scenario has been written for it yet."

rewrite(
    plan_failure_policy._age,
    'return tries, str(meta.get("creationTimestamp") or ""), str(meta.get("name"))',
    'return 0, str(meta.get("creationTimestamp") or ""), f"{tries:04d}"',
)
