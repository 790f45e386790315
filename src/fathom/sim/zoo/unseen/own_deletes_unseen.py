"""An own deletion counts as seen at once: the next decision is made with the deleted object in view."""

from __future__ import annotations

from fathom.cache.own_writes import is_seen
from fathom.sim.zoo import rewrite

ROOM = "cache"

rewrite(
    is_seen,
    "    if write.gone:\n",
    ("    if write.gone:\n        return True\n    if write.gone:\n"),
)
