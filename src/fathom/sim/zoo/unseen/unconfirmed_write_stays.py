"""An own write that the watch has passed without its event stays in the cache."""

from __future__ import annotations

from fathom.cache.indexed import IndexedCache
from fathom.sim.zoo import rewrite

ROOM = "cache"
WITHOUT_EFFECT = (
    "Answers are put only into caches without a selector, and those get the event of every write. It "
    "guards against servers that leave one out."
)

rewrite(
    IndexedCache._drop_unconfirmed,
    ("            if revision <= self.safe:\n                del self._early[key]\n"),
    (
        "            if revision <= self.safe:\n"
        "                del self._early[key]\n"
        "                continue\n"
    ),
)
