"""The gateway sends traffic to endpoints that are not ready."""

from __future__ import annotations

from fathom.gateway.routes import _endpoints
from fathom.sim.zoo import rewrite

ROOM = "gateway"

rewrite(
    _endpoints,
    "if not ready and not leaving:",
    "if False:",
)
