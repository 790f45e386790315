"""A pod that was made under the name of a preemption's victim gets the mark that it is being evicted."""

from __future__ import annotations

from fathom.schedule.loop.evictions import _set_disruption_target
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    _set_disruption_target,
    " or uid_of(pod) != victim.uid",
    "",
)
