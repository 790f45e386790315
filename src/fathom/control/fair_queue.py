"""A fair queue: highest priority first; within it tenants in turn; within a tenant the oldest key first.

Strict between priorities: urgent work is never held up by a lot of less urgent work. In turn between tenants:
a tenant with a thousand waiting keys delays another tenant's key by at most one place per tenant.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from fathom.model.cause import WakeCause

K = TypeVar("K", bound=Hashable)


class FairQueueEntry(Generic[K]):
    """One waiting key. `order` is assigned when it begins to wait and stays: its age, without a clock."""

    __slots__ = ("cause", "key", "merged", "order", "priority", "since_ns", "tenant")

    def __init__(
        self, key: K, *, tenant: str, priority: int, order: int, since_ns: int, cause: WakeCause
    ) -> None:
        self.key = key
        self.tenant = tenant
        self.priority = priority
        self.order = order
        self.since_ns = since_ns
        self.cause = cause
        self.merged = 0  # Further wakes that this entry stands for.


class _Line(Generic[K]):
    """One tenant's keys of one priority, oldest first."""

    __slots__ = ("_gone", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, FairQueueEntry[K]]] = []  # Includes entries that have left; see `_gone`.
        self._gone: dict[int, None] = {}  # Orders of entries in the heap that have moved to another line.

    def __len__(self) -> int:
        return len(self._heap) - len(self._gone)

    def push(self, entry: FairQueueEntry[K]) -> None:
        heapq.heappush(self._heap, (entry.order, entry))

    def pop(self) -> FairQueueEntry[K]:
        while True:
            order, entry = heapq.heappop(self._heap)
            if order not in self._gone:
                return entry
            del self._gone[order]

    def leave(self, entry: FairQueueEntry[K]) -> None:
        """Swept when half have left: a line that is never reached must not grow by entries that left it."""
        self._gone[entry.order] = None
        if 2 * len(self._gone) > len(self._heap):
            self._heap = [item for item in self._heap if item[0] not in self._gone]
            heapq.heapify(self._heap)
            self._gone.clear()

    def __iter__(self) -> Iterator[FairQueueEntry[K]]:
        return (entry for order, entry in sorted(self._heap, key=_order) if order not in self._gone)


def _order(item: tuple[int, object]) -> int:
    return item[0]


class FairQueue(Generic[K]):
    def __init__(self) -> None:
        self._levels: dict[int, dict[str, _Line[K]]] = {}  # No level and no line is ever empty.
        self._urgency: list[int] = []  # The negated priorities of `_levels`, sorted: the most urgent first.
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def push(self, entry: FairQueueEntry[K]) -> None:
        level = self._levels.get(entry.priority)
        if level is None:
            level = self._levels[entry.priority] = {}
            insort(self._urgency, -entry.priority)
        # A tenant with no waiting keys rejoins behind the others: dictionaries keep that order.
        level.setdefault(entry.tenant, _Line()).push(entry)
        self._size += 1

    def pop(self) -> FairQueueEntry[K] | None:
        if not self._urgency:
            return None
        priority = -self._urgency[0]
        level = self._levels[priority]
        tenant = next(iter(level))
        line = level.pop(tenant)
        entry = line.pop()
        if line:
            level[tenant] = line  # Its turn is over: move it to the end.
        self._size -= 1
        self._drop_if_empty(priority)
        return entry

    def raise_to(self, entry: FairQueueEntry[K], priority: int) -> None:
        """Only ever up. The entry keeps its age, so it goes before younger ones there."""
        level = self._levels[entry.priority]
        line = level[entry.tenant]
        line.leave(entry)
        if not line:
            del level[entry.tenant]
        self._size -= 1
        self._drop_if_empty(entry.priority)
        entry.priority = priority
        self.push(entry)

    def _drop_if_empty(self, priority: int) -> None:
        if not self._levels[priority]:
            del self._levels[priority]
            self._urgency.remove(-priority)

    def __iter__(self) -> Iterator[FairQueueEntry[K]]:
        """All waiting entries, in the order they would be taken if no other key were added."""
        for urgency in tuple(self._urgency):
            turns = [iter(line) for line in self._levels[-urgency].values()]
            while turns:
                still = []
                for turn in turns:
                    entry = next(turn, None)
                    if entry is not None:
                        yield entry
                        still.append(turn)
                turns = still
