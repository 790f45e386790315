"""A bookmark that is older than the cache counts as news: a server that is behind makes an old view look
fresh."""

from __future__ import annotations

from fathom.cache.indexed import IndexedCache
from fathom.sim.zoo import rewrite

ROOM = "cache"
WITHOUT_EFFECT = (
    "A bookmark of fathom's servers says how new it is, and one that is older than the cache says that it"
    " is old: no view looks new by it. It guards against servers that do not say so, of which there is none"
    " in the world."
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
