"""A pod whose obstacle is gone, and that something else keeps waiting by then, is not listed as waiting for
that: the event that would help does not wake it."""

from __future__ import annotations

from fathom.schedule.loop.queue import SchedulingQueue
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    SchedulingQueue.happened,
    "                else:\n                    self._wait_for(entry, hinted.waits)\n",
    "",
)
