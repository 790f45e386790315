"""The time that a finished Job is kept is counted from its start, not from its end."""

from __future__ import annotations

from fathom.controllers.job.plan import ttl_left_s
from fathom.sim.zoo import rewrite

ROOM = "controllers/job"

rewrite(
    ttl_left_s,
    'return seconds(ended.get("lastTransitionTime")) + int(ttl) - seconds(now)',
    'return seconds(lookup(job, "status", "startTime")) + int(ttl) - seconds(now)',
)
