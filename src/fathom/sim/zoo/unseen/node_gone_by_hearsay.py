"""Repair ends a pod whose node its cache does not show, at once and without asking the server."""

from __future__ import annotations

from fathom.controllers.repair.controller import RepairPods
from fathom.sim.zoo import rewrite

ROOM = "controllers/repair"

rewrite(
    RepairPods._without_node,
    "if wait_s > 0:",
    "if False:",
    'node = await self._kit.api.get(NODE.resource, "", where)\n',
    "node = None\n",
)
