"""2. What is missing from a list is not taken away: whoever was deleted while a cache was cut off lives on in
it (kubernetes#94437)."""

from __future__ import annotations

from fathom.cache.indexed import IndexedCache
from fathom.sim.zoo import put_back

SCENARIOS = ("informer-relists",)
BREAKS = "caches equal the store when settled"

put_back(IndexedCache, "_remove_missing", lambda self, listed, revision, changes: None)
