"""The time that a runbook's step may wait is counted from its act, also when the run was stopped in between:
a run that is resumed later times out at once, although what it waits for is about to come."""

from __future__ import annotations

from fathom.sim.zoo import rewrite
from fathom.steer import plan_run

ROOM = "steer"
NOT_FOUND_BECAUSE = "It is one of those invented last. No scenario has been written for it yet."

rewrite(
    plan_run._after,
    "since_ns = max(moment_ns(record.acted_at) or 0, moment_ns(status.resumed_at) or 0)",
    "since_ns = moment_ns(record.acted_at) or 0",
)
