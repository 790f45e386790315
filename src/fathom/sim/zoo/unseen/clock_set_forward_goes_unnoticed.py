"""Only a clock that is set back is noticed: what waits for a time of day comes late after a step forward."""

from __future__ import annotations

from fathom.control.clock_watch import watch_clock
from fathom.sim.zoo import rewrite

ROOM = "control"

rewrite(
    watch_clock,
    "            ahead_ns = now_ns\n            was_set()\n",
    (
        "            is_back, ahead_ns = now_ns < ahead_ns, now_ns\n"
        "            if is_back:\n"
        "                was_set()\n"
    ),
)
