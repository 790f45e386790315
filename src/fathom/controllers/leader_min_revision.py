"""The revision that a new leader's view must have reached before it destroys anything.

    1. The old leader scales one object down. 2. It loses its lease. 3. The new leader, with a view from
    before 1, scales down another. Each was right by itself; together they are too much.

The same holds for what the old leader has acknowledged: an override that pauses something binds the next one.

All writes of the old leader are from before the new one's term (the server fences later ones). So a view that
has reached the store's revision at the beginning of the term shows all of them. The lease has that revision:
it changed its holder in that commit. A server without fences is asked.
"""

from __future__ import annotations

from fathom.cache.needs import AtLeast, Need
from fathom.control.kit import Kit
from fathom.control.watches import WatchedKind


class LeaderMinRevision:
    """One per controller, and so per term: each term makes new controllers."""

    def __init__(self, kit: Kit, *kinds: WatchedKind) -> None:
        self._kit = kit
        self._kinds = kinds
        self._revision = kit.floor  # The store's revision when the term began or at some moment after that.

    async def fetch(self) -> None:
        """Asks the server, at most once; raises its ApiError if it did not answer."""
        if self._revision is None:
            page = await self._kit.api.list_page(self._kinds[0].resource, limit=1)
            self._revision = page.revision

    @property
    def needs(self) -> tuple[Need, ...]:
        if self._revision is None:
            return ()
        return (AtLeast({kind.name: self._revision for kind in self._kinds}),)
