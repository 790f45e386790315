"""Replays a tape: delivers the same inputs to the same code, and compares every ask, in order.

    tape ──input──> Process ──asks──┐
      └────────────recorded asks────┴──> equal, or the first that differs is named

Nothing is sent: the backend does nothing. Nothing is waited for: time is on the tape. A tape that ends early
(its process was killed, or the file was cut) is replayed to its end, and the result says how far that is; the
asks that the process would have made next are not on it, and do not count as a divergence.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec

from fathom import __version__
from fathom.model.decision import Decision, Journal, Outcome, Table
from fathom.model.times import micro_timestamp
from fathom.model.well_known import DECISION_HEADER
from fathom.record.decision_comparison import (
    NOT_KNOWN,
    ChangedDecision,
    DecisionComparison,
    LiveDecisions,
)
from fathom.record.tape import ASK, BadTape, Record, TapedRequest, ask_payload, asked, birth_of
from fathom.seams.domain import Domain
from fathom.seams.process import Birth, Entry, Inside, Process, decode_timers, load_entry, timers_at_tick
from fathom.seams.seam import Ask, Input, Seam

# Texts of asks, kept to describe an answer by its ask. Only those without an answer are needed.
TEXTS_MAX = 10_000


class Happened(msgspec.Struct, frozen=True):
    """An input, described for output."""

    index: int  # From 1.
    kind: str
    time: str
    now_ns: int
    what: str  # '200 to request 41, GET /api/v1/pods 0'


class UpTo(msgspec.Struct, frozen=True):
    """The last input on the tape."""

    input: int  # From 1.
    time: str


class Differs(StrEnum):
    """In what a replay differs from its tape."""

    REQUEST = "request"
    DECISION = "decision"
    CODE = "code"  # It failed.
    TIMERS = "timers"


class Divergence(msgspec.Struct, frozen=True):
    """The first ask in which the replay differs from the tape. None: nothing was asked on that side."""

    about: Differs
    ask: int
    why: str
    live: TapedRequest | None
    replayed: TapedRequest | None
    after: Happened
    decision: ChangedDecision | None = None  # None: the request belongs to no decision that is known.


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    matched: bool
    inputs: int
    asks: int  # Compared and found equal.
    writes: int  # Those of them that are no reads.
    decisions: int  # Journaled by the code.
    unrecorded: int  # Asks of the last input that the process did not record before it died.
    seconds: float  # Of the process's own time.
    complete: bool  # The process ended on the tape; else it ran on or was killed, or the tape was cut.
    up_to: UpTo
    first_divergence: Divergence | None
    notes: tuple[str, ...]
    birth: Birth


class ProcessEnd(msgspec.Struct, frozen=True):
    """A replayed process where its tape ends."""

    state: object  # What its entry returned.
    now_ns: int  # The wall clock.


def replay(
    records: Iterable[Record],
    *,
    entry: Entry | None = None,
    journal: Journal | None = None,
    live: LiveDecisions = NOT_KNOWN,
    at_end: Callable[[ProcessEnd], None] | None = None,
) -> ReplayResult:
    """Raises BadTape for what is no tape, NoEntry where the code cannot be found. `live`: the journal of the
    live process; then decisions are compared too. `at_end` gets the process before it is
    ended, unless the replay differs."""
    stream = iter(records)
    first = next(stream, None)
    if first is None or first.kind != Input.START:
        raise BadTape("the tape does not begin with the start of a process")
    birth = birth_of(first)
    # Another version may record more of the same decision, and wait for other times.
    comparable = live if birth.fathom == __version__ else NOT_KNOWN
    comparison = DecisionComparison(comparable, since_ns=birth.epoch_ns + first.now_ns)
    run = _Run(birth, entry or load_entry(birth.entry), _ComparingJournal(journal, comparison))
    collecting = gc.isenabled()
    gc.disable()  # As in the live process: its collections are on the tape.
    try:
        divergence = run.feed(first) or next(filter(None, map(run.feed, stream)), None) or run.tape_ended()
        if at_end is not None and divergence is None:
            at_end(run.process_end())
        return run.result(divergence)
    finally:
        if collecting:
            gc.enable()
        run.end()


class _NoBackend:
    def start(self, number: int, ask: Ask, *, stream: bool) -> None: ...

    def cancel(self, number: int) -> None: ...


class _ComparingJournal:
    """Compares decisions with live ones, and passes them on to another journal, if there is one."""

    def __init__(self, journal: Journal | None, comparison: DecisionComparison) -> None:
        self._journal = journal
        self.comparison = comparison

    def decided(self, decision: Decision) -> None:
        self.comparison.add(decision)
        if self._journal is not None:
            self._journal.decided(decision)

    def concluded(self, outcome: Outcome) -> None:
        if self._journal is not None:
            self._journal.concluded(outcome)

    def tabled(self, table: Table) -> None:
        self.comparison.add_table(table)
        if self._journal is not None:
            self._journal.tabled(table)


class _Run:
    def __init__(self, birth: Birth, entry: Entry, journal: _ComparingJournal) -> None:
        self._birth = birth
        self._domain = Domain()
        self._seam = Seam(self._domain, _NoBackend())
        self._seam.on_ask = self._on_ask
        self._journal = journal
        self._entry, self._inside = entry, Inside(birth, self._domain, self._seam, journal=self._journal)
        self._process = Process(self._domain, self._seam, self._begin)
        self._state: object = None
        self._fresh: deque[tuple[int, Ask, int]] = deque()  # Asked now, not yet compared.
        self._texts: dict[int, str] = {}
        self._last: Record | None = None
        self._inputs = self._asks = self._writes = 0
        self._error = ""  # Raised by the code: no further record may follow.

    def _begin(self) -> None:
        self._state = self._entry(self._inside)

    def process_end(self) -> ProcessEnd:
        return ProcessEnd(self._state, self._domain.epoch_ns + self._domain.now_ns)

    def feed(self, record: Record) -> Divergence | None:
        self._journal.comparison.went_on()
        return self._changed() or (self._compare(record) if record.kind == ASK else self._deliver(record))

    def tape_ended(self) -> Divergence | None:
        self._journal.comparison.end(self._domain.epoch_ns + self._domain.now_ns)
        return self._changed()

    def _changed(self) -> Divergence | None:
        """The decision that differs, if there is one."""
        if self._journal.comparison.changed is None:
            return None
        replayed = self._next_replayed() if self._fresh else None
        return self._divergence(Differs.DECISION, "the replay decided differently", None, replayed)

    def _deliver(self, record: Record) -> Divergence | None:
        if self._error:
            return self._divergence(Differs.CODE, f"the code failed: {self._error}", None, None)
        if self._fresh:
            why = "the live process did not send this request"
            return self._divergence(Differs.REQUEST, why, None, self._next_replayed())
        if record.kind == Input.TICK and (why := self._other_timers(record)):
            return self._divergence(Differs.TIMERS, why, None, None, made_it=True)
        try:
            kind = Input(record.kind)
        except ValueError as error:
            raise BadTape(f"this version of fathom does not know records of kind {record.kind}") from error
        self._last = record
        self._inputs += 1
        try:
            self._process.take(kind, record.number, record.now_ns, record.status, record.payload)
        except Exception as error:  # The live process ended with it too, if the tape ends here.
            self._error = f"{type(error).__name__}: {error}"
        return self._changed()

    def _other_timers(self, record: Record) -> str:
        """How the timers differ from those of the live process; '' if they do not. Code that only waits for
        another time sends nothing that could differ."""
        live, replayed = decode_timers(record.payload), timers_at_tick(self._domain)
        if live is None or live == replayed or self._birth.fathom != __version__:
            return ""
        if live.deadline_ns == replayed.deadline_ns:
            return "the replay has set other timers than the live process"
        until = [f"{timers.deadline_ns / 1e9:.6f} s" for timers in (live, replayed)]
        return f"the live process waited until {until[0]} of its time, the replay until {until[1]}"

    def _compare(self, record: Record) -> Divergence | None:
        live = asked(record.number, record.checksum, record.payload)
        if not self._fresh:
            if self._error:
                return self._divergence(Differs.CODE, f"the code failed: {self._error}", live, None)
            return self._divergence(Differs.REQUEST, "the replay did not send this request", live, None)
        number, ask, checksum = self._fresh[0]
        if (number, checksum) != (record.number, record.checksum):
            why = "the replay sent a different request"
            return self._divergence(Differs.REQUEST, why, live, self._next_replayed())
        self._fresh.popleft()
        self._asks += 1
        self._writes += ask.method != "GET"
        self._note(number, f"{ask.method} {ask.target}")
        return None

    def _on_ask(self, number: int, ask: Ask, checksum: int) -> None:
        self._fresh.append((number, ask, checksum))

    def _note(self, number: int, text: str) -> None:
        self._texts[number] = text
        if len(self._texts) > TEXTS_MAX:
            expects = self._seam.expects
            self._texts = {number: text for number, text in self._texts.items() if expects(number)}

    def _next_replayed(self) -> TapedRequest:
        number, ask, checksum = self._fresh[0]
        return asked(number, checksum, ask_payload(ask, whole=True))

    def _divergence(
        self,
        about: Differs,
        why: str,
        live: TapedRequest | None,
        replayed: TapedRequest | None,
        *,
        made_it: bool = False,
    ) -> Divergence:
        """`made_it`: the last decision of the replay led to it, without a request."""
        number = max(ask.number for ask in (live, replayed) if ask) if live or replayed else 0
        now_ns = self._domain.epoch_ns + self._domain.now_ns
        sent_for = None if replayed is None else _decision_in(replayed)
        decision = self._journal.comparison.around(
            now_ns, replayed=made_it or replayed is not None, sent_for=sent_for
        )
        return Divergence(about, number, why, live, replayed, self._last_input(), decision)

    def _last_input(self) -> Happened:
        last = self._last
        assert last is not None
        asked_for = f", {self._texts[last.number]}" if last.number in self._texts else ""
        description = f"{last.status} to request {last.number}{asked_for}" if last.number else ""
        if last.kind == Input.SIGNAL:
            description = last.payload.decode(errors="replace")
        time = micro_timestamp(self._domain.epoch_ns + self._domain.now_ns)
        return Happened(self._inputs, Input(last.kind).name, time, last.now_ns, description)

    def end(self) -> None:
        self._state = None  # Else its coroutines would outlive it, and end in another loop.
        self._seam.cut()
        self._domain.bury()

    def result(self, divergence: Divergence | None) -> ReplayResult:
        return ReplayResult(
            matched=divergence is None,
            inputs=self._inputs,
            asks=self._asks,
            writes=self._writes,
            decisions=self._journal.comparison.made,
            unrecorded=len(self._fresh) if divergence is None else 0,
            seconds=round(self._domain.now_ns / 1e9, 3),
            complete=divergence is None and (bool(self._error) or not self._domain.tasks),
            up_to=UpTo(self._inputs, micro_timestamp(self._domain.epoch_ns + self._domain.now_ns)),
            first_divergence=divergence,
            notes=tuple(self._notes(divergence)),
            birth=self._birth,
        )

    def _notes(self, divergence: Divergence | None) -> list[str]:
        notes = list(differences(self._birth))
        if self._error and divergence is None:
            notes.append(f"the process ended with {self._error}")
        if self._domain.failed:
            notes.append(f"{self._domain.failed} callbacks failed, as they may have in the live process")
        return notes


def _decision_in(request: TapedRequest) -> str | None:
    """The id of the decision that a request carries out, if it names one."""
    prefix = f"{DECISION_HEADER}: "
    return next(
        (line[len(prefix) :] for line in request.headers or () if line.lower().startswith(prefix)), None
    )


def differences(birth: Birth) -> Iterable[str]:
    """How this fathom and Python differ from those that recorded. Reported only: a replay may still match."""
    our_python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if birth.fathom != __version__:
        yield f"recorded by fathom {birth.fathom or '?'}, replayed by {__version__}"
    if birth.python != our_python:
        yield f"recorded on Python {birth.python or '?'}, replayed on {our_python}"
