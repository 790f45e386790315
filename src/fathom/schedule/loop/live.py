"""Wires a scheduler to a real API server. `fathom serve scheduler` and `fathom up` call it."""

from __future__ import annotations

import asyncio

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
from fathom.seams.outside import Outside, SystemClock

__all__ = ["JOURNALS", "TimedJournal", "journal_directory", "run_scheduler_live"]

ENTRY = "scheduler"


class TimedJournal:
    """A journal that measures how much of the process's time it takes."""

    def __init__(self, inner: DiskJournal) -> None:
        self._inner = inner
        self._clock = SystemClock()
        self.spent_ns = 0

    def decided(self, decision: Decision) -> None:
        began_ns = self._clock.monotonic_ns()
        self._inner.decided(decision)
        self.spent_ns += self._clock.monotonic_ns() - began_ns

    def concluded(self, outcome: Outcome) -> None:
        began_ns = self._clock.monotonic_ns()
        self._inner.concluded(outcome)
        self.spent_ns += self._clock.monotonic_ns() - began_ns

    def tabled(self, table: Table) -> None:
        began_ns = self._clock.monotonic_ns()
        self._inner.tabled(table)
        self.spent_ns += self._clock.monotonic_ns() - began_ns


async def run_scheduler_live(
    settings: SchedulerSettings,
    server: ServerAddress,
    stop: asyncio.Event,
    *,
    outside: Outside | None = None,
    tape: DiskTape | None = None,
    journal: Journal | None = None,
    log: Log | None = None,
    metrics: MetricsPart = NOT_MEASURED,
) -> None:
    """Run on the host's event loop until `stop` is set and the requests under way are done. Raises the error
    that ended the scheduler, if any."""
    flight = flight_to(
        server, ENTRY, settings, outside=outside, tape=tape, journal=journal, log=log, metrics=metrics
    )
    await fly(flight, stop, component="the scheduler")
