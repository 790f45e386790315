"""How far a new leader's view must have come before it destroys anything.

    1. The old leader scales one thing down. 2. It loses its lease. 3. The new one, with a view from before 1,
    scales down another. Each was right by itself; together they are too much.

What the old leader did was done before the new one's term began (the server fences what comes later). So a
view that has reached the revision at which the store was when the term began shows all of it. The lease says
which that was: it changed hands in that commit. A server without fences is asked.
"""

from __future__ import annotations

from fathom.cache.needs import AtLeast, Need
from fathom.control.kit import Kit
from fathom.control.watches import WatchedKind


class LeaderMinRevision:
    """One per controller, and so per term: controllers are made anew for each."""

    def __init__(self, kit: Kit, *kinds: WatchedKind) -> None:
        self._kit = kit
        self._kinds = kinds
        self._revision = kit.floor  # Of the store, when the term began or at some moment after that.

    async def fetch(self) -> None:
        """Asks the server, at most once; raises the ApiError with which it did not answer."""
        if self._revision is None:
            page = await self._kit.api.list_page(self._kinds[0].resource, limit=1)
            self._revision = page.revision

    @property
    def needs(self) -> tuple[Need, ...]:
        if self._revision is None:
            return ()
        return (AtLeast({kind.name: self._revision for kind in self._kinds}),)
