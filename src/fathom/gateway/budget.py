"""How many of a Service's connections failed lately, and whether that is more than people bear. Pure but for
what it remembers. Counted over five minutes, on the monotonic clock of the gateway."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

WINDOW_S = 300.0
# One of twenty, of at least twenty: a single client that meets a pod on its way out says nothing.
FAILED_SHARE = 0.05
CONNECTIONS_MIN = 20

Totals = Mapping[str, tuple[int, int]]  # Service -> connections that were carried, and that found nobody.


class ErrorBudget:
    def __init__(self) -> None:
        self._looks: deque[tuple[float, Totals]] = deque()  # (when, totals until then), of the window.

    def note(self, totals: Totals, *, now_s: float) -> None:
        self._looks.append((now_s, dict(totals)))
        while len(self._looks) > 1 and self._looks[1][0] <= now_s - WINDOW_S:
            self._looks.popleft()

    def burning(self) -> dict[str, str]:
        """Service -> in words, of those that burn."""
        if not self._looks:
            return {}
        before, after = self._looks[0][1], self._looks[-1][1]
        found = {}
        for service, (carried, failed) in after.items():
            old = before.get(service, (0, 0))
            # A proxy that began anew counts from nought.
            good, bad = max(0, carried - old[0]), max(0, failed - old[1])
            if good + bad >= CONNECTIONS_MIN and bad >= FAILED_SHARE * (good + bad):
                found[service] = "connections found nobody to carry them to within the last five minutes"
        return found
