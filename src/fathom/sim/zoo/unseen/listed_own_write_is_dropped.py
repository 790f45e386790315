"""An own write that a list confirms before its event comes still counts as unconfirmed: the next event of the
watch removes the object from the cache, although it exists."""

from __future__ import annotations

from fathom.cache.indexed import IndexedCache
from fathom.sim.zoo import rewrite

ROOM = "cache"

rewrite(
    IndexedCache.replace,
    "            self._early = {key: early for key, early in self._early.items() if early[0] > revision}\n",
    "",
)
