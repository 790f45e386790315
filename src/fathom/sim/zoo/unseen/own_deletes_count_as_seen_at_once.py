"""An own delete, which has no revision, counts as seen while the cache still has the object."""

from __future__ import annotations

from fathom.cache.own_writes import is_seen
from fathom.sim.zoo import rewrite

ROOM = "cache"

rewrite(
    is_seen,
    "if write.gone:",
    "if write.gone and write.revision:",
)
