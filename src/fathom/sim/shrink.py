"""The fewest faults that still break the same invariant; each one that is left is proven necessary."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fathom.sim.faults import AnyFault
from fathom.sim.scenario import Result

RUNS_MAX = 400  # Enough for two dozen faults; a bound, because each run costs a good part of a second.

Retell = Callable[[Sequence[AnyFault]], Result]


class Shrunk(msgspec.Struct, frozen=True):
    result: Result
    runs: int


def shrink(result: Result, retell: Retell, *, runs_max: int = RUNS_MAX) -> Shrunk:
    """`retell` runs the same story and seed with other faults."""
    assert result.violation is not None
    search = _Search(result, retell, runs_max)
    search.fewer()
    search.shorter()
    search.fewer()
    return Shrunk(search.best, search.runs)


class _Search:
    def __init__(self, result: Result, retell: Retell, runs_max: int) -> None:
        self.best = result
        self.runs = 0
        self._retell = retell
        self._runs_max = runs_max

    def fewer(self) -> None:
        """Take away halves, then quarters, ... then single faults, as long as it still breaks."""
        size = max(1, len(self.best.faults) // 2)
        while self.best.faults:
            if not self._without_any(size):
                if size == 1:
                    return
                size = max(1, size // 2)

    def _without_any(self, size: int) -> bool:
        faults = self.best.faults
        return any(
            self._try((*faults[:start], *faults[start + size :])) for start in range(0, len(faults), size)
        )

    def shorter(self) -> None:
        """Make what is left as small as it can be: once instead of often, a moment instead of a while."""
        for index in range(len(self.best.faults)):
            while self._smaller(index):
                pass

    def _smaller(self, index: int) -> bool:
        if index >= len(self.best.faults):
            return False
        fault = self.best.faults[index]
        return any(self._try(_replaced(self.best.faults, index, change)) for change in _milder(fault))

    def _try(self, faults: Sequence[AnyFault]) -> bool:
        if self.runs >= self._runs_max:
            return False
        self.runs += 1
        result = self._retell(faults)
        same = result.violation is not None and self.best.violation is not None
        if same and result.violation.invariant == self.best.violation.invariant:  # type: ignore[union-attr]  # both are there
            self.best = result
            return True
        return False


def _milder(fault: AnyFault) -> list[AnyFault]:
    changes: list[AnyFault] = []
    counts = type(fault).__struct_config__.tag != "crash-at-write"  # There `times` says which write.
    if fault.times > 1 and counts:
        changes.append(msgspec.structs.replace(fault, times=1))
    if fault.for_s > 0.5:
        changes.append(msgspec.structs.replace(fault, for_s=round(fault.for_s / 2, 3)))
    return changes


def _replaced(faults: Sequence[AnyFault], index: int, fault: AnyFault) -> tuple[AnyFault, ...]:
    return (*faults[:index], fault, *faults[index + 1 :])
