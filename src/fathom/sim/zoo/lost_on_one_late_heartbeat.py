"""19. A node is declared lost when one heartbeat is late, and its pods are evicted."""

from __future__ import annotations

from typing import Any

from fathom.controllers.node_health import controller
from fathom.controllers.node_health.evidence import Assessment, Evidence, HeartbeatTimes, NodeState, assess
from fathom.model.times import SECOND_NS
from fathom.sim.zoo import put_back

SCENARIOS = ("cluster", "late-heartbeats")
BREAKS = "no eviction on weak evidence"

LATE_S = 12.0


def hasty(heard: HeartbeatTimes, *, now_ns: int, **limits: Any) -> Assessment:
    if now_ns - heard.lease_ns > LATE_S * SECOND_NS:
        return Assessment(NodeState.LOST, (Evidence("lease", "its lease is late"),))
    return assess(heard, now_ns=now_ns, **limits)


put_back(controller, "assess", hasty)
