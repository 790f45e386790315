"""An index of a Job that has failed for good is started again."""

from __future__ import annotations

from fathom.controllers.job.plan_pods import new_pods
from fathom.sim.zoo import rewrite

ROOM = "controllers/job"

rewrite(
    new_pods,
    "{*(job_tally.indexes or ()), *(job_tally.failed_indexes or ()), *waiting}",
    "{*(job_tally.indexes or ()), *waiting}",
)
