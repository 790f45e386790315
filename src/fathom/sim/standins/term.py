"""How far the world had come when a term of leadership began.

    1. One leader makes a pod, and dies. 2. The next one's view of pods is from before that. 3. It makes one.

Its own writes it would wait for, but this one was another's. So whoever begins to lead asks once how far the
server is: everything of earlier terms was written before that, because the fence has moved on. What makes or
takes away waits until the view has come so far.
"""

from __future__ import annotations

from fathom.cache.needs import AtLeast
from fathom.control.kit import Kit
from fathom.control.watches import POD


class Floor:
    """One per controller and term."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._revision: int | None = None

    async def revision(self) -> int:
        if self._revision is None:
            self._revision = (await self._kit.api.list_page(POD.resource, limit=1)).revision
        return self._revision


def since(floor: int, *kinds: str) -> AtLeast:
    return AtLeast(dict.fromkeys(kinds, floor))
