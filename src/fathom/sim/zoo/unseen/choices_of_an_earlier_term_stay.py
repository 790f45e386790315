"""A scheduler that leads again keeps room for pods where it chose to in an earlier term, though others have
led and chosen otherwise since."""

from __future__ import annotations

from fathom.schedule.loop.scheduler import Scheduler
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    Scheduler.run,
    "        self._state.known.forget_choices(self._state.waiting.values())\n",
    "",
)
