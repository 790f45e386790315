"""Summary of a run of `duplicate-reservation`, in the lesson's words: each line is from an event of this run.

workload: risk-api replica-042 generation 42
00:00 scheduler creates reservation res-a
00:01 API write commits but client sees timeout
00:02 scheduler leader restarts
00:03 new leader reads stale reservation cache
00:04 new leader retries and creates reservation res-b
00:06 repair sees two reservations with same owner intent

Correct code meets res-a in the fifth line, and repair sees one reservation. What did not happen
has no line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from fathom.model.times import SECOND_NS
from fathom.sim.report.chronicle import (
    Chronicle,
    ChronicleEvent,
    CommitSeen,
    InputReceived,
    LogLine,
    ProcessChanged,
    RequestSent,
    resource_of,
)
from fathom.sim.report.evidence import hearing
from fathom.sim.world.invariants import RESERVATIONS

LEADER, NEXT, REPAIR = "scheduler-1", "scheduler-2", "repair"
COUNTS = {1: "one reservation", 2: "two reservations"}

E = TypeVar("E", bound=ChronicleEvent)
TimelineLine = tuple[ChronicleEvent, str]


def tale(chronicle: Chronicle, began_ns: int) -> Sequence[str]:
    incident = Incident(chronicle, began_ns)
    lines = [f"{_clock(event.at_ns - began_ns)} {line}" for event, line in incident.lines()]
    names = [f"({short} is reservation {name})" for name, short in incident.names.items()]
    return ["workload: risk-api replica-042 generation 42", *lines, *names]


class Incident:
    def __init__(self, chronicle: Chronicle, began_ns: int) -> None:
        self._chronicle = chronicle
        self._events = [event for event in chronicle.events if event.at_ns >= began_ns]
        self._heard = hearing(chronicle)
        self._made = [(event, name) for event in self._of(CommitSeen) for name in _created(event)]
        # In the order of their creation.
        self.names = {name: f"res-{'abcdefgh'[at]}" for at, (_, name) in enumerate(self._made[:8])}

    def lines(self) -> Iterator[TimelineLine]:
        if not self._made:
            return
        first, name = self._made[0]
        yield first, f"scheduler creates reservation {self.names[name]}"
        for event in self._of(InputReceived, first.process):
            if isinstance(cause := self._cause(event), LogLine) and cause.status == 504:
                yield event, "API write commits but client sees timeout"
                break
        for process_changed in self._of(ProcessChanged, first.process):
            if process_changed.what == "dies":
                yield process_changed, "scheduler leader restarts"
                break
        for request in self._of(RequestSent, NEXT):
            if request.method == "POST" and resource_of(request.target) == RESERVATIONS:
                yield from self._retry(first, request)
                break

    def _retry(self, first: CommitSeen, request: RequestSent) -> Iterator[TimelineLine]:
        heard = self._heard.get((NEXT, request.incarnation, RESERVATIONS), [])
        upto = max((revision for event, revision in heard if event < request.id), default=0)
        yield request, f"new leader reads {'stale' if upto < first.revision else 'fresh'} reservation cache"
        end = next((event for event in self._events if self._answers(event, request)), None)
        if end is None:
            return
        if isinstance(end, CommitSeen):
            yield end, f"new leader retries and creates reservation {self.names[_created(end)[0]]}"
        else:
            yield end, f"new leader retries and meets reservation {self.names[self._made[0][1]]}"
        yield from self._repair(end)

    def _answers(self, event: ChronicleEvent, request: RequestSent) -> bool:
        """Whether the event is the result of the request, at the server."""
        done = isinstance(event, CommitSeen) or (isinstance(event, LogLine) and event.status == 409)
        return done and event.id > request.id and request in self._chronicle.past_of(event.id)

    def _repair(self, end: ChronicleEvent) -> Iterator[TimelineLine]:
        """When repair next receives events of reservations, and how many it knows then."""
        heard = self._heard.get((REPAIR, 1, RESERVATIONS), [])
        late = [(self._chronicle.events[at], upto) for at, upto in heard]
        late = [(event, upto) for event, upto in late if event.at_ns > end.at_ns]
        if late:
            # Held events arrive in several pieces, one right after the other.
            together = [upto for event, upto in late if event.at_ns < late[0][0].at_ns + SECOND_NS // 2]
            count = sum(created.revision <= together[-1] for created, _ in self._made)
            sees = COUNTS.get(count, f"{count} reservations")
            yield late[0][0], f"repair sees {sees} with same owner intent"

    def _of(self, kind: type[E], process: str = "") -> Iterator[E]:
        for event in self._events:
            if isinstance(event, kind) and (not process or event.process == process):
                yield event

    def _cause(self, event: ChronicleEvent) -> ChronicleEvent | None:
        return self._chronicle.events[event.cause] if event.cause >= 0 else None


def _created(event: CommitSeen) -> list[str]:
    prefix = f"/registry/{RESERVATIONS}/"
    new = [change for change in event.changes if change.previous is None and change.entry is not None]
    return [change.key.rpartition("/")[2] for change in new if change.key.startswith(prefix)]


def _clock(ns: int) -> str:
    minutes, seconds = divmod(ns // SECOND_NS, 60)
    return f"{minutes:02d}:{seconds:02d}"
