"""Of several TrafficRoutes for one Service, the newest holds, not the oldest."""

from __future__ import annotations

from fathom.gateway.routes import _in_force
from fathom.sim.zoo import rewrite

ROOM = "gateway"

rewrite(
    _in_force,
    "        reverse=True,\n",
    "",
)
