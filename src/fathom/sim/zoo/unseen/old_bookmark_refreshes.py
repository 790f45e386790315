"""A bookmark that is older than the cache counts as news: a server that is behind makes an old view look
fresh."""

from __future__ import annotations

from fathom.cache.indexed import IndexedCache
from fathom.sim.zoo import rewrite

ROOM = "cache"

rewrite(
    IndexedCache._bookmarked,
    "            applied.fresh = True\n",
    ("            pass\n        applied.fresh = True\n"),
)
