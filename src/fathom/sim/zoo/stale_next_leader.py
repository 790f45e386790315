"""23. Whoever begins to lead acts on a view from before its term: what the leader before it made is made once
more."""

from __future__ import annotations

from typing import Any

from fathom.sim.standins.term import Floor
from fathom.sim.zoo import put_back

SCENARIOS = ("replicas-handed-over",)
BREAKS = "children ≤ desired + surge"


async def any_view(self: Any) -> int:
    return 0


put_back(Floor, "revision", any_view)
