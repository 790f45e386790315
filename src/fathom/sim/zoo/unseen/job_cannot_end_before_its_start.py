"""A Job that succeeds after the clock was set back gets a completion time before its start: the API server
refuses that, and the Job does not end."""

from __future__ import annotations

from fathom.controllers.job.plan import _completed
from fathom.sim.zoo import rewrite

ROOM = "controllers/job"

rewrite(
    _completed,
    "return str(started) if started is not None and seconds(started) > seconds(now) else now",
    "return now",
)
