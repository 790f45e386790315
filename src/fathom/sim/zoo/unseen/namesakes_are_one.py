"""A cache that missed a deletion reports the next object of the name as a change of the first."""

from __future__ import annotations

from fathom.cache.indexed import IndexedCache
from fathom.sim.zoo import rewrite

ROOM = "cache"

rewrite(
    IndexedCache._put,
    "if old is not None and uid_of(old) != uid_of(obj):",
    "if False:",
)
