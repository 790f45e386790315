"""Failures of a probe are counted together although the probe has passed in between."""

from __future__ import annotations

from fathom.agent.probing import judge
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    judge,
    "return ProbeTally(successes, 0, ",
    "return ProbeTally(successes, tally.failures, ",
)
