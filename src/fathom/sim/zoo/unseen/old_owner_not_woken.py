"""A child that changes hands wakes its new owner only: the old one does not look again."""

from __future__ import annotations

from fathom.control.waking import Waker
from fathom.sim.zoo import rewrite

ROOM = "control"

rewrite(
    Waker._changed,
    "for obj in (before, after) if obj is not None",
    "for obj in (after or before,) if obj is not None",
)
