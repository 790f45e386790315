"""Once the clock was ahead, what the scheduler decided without an override that seemed over goes on after
the clock is set back, although that override is in force again."""

from __future__ import annotations

from fathom.schedule.loop.override_ends import OverrideEnds
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    OverrideEnds.around,
    "        since_ns = self._ends[count - 1][0] if count else 0\n        return since_ns, ",
    "        return 0, ",
)
