"""How long a node is still spared after many were silent is counted from when the brake first held it:
after a long outage the last nodes to recover are taken out of service."""

from __future__ import annotations

from fathom.controllers.node_health.controller import Nodes
from fathom.sim.zoo import rewrite

ROOM = "controllers/node_health"

rewrite(
    Nodes._permit,
    "        if allowed.many:\n",
    "        if allowed.many and last.many_ns is None:\n",
)
