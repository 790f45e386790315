"""Oracles: they decide how long each message takes, and so in which order events happen.

Each pair of processes draws from a stream of its own, so that a message more or less on one link does not
move the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fathom.seams.streams import Streams

US = 1_000  # Nanoseconds.
MS = 1_000_000


class Oracle(Protocol):
    def latency_ns(self, source: str, target: str, now_ns: int) -> int:
        """The latency of the next message from one process to another."""
        ...

    def heal(self) -> None:
        """Stop starving processes: liveness is judged after this."""
        ...

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the random streams it draws from."""
        ...


class Seeded:
    """Between 0.2 and 2.2 ms; now and then ten times that, and seldom a hundred times: a GC pause, a
    retransmission."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._links: dict[tuple[str, str], Callable[[], float]] = {}

    def heal(self) -> None:
        pass

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(_name(source, target) for source, target in self._links)

    def latency_ns(self, source: str, target: str, now_ns: int) -> int:
        drawn = self._links.get((source, target))
        if drawn is None:
            drawn = self._links[source, target] = self._streams.stream(_name(source, target)).random
        draw = drawn()
        latency_ns = 200 * US + int(draw * 2 * MS)
        if draw > 0.04:
            return latency_ns
        # The draw's first digits decided that the message is slow; the others decide how slow.
        return latency_ns * 10 if draw > 0.01 else (200 * US + int(draw * 200 * MS)) * 100


def _name(source: str, target: str) -> str:
    return f"latency/{source}>{target}"


class Priorities:
    """PCT: processes have random priorities, and those with low ones are starved, until at a few random
    moments the order changes. Finds bugs of a given depth with a known probability, where random latencies
    hardly ever line up as badly.

    A process's priority in each of the stretches between two changes is drawn from a stream of its own name,
    and the changes are moments of the world's time: one message more or less moves neither."""

    def __init__(self, streams: Streams, *, changes: int = 4, within_s: float = 40.0) -> None:
        self._streams = streams
        rng = streams.stream("pct")
        self._changes_ns = sorted(round(rng.random() * within_s * 1e9) for _ in range(changes))
        self._ranks: dict[tuple[str, int], float] = {}
        self._jitter = Seeded(streams)
        self._healed = False

    def heal(self) -> None:
        self._healed = True

    @property
    def streams(self) -> tuple[str, ...]:
        return ("pct", *(f"pct/{name}/{stretch}" for name, stretch in self._ranks), *self._jitter.streams)

    def latency_ns(self, source: str, target: str, now_ns: int) -> int:
        if self._healed:
            return self._jitter.latency_ns(source, target, now_ns) // 4
        stretch = sum(1 for change_ns in self._changes_ns if change_ns <= now_ns)
        rank = self._ranks.get((target, stretch))
        if rank is None:
            rank = self._streams.stream(f"pct/{target}/{stretch}").random()
            self._ranks[target, stretch] = rank
        # The lowest fifth waits for up to two seconds, the others hardly at all.
        starved_ns = int(max(0.0, rank - 0.8) * 5 * 2000 * MS)
        return starved_ns + self._jitter.latency_ns(source, target, now_ns) // 4
