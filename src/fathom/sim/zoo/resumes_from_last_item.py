"""3. After a list, the watch begins at the revision of the newest item instead of the list's: changes in
between are delivered again, and deleted objects are added (kopf#42)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fathom.cache.indexed import IndexedCache
from fathom.cache.reflector import Reflector
from fathom.client.events import revision_of
from fathom.sim.zoo import pin, put_back

SCENARIOS = ("informer-relists",)
BREAKS = "no ADDED for a dead UID"

right = IndexedCache.replace


def from_last_item(
    self: IndexedCache, objs: Iterable[Any], revision: int, *rest: Any, **options: Any
) -> None:
    items = list(objs)
    right(self, items, revision, *rest, **options)
    self.safe = self.seen = max(map(revision_of, items), default=revision)


put_back(IndexedCache, "replace", from_last_item)
pin(Reflector, "_has_watch_list", False)
