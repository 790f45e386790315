"""The journal of a simulated process: passes each record to the checkers, and to the chronicle, if any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fathom.model.decision import Decision, Journal, Outcome, Table

if TYPE_CHECKING:
    from fathom.sim.world.process import SimProcess


class RecordReader(Protocol):
    def decided(self, process: SimProcess, decision: Decision) -> None: ...

    def concluded(self, process: SimProcess, outcome: Outcome) -> None: ...


class ReadJournal:
    def __init__(self, process: SimProcess, kept: Journal) -> None:
        self._process = process
        self._kept = kept

    def decided(self, decision: Decision) -> None:
        self._kept.decided(decision)
        self._process.world.recorded(lambda reader: reader.decided(self._process, decision))

    def concluded(self, outcome: Outcome) -> None:
        self._kept.concluded(outcome)
        self._process.world.recorded(lambda reader: reader.concluded(self._process, outcome))

    def tabled(self, table: Table) -> None:
        self._kept.tabled(table)
