"""The condition that takes pods of a silent node out of service names no generation: it does not replace
the agent's."""

from __future__ import annotations

from fathom.controllers.node_health.plan import _not_ready
from fathom.sim.zoo import rewrite

ROOM = "controllers/node_health"

rewrite(
    _not_ready,
    '        observed_generation=metadata(pod).get("generation"),\n',
    "",
)
