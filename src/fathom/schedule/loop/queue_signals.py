"""The scheduler's own signals: pods that wait long for a first attempt, and refused bindings."""

from __future__ import annotations

from collections import deque

from fathom.model.binding_checks import ABOUT_NODE
from fathom.schedule.loop.state import SchedulerState

QUEUE_AGE, BIND_CONFLICTS = "queue-age", "bind-conflicts"
# A pod gets its first attempt within a second; when the queue is long, within a few.
FIRST_ATTEMPT_S = 30.0
WINDOW_S = 30.0
CONFLICTS_MIN = 20


class QueueSignals:
    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._refused: deque[tuple[int, int]] = deque()  # (time, refusals until then), within the window.

    def raised(self) -> dict[str, str]:
        """Signal -> message, of the signals raised now. Called every few seconds."""
        now_ns = self._state.clock.monotonic_ns()
        signals = {}
        if late := self._late(now_ns):
            signals[QUEUE_AGE] = f"pods wait more than {FIRST_ATTEMPT_S:g} s for their first attempt: {late}"
        if self._conflicts(now_ns) >= CONFLICTS_MIN:
            signals[BIND_CONFLICTS] = "API server keeps refusing bindings: the scheduler's view is old"
        return signals

    def _late(self, now_ns: int) -> str:
        """How many, roughly: an exact number would change, and be written, with every call."""
        since_ns = now_ns - round(FIRST_ATTEMPT_S * 1e9)
        entries = map(self._state.queue.entry, self._state.waiting)
        count = sum(
            entry is not None and not entry.attempt and entry.state != "gated" and entry.added_ns < since_ns
            for entry in entries
        )
        return "" if not count else "some" if count < 10 else "tens" if count < 100 else "hundreds"

    def _conflicts(self, now_ns: int) -> int:
        refused = self._state.counts.refused
        self._refused.append((now_ns, sum(refused.get(check, 0) for check in ABOUT_NODE)))
        while self._refused[0][0] < now_ns - round(WINDOW_S * 1e9):
            self._refused.popleft()
        return self._refused[-1][1] - self._refused[0][1]
