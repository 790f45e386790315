"""A Job lets a succeeded pod go in the step that lists it: if the write of the list fails, the success is
lost."""

from __future__ import annotations

from fathom.controllers.job.plan import _count
from fathom.sim.zoo import rewrite

ROOM = "controllers/job"

rewrite(
    _count,
    "patches=(*let_go(job_tally.to_release), *writes),",
    (
        'patches=(*let_go([pod for pod in pods if lookup(pod, "status", "phase") == "Succeeded"]), '
        "*let_go(job_tally.to_release), *writes),"
    ),
)
