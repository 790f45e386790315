"""Find the smallest run that breaks the same invariant: fewest faults, then shortest, then smallest scale.

Each fault that is left is proven necessary: the scenario was run without it, and the invariant held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fathom.model.times import SECOND_NS
from fathom.seams.outside import SystemClock
from fathom.sim.world.faults import AnyFault, CrashAtWrite
from fathom.sim.world.scenario import Result, RunPlan

# Whichever comes first. A person waits for it; and a run costs from a twentieth of a second to a second.
RUNS_MAX = 400
SECONDS_MAX = 55.0

# The part of those limits for the search; the rest is for the proof.
SEARCH_SHARE = 0.75

# A fault shorter or earlier than this is as small as it gets.
LEAST_S = 0.5

Retell = Callable[[RunPlan], Result]


class Shrunk(msgspec.Struct, frozen=True):
    result: Result
    runs: int
    seconds: float
    proven: bool  # Every fault that is left was shown to be necessary, within the runs and time allowed.


def shrink(
    result: Result, retell: Retell, *, runs_max: int = RUNS_MAX, seconds_max: float = SECONDS_MAX
) -> Shrunk:
    if result.violation is None:
        raise ValueError("this run has no violation")
    search = _Search(result, retell)
    search.allow(runs_max * SEARCH_SHARE, seconds_max * SEARCH_SHARE)
    search.fewer_faults()
    search.sooner()
    search.shorter_faults()
    search.less_of_everything()
    search.allow(runs_max, seconds_max)
    search.fewer_faults()
    return Shrunk(search.best, search.runs, round(search.seconds, 2), not search.cut_off)


class _Search:
    def __init__(self, result: Result, retell: Retell) -> None:
        self.best = result
        self.runs = 0
        self.cut_off = False  # Something was not tried because a limit was reached.
        self._retell = retell
        self._held: set[RunPlan] = set()  # Plans that were run and held: no need to run them again.
        self._clock = SystemClock()
        self._started_ns = self._clock.monotonic_ns()
        self._runs_max = self._seconds_max = 0.0

    def allow(self, runs: float, seconds: float) -> None:
        """Set the limits, counted from the beginning."""
        self._runs_max, self._seconds_max = runs, seconds
        self.cut_off = False

    @property
    def seconds(self) -> float:
        return (self._clock.monotonic_ns() - self._started_ns) / SECOND_NS

    def fewer_faults(self) -> None:
        """Remove halves, then quarters, ... then single faults, as long as the invariant still breaks. Ends
        when no single one can be removed."""
        size = max(1, len(self.faults) // 2)
        while self.faults:
            if not self._without_some(size):
                if size == 1:
                    return
                size = max(1, size // 2)

    def _without_some(self, size: int) -> bool:
        faults = self.faults
        return any(
            self._try(faults=(*faults[:start], *faults[start + size :]))
            for start in range(0, len(faults), size)
        )

    def sooner(self) -> None:
        """Move all faults earlier together, so that the time between them shrinks with the time before
        them."""
        while any(fault.at_s > LEAST_S for fault in self.faults):
            faults = tuple(_at(fault, round(fault.at_s / 2, 3)) for fault in self.faults)
            if not self._try(faults=faults):
                return

    def shorter_faults(self) -> None:
        """Once instead of often, a moment instead of a while, sooner instead of later."""
        for index in range(len(self.faults)):
            while any(
                self._try(faults=_replaced(self.faults, index, milder_fault))
                for milder_fault in milder(self.faults[index])
            ):
                pass

    def less_of_everything(self) -> None:
        """Lower the scenario's `scale`."""
        low, high = 1, self.best.plan.scale
        while low < high:
            middle = (low + high) // 2
            if self._try(scale=middle):
                high = middle
            else:
                low = middle + 1

    @property
    def faults(self) -> tuple[AnyFault, ...]:
        return self.best.plan.faults

    def _try(self, **changes: object) -> bool:
        plan = msgspec.structs.replace(self.best.plan, **changes)
        if plan in self._held:
            return False
        if self.runs >= self._runs_max or self.seconds >= self._seconds_max:
            self.cut_off = True
            return False
        self.runs += 1
        result = self._retell(plan)
        if _same(result, self.best):
            self.best = result
            return True
        self._held.add(plan)
        return False


def _same(first: Result, second: Result) -> bool:
    if first.violation is None or second.violation is None:
        return False
    return first.violation.invariant == second.violation.invariant


def milder(fault: AnyFault) -> list[AnyFault]:
    changes: list[AnyFault] = []
    if fault.times > 1 and not isinstance(fault, CrashAtWrite):  # There `times` says which write.
        changes.append(msgspec.structs.replace(fault, times=1))
    if fault.for_s > LEAST_S:
        changes.append(msgspec.structs.replace(fault, for_s=round(fault.for_s / 2, 3)))
    if fault.at_s > LEAST_S:
        changes.append(_at(fault, round(fault.at_s / 2, 3)))
    return changes


def _at(fault: AnyFault, at_s: float) -> AnyFault:
    return msgspec.structs.replace(fault, at_s=at_s)


def _replaced(faults: Sequence[AnyFault], index: int, fault: AnyFault) -> tuple[AnyFault, ...]:
    return (*faults[:index], fault, *faults[index + 1 :])
