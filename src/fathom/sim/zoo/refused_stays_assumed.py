"""35. The scheduler still counts a refused placement on its node: no pod gets the room that it would have
taken."""

from __future__ import annotations

from fathom.schedule.loop.state import SchedulerState
from fathom.sim.zoo import put_back

SCENARIOS = ("preemption", "refused-from-an-old-view")
BREAKS = "no work is left unfinished when settled"


put_back(SchedulerState, "forget", lambda self, uid: None)
