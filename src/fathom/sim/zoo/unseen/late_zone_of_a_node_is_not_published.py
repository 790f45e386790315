"""Endpoints that were published without a zone do not get it when their node's zone becomes known."""

from __future__ import annotations

from fathom.controllers.endpoints.controller import _services_with_another_zone
from fathom.sim.zoo import rewrite

ROOM = "controllers/endpoints"

rewrite(
    _services_with_another_zone,
    "if service is not None and zones != {zone}:",
    'if service is not None and zones - {"", zone}:',
)
