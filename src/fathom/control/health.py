"""The health of a deciding process itself: requests without answer, broken watches, failing passes.

A process that sees little must not judge nodes and pods by it. So irreversible reactions are held while one
of these signals is raised; each is counted over a short time on the monotonic clock, and clears by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from fathom.cache.observer import CacheEvent, CacheFailed, CacheObserver, Resumed, Silent
from fathom.control.loop import LoopObserver, Passed
from fathom.seams.outside import Clock

REQUESTS, WATCHES, ERRORS = "request-timeout", "watch-disconnect", "controller-errors"
WINDOW_S = 30.0
KEPT = 256  # Of each sort: more would not change the result.
TIMEOUTS_MIN = 3
WATCHES_MIN = 3
ERRORS_MIN = 10
# A server that ends a watch at its timeout, as all do now and then, is no failure.
HARMLESS = frozenset({"ended"})


class ProcessHealth:
    """Fed by the breaker, the caches and the loops; read by controllers before they react."""

    def __init__(
        self, clock: Clock, *, caches: CacheObserver | None = None, loops: LoopObserver | None = None
    ) -> None:
        self._clock = clock
        self._caches = caches
        self._loops = loops
        self._answers: deque[tuple[int, bool]] = deque(maxlen=KEPT)  # (when, whether one came)
        self._breaks: deque[tuple[int, str]] = deque(maxlen=KEPT)  # (when, kind)
        # By controller: (when, whether it failed).
        self._passes: dict[str, deque[tuple[int, bool]]] = {}

    # Inputs.

    def answered(self, status: int) -> None:
        """A request is over. 0: no answer came."""
        self._answers.append((self._clock.monotonic_ns(), status != 0))

    def note(self, event: CacheEvent) -> None:
        if self._caches is not None:
            self._caches.note(event)
        broke = isinstance(event, CacheFailed | Silent)
        if broke or (isinstance(event, Resumed) and event.why not in HARMLESS):
            self._breaks.append((self._clock.monotonic_ns(), event.kind))

    def passed(self, passed: Passed) -> None:
        if self._loops is not None:
            self._loops.passed(passed)
        passes = self._passes.setdefault(passed.controller, deque(maxlen=KEPT))
        passes.append((self._clock.monotonic_ns(), passed.result in {"failed", "gave-up"}))

    # Output.

    def raised(self) -> dict[str, str]:
        """Signal -> message, for the signals that are raised now."""
        since_ns = self._clock.monotonic_ns() - round(WINDOW_S * 1e9)
        unanswered = [not ok for at_ns, ok in self._answers if at_ns >= since_ns]
        kinds = {kind for at_ns, kind in self._breaks if at_ns >= since_ns}
        failing = [name for name, passes in self._passes.items() if _fails(passes, since_ns)]
        signals = {}
        if any(unanswered) and (all(unanswered) or _is_most(unanswered, TIMEOUTS_MIN)):
            signals[REQUESTS] = "most requests to the API server were not answered in the last 30 s"
        if len(kinds) >= WATCHES_MIN:
            signals[WATCHES] = "several watches broke in the last 30 s"
        if failing:
            signals[ERRORS] = f"most passes of {', '.join(sorted(failing))} failed in the last 30 s"
        return signals


def _fails(passes: Iterable[tuple[int, bool]], since_ns: int) -> bool:
    return _is_most([failed for at_ns, failed in passes if at_ns >= since_ns], ERRORS_MIN)


def _is_most(bad: Sequence[bool], least: int) -> bool:
    return sum(bad) >= least and 2 * sum(bad) >= len(bad)
