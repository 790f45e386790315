"""A rate limit: a token bucket in its GCRA form, which keeps only the time at which the next token is due.

Times are whole nanoseconds, so that a replay computes exactly the same.
"""

from __future__ import annotations

import msgspec


class PaceRate(msgspec.Struct, frozen=True):
    per_s: float
    burst: int = 1


class PaceLimit:
    def __init__(self, rate: PaceRate) -> None:
        if rate.per_s <= 0 or rate.burst < 1:
            raise ValueError(f"rate and burst must be positive: {rate}")
        self._interval_ns = round(1e9 / rate.per_s)
        self._ahead_ns = self._interval_ns * (rate.burst - 1)  # How far `_due_ns` may be ahead of the clock.
        self._due_ns = 0  # When the bucket would be full again. Each pass adds one interval.

    def wait_ns(self, now_ns: int) -> int:
        """0: one pass is allowed now."""
        return max(0, self._due_ns - self._ahead_ns - now_ns)

    def passed(self, now_ns: int) -> None:
        self._due_ns = max(self._due_ns, now_ns) + self._interval_ns
