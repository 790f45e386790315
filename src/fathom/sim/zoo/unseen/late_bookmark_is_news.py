"""A bookmark counts as of when it arrives, not of when it was sent: a view that a slow connection delivers
late counts as fresh."""

from __future__ import annotations

from fathom.cache.indexed import IndexedCache
from fathom.sim.zoo import rewrite

ROOM = "cache"

rewrite(
    IndexedCache._bookmarked,
    "applied.as_of_s = now_s if age_s is None else min(now_s, opened_s + age_s)",
    "applied.as_of_s = now_s",
)
