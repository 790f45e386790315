"""The stopIf conditions of a runbook's steps that are done are not watched any more."""

from __future__ import annotations

from fathom.sim.zoo import rewrite
from fathom.steer.plan_run import watched

ROOM = "steer"

rewrite(
    watched,
    "state in (ACTED, DONE)",
    "state == ACTED",
)
