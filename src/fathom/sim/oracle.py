"""Who decides what was left open: how long a message takes, and so in which order things happen.

Each pair of processes draws from a stream of its own, so that a message more or less on one link does not
move the others.
"""

from __future__ import annotations

import random
from typing import Protocol

from fathom.seams.streams import Streams

MS = 1_000_000  # Nanoseconds.


class Oracle(Protocol):
    def latency_ns(self, source: str, target: str) -> int:
        """How long the next message from one process to another is under way."""
        ...


class Fifo:
    """Everything takes the same time: messages arrive in the order they were sent."""

    def latency_ns(self, source: str, target: str) -> int:
        return MS // 2


class Seeded:
    """Between 0.2 and 2.2 ms, and now and then a hundred times that: a collection pause, a retransmission."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._links: dict[tuple[str, str], random.Random] = {}

    def latency_ns(self, source: str, target: str) -> int:
        rng = self._links.get((source, target))
        if rng is None:
            rng = self._streams.stream(f"latency/{source}>{target}")
            self._links[source, target] = rng
        draw = rng.random()
        slow = 100 if draw < 0.01 else 1
        return int((0.2 + 2.0 * rng.random()) * MS * slow)


class Priorities:
    """PCT: processes have random priorities, and those with a low one are starved, until at a few random
    points the order changes. Finds bugs of a given depth with a known probability, where random latencies
    hardly ever line up as badly."""

    def __init__(self, streams: Streams, *, changes: int = 3, messages: int = 3000) -> None:
        self._rng = streams.stream("pct")
        self._rank: dict[str, float] = {}
        self._count = 0
        self._changes = sorted(self._rng.randrange(1, messages) for _ in range(changes))

    def latency_ns(self, source: str, target: str) -> int:
        self._count += 1
        if self._changes and self._count >= self._changes[0]:
            self._changes.pop(0)
            self._rank = {name: self._rng.random() for name in self._rank}
        rank = self._rank.setdefault(target, self._rng.random())
        # The last fifth waits for seconds, the first arrives at once.
        return int((0.2 + 2000.0 * max(0.0, rank - 0.8) * 5 + 2.0 * rank) * MS)
