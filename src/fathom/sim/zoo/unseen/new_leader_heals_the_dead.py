"""A new leader takes the first lease that it reads for a heartbeat: a dead node is healthy again for a
while."""

from __future__ import annotations

from fathom.controllers.node_health.evidence import _is_alive
from fathom.sim.zoo import rewrite

ROOM = "controllers/node_health"

rewrite(
    _is_alive,
    ("return heard.renewed_ns is not None and now_ns - heard.renewed_ns < limits.suspect_s * SECOND_NS"),
    "return now_ns - heard.lease_ns < limits.suspect_s * SECOND_NS",
)
