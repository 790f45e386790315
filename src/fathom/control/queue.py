"""A work queue of keys: each at most once in line, at most once in hand, tried again later when it failed.

add ──> waiting ──> take ──> in hand ──> done ──┐
         ^  └ dirty while in hand ──────────────┤
         └──────── after a backoff <── failed ──┘
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

BACKOFF_S_MIN = 0.05
BACKOFF_S_MAX = 30.0


class WorkQueue(Generic[K]):
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._line: deque[K] = deque()
        self._waiting: dict[K, None] = {}  # The keys of `_line`, and those dirty while in hand.
        self._in_hand: dict[K, None] = {}
        self._failures: dict[K, int] = {}  # Consecutive; forgotten at the first success.
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._arrived: asyncio.Event = asyncio.Event()

    def __len__(self) -> int:
        return len(self._line)

    def add(self, key: K) -> None:
        if key in self._waiting:
            return
        self._waiting[key] = None
        if key not in self._in_hand:
            self._line.append(key)
            self._arrived.set()

    def add_after(self, key: K, delay_s: float) -> None:
        """The earliest of several delays counts."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + delay_s:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(delay_s, self._due, key)

    async def take(self) -> K:
        while not self._line:
            self._arrived.clear()
            await self._arrived.wait()
        key = self._line.popleft()
        del self._waiting[key]
        self._in_hand[key] = None
        return key

    def done(self, key: K) -> None:
        self._failures.pop(key, None)
        self._put_down(key)

    def failed(self, key: K) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._put_down(key)
        delay_s = min(BACKOFF_S_MAX, BACKOFF_S_MIN * 2 ** min(failures - 1, 16))
        self.add_after(key, delay_s * (0.5 + self._rng.random() / 2))

    def _put_down(self, key: K) -> None:
        del self._in_hand[key]
        if key in self._waiting:
            self._line.append(key)
            self._arrived.set()

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)
