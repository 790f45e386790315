"""Wires a scheduler to a real API server. `fathom serve scheduler` and `fathom up` call it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fathom.client.http import ServerAddress
from fathom.control.live import flight_to
from fathom.metrics.registry import NOT_MEASURED
from fathom.metrics.registry import Part as MetricsPart
from fathom.model.decision import Decision, Journal, Outcome, Table
from fathom.record.journal import DiskJournal
from fathom.record.journals import JOURNALS, journal_directory
from fathom.record.recorded_process import fly
from fathom.record.tape import DiskTape
from fathom.schedule.loop.process import SchedulerSettings
from fathom.seams.log import Log
from fathom.seams.outside import Clock, Outside, SystemClock

__all__ = ["JOURNALS", "TimedJournal", "journal_directory", "run_scheduler_live"]

ENTRY = "scheduler"

TIMED_EACH = 17  # Odd: decisions and outcomes come in turn, and both are to be measured.


class TimedJournal:
    """A journal that measures how much of the process's time it takes. Reading the clock twice would take
    half as long as the record itself: one record of `TIMED_EACH` is measured, and stands for the others."""

    def __init__(self, inner: DiskJournal, clock: Clock | None = None) -> None:
        self._inner = inner
        self._now_ns = (clock or SystemClock()).monotonic_ns
        self._until_timed = TIMED_EACH
        self.spent_ns = 0

    def decided(self, decision: Decision) -> None:
        began_ns = self._begin()
        self._inner.decided(decision)
        if began_ns is not None:
            self.spent_ns += (self._now_ns() - began_ns) * TIMED_EACH

    def concluded(self, outcome: Outcome) -> None:
        began_ns = self._begin()
        self._inner.concluded(outcome)
        if began_ns is not None:
            self.spent_ns += (self._now_ns() - began_ns) * TIMED_EACH

    def tabled(self, table: Table) -> None:
        """All are measured: they are few, and each takes as long as many decisions."""
        began_ns = self._now_ns()
        self._inner.tabled(table)
        self.spent_ns += self._now_ns() - began_ns

    def _begin(self) -> int | None:
        """The time, if this record is measured."""
        self._until_timed -= 1
        if self._until_timed:
            return None
        self._until_timed = TIMED_EACH
        return self._now_ns()


async def run_scheduler_live(
    settings: SchedulerSettings,
    server: ServerAddress,
    stop: asyncio.Event,
    *,
    outside: Outside | None = None,
    tape: DiskTape | None = None,
    held: Path | None = None,
    journal: Journal | None = None,
    log: Log | None = None,
    metrics: MetricsPart = NOT_MEASURED,
) -> None:
    """Run on the host's event loop until `stop` is set and the requests under way are done. Raises the error
    that ended the scheduler, if any. `held`: see RecordedProcess."""
    flight = flight_to(
        server,
        ENTRY,
        settings,
        outside=outside,
        tape=tape,
        held=held,
        journal=journal,
        log=log,
        metrics=metrics,
    )
    await fly(flight, stop, component="the scheduler")
