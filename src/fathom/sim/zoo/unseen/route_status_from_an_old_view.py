"""The gateway writes a route's status without the revision that it read: it undoes what others observed."""

from __future__ import annotations

from fathom.gateway.controller import Gateway
from fathom.sim.zoo import rewrite

ROOM = "gateway"

rewrite(
    Gateway._write_route_status,
    'read = {"resourceVersion": metadata(route).get("resourceVersion")}',
    "read = {}",
)
