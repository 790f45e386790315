"""1. A cache lists again after every end of a watch, at whatever revision the server has, and takes the list
for the newest state: it goes back to an older revision (kubernetes#59848)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fathom.cache import reflector
from fathom.cache.indexed import IndexedCache
from fathom.sim.zoo import pin, put_back

SCENARIOS = ("informer-relists",)
BREAKS = "informer revision never goes back"

right = IndexedCache.replace


def any_revision(self: IndexedCache, objs: Iterable[Any], revision: int, *rest: Any, **options: Any) -> None:
    self.safe = self.seen = min(self.seen, revision)
    right(self, objs, revision, *rest, **options)


async def from_any(api: Any, scope: Any, *, watch_s: int) -> Any:
    """As `open_watch_list`, at any revision."""
    options = {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "0", "timeoutSeconds": str(watch_s)}
    flags = {"allowWatchBookmarks": "true", "sendInitialEvents": "true"}
    return await api.watch(scope.resource, scope.namespace, **scope.options(), **options, **flags)


put_back(IndexedCache, "replace", any_revision)
put_back(reflector, "open_watch_list", from_any)
pin(reflector.Reflector, "_cause", "again")
