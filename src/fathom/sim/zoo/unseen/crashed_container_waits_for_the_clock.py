"""A container that ended before the clock was set back is not started again until the clock has reached that
time once more."""

from __future__ import annotations

from fathom.agent import plan
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    plan._start,
    "if now_ns < due_ns <= now_ns + round(CRASH_LOOP.s_max) * SECOND_NS:",
    "if now_ns < due_ns:",
)
