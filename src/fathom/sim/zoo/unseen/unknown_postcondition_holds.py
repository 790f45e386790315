"""A postcondition of a runbook that cannot be observed counts as holding."""

from __future__ import annotations

from fathom.sim.zoo import rewrite
from fathom.steer.plan_run import observed_now

ROOM = "steer"

rewrite(
    observed_now,
    "if check.purpose == AT_END and verdict.value == TRUE",
    "if check.purpose == AT_END and verdict.value != FALSE",
)
