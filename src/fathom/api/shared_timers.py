"""One timer for all sleepers that wake at the same moment.

Bookmarks are due on a grid that watches share, many of them at once: one timer per moment replaces one per
watch.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

# At least the clock's resolution: in simulation, time stands still until the next timer, and a remainder that
# rounds to zero would be waited for without end.
TIMER_S_MIN = 1e-6


class Waiter(Protocol):
    def wake_up(self) -> None: ...


class SharedTimer(msgspec.Struct, eq=False):
    timer: asyncio.TimerHandle
    waiters: dict[Waiter, None]  # In the order of their requests.


class SharedTimers:
    def __init__(self) -> None:
        self._moments: dict[float, SharedTimer] = {}  # Each has at least one waiter and an armed timer.

    def wake(self, waiter: Waiter, *, at_s: float, now_s: float) -> None:
        moment = self._moments.get(at_s)
        if moment is None:
            delay_s = max(TIMER_S_MIN, at_s - now_s)
            timer = asyncio.get_running_loop().call_later(delay_s, self._fire, at_s)
            moment = self._moments[at_s] = SharedTimer(timer, {})
        moment.waiters[waiter] = None

    def leave(self, waiter: Waiter, *, at_s: float) -> None:
        """The waiter need not be woken any more."""
        moment = self._moments.get(at_s)
        if moment is not None:
            moment.waiters.pop(waiter, None)
            if not moment.waiters:
                moment.timer.cancel()
                del self._moments[at_s]

    def _fire(self, at_s: float) -> None:
        for waiter in self._moments.pop(at_s).waiters:
            waiter.wake_up()
