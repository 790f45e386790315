"""Notices that the wall clock is set. Keys that wait for a time of day have reckoned by the clock as it was:
one that was 400 s behind makes them 400 s late, long after it is right."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fathom.model.times import SECOND_NS
from fathom.seams.outside import Clock

LOOK_S = 5.0
STEP_NS = SECOND_NS  # A clock that drifts, or is set right gradually, takes long for that.


async def watch_clock(clock: Clock, was_set: Callable[[], None]) -> None:
    ahead_ns = _ahead_ns(clock)
    while True:
        await asyncio.sleep(LOOK_S)
        now_ns = _ahead_ns(clock)
        if abs(now_ns - ahead_ns) >= STEP_NS:
            ahead_ns = now_ns
            was_set()


def _ahead_ns(clock: Clock) -> int:
    """How far the wall clock is ahead of the monotonic one."""
    return clock.now_ns() - clock.monotonic_ns()
