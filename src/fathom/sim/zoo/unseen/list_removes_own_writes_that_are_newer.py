"""A relist removes objects that own writes put into the cache, although they are newer than the list."""

from __future__ import annotations

from fathom.cache.indexed import IndexedCache
from fathom.sim.zoo import rewrite

ROOM = "cache"

rewrite(
    IndexedCache._remove_missing,
    "if old is not None and _revision_at(old) <= revision:",
    "if old is not None:",
)
