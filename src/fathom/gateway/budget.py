"""The error budget of a Service: whether too many of its connections failed in the last five minutes.

Pure but for the totals it remembers. Times are those of the gateway's monotonic clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

WINDOW_S = 300.0
# One of twenty, of at least twenty: a single client that hits a terminating pod proves nothing.
FAILED_SHARE = 0.05
CONNECTIONS_MIN = 20

Totals = Mapping[str, tuple[int, int]]  # Service -> connections carried, and those without an endpoint.


class ErrorBudget:
    def __init__(self) -> None:
        self._looks: deque[tuple[float, Totals]] = deque()  # (when, totals until then), of the window.

    def note(self, totals: Totals, *, now_s: float) -> None:
        self._looks.append((now_s, dict(totals)))
        while len(self._looks) > 1 and self._looks[1][0] <= now_s - WINDOW_S:
            self._looks.popleft()

    def burning(self) -> dict[str, str]:
        """Service -> message, for each Service whose budget is exceeded."""
        if not self._looks:
            return {}
        before, after = self._looks[0][1], self._looks[-1][1]
        messages = {}
        for service, (carried, failed) in after.items():
            old = before.get(service, (0, 0))
            # A restarted proxy counts from 0.
            good, bad = max(0, carried - old[0]), max(0, failed - old[1])
            if good + bad >= CONNECTIONS_MIN and bad >= FAILED_SHARE * (good + bad):
                messages[service] = (
                    "5 % or more of the last five minutes' connections found no reachable endpoint"
                )
        return messages
