"""39. A new leader deletes pods by a view from before its term, which is recent enough by the clock: its
predecessor's last deletion is not in it, so one pod too many is deleted."""

from __future__ import annotations

from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.sim.zoo import put_back

SCENARIOS = ("what-a-new-leader-has-not-heard",)
BREAKS = "never below minimum available"


put_back(LeaderMinRevision, "needs", property(lambda self: ()))
