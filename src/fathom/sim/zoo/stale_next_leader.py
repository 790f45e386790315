"""23. Whoever begins to lead acts on a view from before its term: what the leader before it made is made once
more."""

from __future__ import annotations

from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.sim.zoo import put_back

SCENARIOS = ("replicas-handed-over",)
BREAKS = "children ≤ desired + surge"


put_back(LeaderMinRevision, "needs", property(lambda self: ()))
