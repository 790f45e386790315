"""A bookmark that is older than the cache counts as news: a server that is behind makes an old view look
fresh."""

from __future__ import annotations

from fathom.cache.indexed import IndexedCache
from fathom.sim.zoo import rewrite

ROOM = "cache"
NOT_FOUND_BECAUSE = (
    "No invariant says how new a view is that counts as fresh. Its age begins when an event or a bookmark "
    "arrives, however long it was on its way, so a late one makes an old view look new without this bug."
)

rewrite(
    IndexedCache._bookmarked,
    "            applied.fresh = True\n",
    ("            pass\n        applied.fresh = True\n"),
)
