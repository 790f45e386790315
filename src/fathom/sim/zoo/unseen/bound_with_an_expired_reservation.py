"""The API server binds with a reservation that has expired."""

from __future__ import annotations

from fathom.kinds.reservation import reservation_usable
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    reservation_usable,
    "return expires_ns is None or now_ns < expires_ns",
    "return True",
)
