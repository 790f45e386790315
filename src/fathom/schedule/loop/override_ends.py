"""When overrides end, by a wall clock that may be set. Nothing here waits for an end: it is asked.

What ends by the clock alone makes no change in a cache. And a clock that is set back makes overrides be in
force again that had ended by it:

1. The clock is an hour ahead. All overrides have ended, and what was decided so is kept until the next end:
   there is none.
2. It is set back. Two overrides are in force again, and decisions rest on them.
3. The first of them ends. Whoever remembers only that no end is to come goes on honouring it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from fathom.kinds.scheduler_override import SchedulerOverride, expiry_ns
from fathom.model.objects import Key

NEVER_NS = 1 << 62
ENDED, IN_FORCE_AGAIN = "ended", "in force again"


class OverrideEnds:
    def __init__(self) -> None:
        self._ends: list[tuple[int, Key]] = []  # (end, override), soonest first.
        # Those of them that were over at the last look. With its end: one that is put off ends once more.
        self._over: tuple[tuple[int, Key], ...] = ()

    def put(self, overrides: Mapping[Key, SchedulerOverride]) -> None:
        """All overrides."""
        ends = ((expiry_ns(override), key) for key, override in overrides.items())
        self._ends = sorted((end, key) for end, key in ends if end is not None)

    def around(self, now_ns: int) -> tuple[int, int]:
        """The latest end so far, and the next one. From the one until the other, the same are over."""
        count = self._count_over(now_ns)
        since_ns = self._ends[count - 1][0] if count else 0
        return since_ns, self._ends[count][0] if count < len(self._ends) else NEVER_NS

    def passed(self, now_ns: int) -> list[tuple[Key, str]]:
        """The overrides that have ended since the last look, and those that had and are in force again."""
        over = tuple(self._ends[: self._count_over(now_ns)])
        before, self._over = self._over, over
        if over == before:
            return []
        ended, resumed = set(over) - set(before), (set(before) - set(over)) & set(self._ends)
        return [
            *((key, ENDED) for _, key in sorted(ended)),
            *((key, IN_FORCE_AGAIN) for _, key in sorted(resumed)),
        ]

    def _count_over(self, now_ns: int) -> int:
        return bisect_right(self._ends, now_ns, key=lambda end: end[0])
