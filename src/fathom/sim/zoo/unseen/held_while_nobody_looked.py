"""A postcondition counts as held during a time in which nobody looked."""

from __future__ import annotations

from fathom.sim.zoo import rewrite
from fathom.steer.plan_run import observed_now

ROOM = "steer"

rewrite(
    observed_now,
    "earlier = before.held_since if looked_ns - before.looked_ns <= GAP_NS_MAX else {}",
    "earlier = before.held_since",
)
