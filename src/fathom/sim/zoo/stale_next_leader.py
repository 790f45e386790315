"""23. Whoever begins to lead acts on a view from before its term: what the leader before it made is made once
more."""

from __future__ import annotations

from fathom.controllers.floor import Floor
from fathom.sim.zoo import put_back

SCENARIOS = ("replicas-handed-over",)
BREAKS = "children ≤ desired + surge"


put_back(Floor, "needs", property(lambda self: ()))
