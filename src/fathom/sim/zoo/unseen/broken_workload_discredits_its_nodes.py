"""A workload that starts nowhere counts as running elsewhere as soon as it has a pod there: its nodes lose
trust, and are quarantined, for its own fault."""

from __future__ import annotations

from fathom.controllers.node_health.trust import runs_elsewhere
from fathom.sim.zoo import rewrite

ROOM = "controllers/node_health"

rewrite(
    runs_elsewhere,
    'is_true(pod, "Ready") and lookup(pod, "spec", "nodeName") != node',
    'lookup(pod, "spec", "nodeName") != node',
)
