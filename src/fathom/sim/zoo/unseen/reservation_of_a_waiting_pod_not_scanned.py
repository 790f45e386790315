"""A reservation whose pod still waits is not scanned again: when it expires, it goes on holding its room."""

from __future__ import annotations

from fathom.controllers.repair.controller import RepairReservations
from fathom.sim.zoo import rewrite

ROOM = "controllers/repair"

rewrite(
    RepairReservations.reconcile,
    'in_s=SCAN_S, why="the next scan"',
    'in_s=SCAN_S if pod is None or lookup(pod, "spec", "nodeName") else None, why="the next scan"',
)
