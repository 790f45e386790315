"""A bookmark that is older than the cache counts as news: a server that is behind makes an old view look
fresh."""

from __future__ import annotations

from fathom.cache.indexed import IndexedCache
from fathom.sim.zoo import rewrite

ROOM = "cache"
NOT_FOUND_BECAUSE = (
    "Only a server that is behind sends such a bookmark. Of its other bookmarks a cache believes, without "
    "this bug too, that they are current: the invariant about the age of views excepts such servers."
)

rewrite(
    IndexedCache._bookmarked,
    "            return\n",
    (
        "            applied.fresh = True\n"
        "            age_s = watch_age_s(event)\n"
        "            applied.as_of_s = now_s if age_s is None else opened_s + age_s\n"
        "            return\n"
    ),
)
