"""41. A bookmark has the revision that the server has reached, not the one up to which this watch was sent
everything: a client that resumes from it misses the events in between."""

from __future__ import annotations

from typing import Any

from fathom.api.verbs.watch import WatchStream
from fathom.sim.zoo import put_back

SCENARIOS = ("read-from-long-ago",)
BREAKS = "API answers match the store"

_right = WatchStream._read


def on_time(self: WatchStream) -> Any:
    """First the bookmark, when it is due; pending events are sent after it."""
    if self._bookmarks and self._now() >= self._bookmark_at:
        self._bookmark_at = self._next_bookmark(self._now())
        self._sent = max(self._sent, self._core.cache.reached)
        return self._bookmark()
    return _right(self)


put_back(WatchStream, "_read", on_time)
