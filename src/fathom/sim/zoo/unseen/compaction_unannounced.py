"""Compaction does not raise the floor: a reader of compacted history gets what is left of it as if it were
all."""

from __future__ import annotations

from fathom.sim.zoo import put_back
from fathom.store.feed import StoreFeed

ROOM = "store"

right = StoreFeed.forget


def quietly(self: StoreFeed, upto: int) -> None:
    floor, after = self.floor, self._tail_after
    right(self, upto)
    self.floor, self._tail_after = floor, after


put_back(StoreFeed, "forget", quietly)
