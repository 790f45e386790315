"""What recording takes is measured on a few records, which stand for all."""

from __future__ import annotations

import pytest

from fathom.model.decision import Decision, Outcome, Roster, Subject, Table
from fathom.record.journal import DiskJournal
from fathom.schedule.loop.live import TIMED_EACH, TimedJournal
from fathom.seams.outside import Clock

DECISION = Decision(
    id="d", time_ns=1, controller="scheduler", subject=Subject("pods", "a", "p"), verdict="bind"
)
OUTCOME = Outcome(id="d", time_ns=2, result="committed")


class SteppedClock(Clock):
    """A clock that a journal moves by what a record takes."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns

    def monotonic_ns(self) -> int:
        return self.ns


class SlowJournal(DiskJournal):
    """Takes 30 ns for a decision, 10 for an outcome, 5,000 for a table."""

    def __init__(self, clock: SteppedClock) -> None:
        self.clock = clock
        self.records = 0

    def decided(self, decision: Decision) -> None:
        self._take(30)

    def concluded(self, outcome: Outcome) -> None:
        self._take(10)

    def tabled(self, table: Table) -> None:
        self._take(5_000)

    def _take(self, ns: int) -> None:
        self.records += 1
        self.clock.ns += ns


def test_some_records_stand_for_all_and_tables_for_themselves() -> None:
    clock = SteppedClock()
    slow = SlowJournal(clock)
    journal = TimedJournal(slow, clock)
    for _ in range(100 * TIMED_EACH):
        journal.decided(DECISION)
        journal.concluded(OUTCOME)
    journal.tabled(Roster(id="r", names=("n1",)))
    assert slow.records == 200 * TIMED_EACH + 1  # None is lost.
    assert journal.spent_ns == pytest.approx(clock.ns, rel=0.01)
