"""Nothing wakes a Job when its deadline is over: it runs on until something else happens."""

from __future__ import annotations

from fathom.controllers.job.plan import look_again_s
from fathom.sim.zoo import rewrite

ROOM = "controllers/job"

rewrite(
    look_again_s,
    "waits_s = [deadline_left_s(job, now), backoff_left_s(job, pods, now) or None]",
    "waits_s = [backoff_left_s(job, pods, now) or None]",
)
