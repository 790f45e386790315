"""The journals of a world: in memory, and kept through crashes, as those on a disk are."""

from __future__ import annotations

from fathom.model.decision import Decision, Journal, Outcome, Table


class WorldJournals:
    """The ids of all decisions that any process of the run has recorded. A chronicle has them in full."""

    def __init__(self) -> None:
        self.recorded: dict[str, str] = {}  # Id of a decision -> the process that recorded it.

    def journal(self, process: str, inner: Journal | None) -> Journal:
        """`inner`: gets everything too."""
        return _Journal(self.recorded, process, inner)


class _Journal:
    def __init__(self, recorded: dict[str, str], process: str, inner: Journal | None) -> None:
        self._recorded = recorded
        self._process = process
        self._inner = inner

    def decided(self, decision: Decision) -> None:
        self._recorded[decision.id] = self._process
        if self._inner is not None:
            self._inner.decided(decision)

    def concluded(self, outcome: Outcome) -> None:
        if self._inner is not None:
            self._inner.concluded(outcome)

    def tabled(self, table: Table) -> None:
        if self._inner is not None:
            self._inner.tabled(table)
