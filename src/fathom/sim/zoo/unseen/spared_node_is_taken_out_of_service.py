"""The pods of a node that another path sees alive are taken out of service all the same."""

from __future__ import annotations

from fathom.controllers.node_health.controller import Nodes
from fathom.sim.zoo import rewrite

ROOM = "controllers/node_health"

rewrite(
    Nodes.reconcile,
    "allowed.allowed < NodeState.UNREACHABLE or assessment.spared:",
    "allowed.allowed < NodeState.UNREACHABLE:",
)
