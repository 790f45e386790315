"""A candidate takes a lease that was not renewed for three seconds, although it lasts for fifteen."""

from __future__ import annotations

from fathom.control.lease import is_free
from fathom.sim.zoo import rewrite

ROOM = "control"

rewrite(
    is_free,
    "return now_ns - seen.at_ns >= lasts_s * 1e9",
    "return now_ns - seen.at_ns >= min(lasts_s, 3.0) * 1e9",
)
