"""After the clock was set back, a mark from the future stays the newest: no mark is written and nothing is
compacted until that time has come."""

from __future__ import annotations

from fathom.sim.zoo import rewrite
from fathom.store.retention import plan_retention

ROOM = "store"

rewrite(
    plan_retention,
    "    marks = tuple(mark for mark in marks if mark.time_ns <= now_ns)\n",
    "",
)
