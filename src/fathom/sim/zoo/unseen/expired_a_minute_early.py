"""Repair calls a reservation expired a minute before it is: just before the scheduler would renew it."""

from __future__ import annotations

from fathom.controllers.repair.plan import _expired
from fathom.sim.zoo import rewrite

ROOM = "controllers/repair"

rewrite(
    _expired,
    "now_ns >= expires_ns and",
    "now_ns >= expires_ns - 65 * 10**9 and",
)
