"""Plain counters and histograms for hot paths of requests and decisions: no locks, no clocks, no text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import ItemsView

# Label values may come from clients (a reason, a code): at most so many sets of them, then `other`.
SERIES_MAX = 500
OTHER = "other"

# From a millisecond to a minute; LONG_S is for long waits.
SHORT_S = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)
LONG_S = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class Durations:
    """How many things took how long: a histogram."""

    __slots__ = ("bounds_s", "counts", "sum_s")

    def __init__(self, bounds_s: tuple[float, ...] = SHORT_S) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)  # Per bucket, not cumulative; the last is beyond all bounds.
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds_s, seconds)] += 1
        self.sum_s += seconds


class LabeledCounts:
    """Counts by label values, a bounded number of them."""

    __slots__ = ("_counts", "_series_max", "names")

    def __init__(self, *names: str, series_max: int = SERIES_MAX) -> None:
        self.names = names
        self._series_max = series_max
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, *values: str, by: int = 1) -> None:
        counts = self._counts
        if values not in counts and len(counts) >= self._series_max:
            values = (OTHER,) * len(self.names)
        counts[values] = counts.get(values, 0) + by

    def items(self) -> ItemsView[tuple[str, ...], int]:
        return self._counts.items()
