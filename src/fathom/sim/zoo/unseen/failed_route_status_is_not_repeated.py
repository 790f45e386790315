"""The gateway does not write a route's status again after a write that failed: the route never says whether
its weights are in force, until something else changes."""

from __future__ import annotations

from fathom.gateway.controller import Gateway
from fathom.sim.zoo import rewrite

ROOM = "gateway"

rewrite(
    Gateway._wait,
    "failed = self._unsure or self._unwritten or (",
    "failed = self._unsure or (",
)
