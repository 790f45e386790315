"""A suspended Job keeps its start time, so that its deadline counts the time in which it was suspended."""

from __future__ import annotations

from fathom.controllers.job.plan import _suspension
from fathom.sim.zoo import rewrite

ROOM = "controllers/job"

rewrite(
    _suspension,
    'return {**status, "startTime": None} if lookup(job, "status", "startTime") else status',
    "return status",
)
