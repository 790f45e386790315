"""23. A new leader acts on a view from before its term: it creates again what the leader before it has
created."""

from __future__ import annotations

from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.sim.zoo import put_back

SCENARIOS = ("replicas-handed-over",)
BREAKS = "children ≤ desired + surge"


put_back(LeaderMinRevision, "needs", property(lambda self: ()))
