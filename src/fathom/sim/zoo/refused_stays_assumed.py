"""35. A placement that was refused stays counted on its node: the room that it would have taken is
nobody's."""

from __future__ import annotations

from fathom.schedule.loop.state import SchedulerState
from fathom.sim.zoo import put_back

SCENARIOS = ("preemption", "refused-from-an-old-view")
BREAKS = "no work is left unfinished when settled"


put_back(SchedulerState, "forget", lambda self, uid: None)
