"""39. A new leader takes pods by a view from before its term, which is fresh enough by the clock: what its
predecessor took last is in it, so one more goes."""

from __future__ import annotations

from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.sim.zoo import put_back

SCENARIOS = ("what-the-heir-has-not-heard",)
BREAKS = "never below minimum available"


put_back(LeaderMinRevision, "needs", property(lambda self: ()))
