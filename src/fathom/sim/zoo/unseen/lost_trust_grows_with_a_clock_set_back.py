"""Trust that a node lost at a time which is in the future, since the clock was set back, does not only not
come back: it multiplies, and a node on which a single pod failed to start is quarantined."""

from __future__ import annotations

from fathom.controllers.node_health.plan_trust import points_now
from fathom.sim.zoo import rewrite

ROOM = "controllers/node_health"
NOT_FOUND_BECAUSE = "It is one of those invented last. No scenario has been written for it yet."

rewrite(
    points_now,
    "max(0.0, (now_ns - lost.at_ns) / 1e9)",
    "(now_ns - lost.at_ns) / 1e9",
)
