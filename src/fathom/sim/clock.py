"""A process's idea of the time: the world's, wrong by its skew."""

from __future__ import annotations

from fathom.seams.domain import Domain

# Every world begins at the same moment, so that timestamps in objects are the same in every run.
EPOCH_NS = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z


class WorldClock:
    """Wall time may be skewed; time that only measures is the Domain's own."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self.skew_ns = 0

    def now_ns(self) -> int:
        return EPOCH_NS + self._domain.now_ns + self.skew_ns

    def monotonic_ns(self) -> int:
        return self._domain.now_ns
