"""2. A cache does not remove what is missing from a new list: objects that were deleted while it was cut off
stay in it (kubernetes#94437)."""

from __future__ import annotations

from fathom.cache.indexed import IndexedCache
from fathom.sim.zoo import put_back

SCENARIOS = ("informer-relists",)
BREAKS = "caches equal the store when settled"

put_back(IndexedCache, "_remove_missing", lambda self, listed, revision, changes: None)
