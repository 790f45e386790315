"""The timeline of a run: what happened to the objects of a violation, when, by which process, and why.

1  00:00.004  scheduler     creates reservation res-a                        revision 61
2  00:00.006  !! scheduler  api-1 has carried it out, but the reply is lost  because of 1
3  00:02.000  scheduler     dies
4  00:02.500  scheduler#2   starts
5  00:04.101  scheduler#2   acts on reservations as of revision 58: it has not seen res-a
6  00:04.101  scheduler#2   creates reservation res-b                        revision 66, because of 4
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS
from fathom.sim.report.chronicle import (
    NOBODY,
    Chronicle,
    ChronicleEvent,
    CommitSeen,
    DecisionMade,
    Lived,
    RequestSent,
    Struck,
)
from fathom.sim.report.evidence import answers, family, hearing, path_of, resource_of
from fathom.sim.world.active_faults import DRIVER
from fathom.sim.world.faults import (
    CommitLost,
    CommitUnknown,
    HoldWatch,
    LoseReply,
    OfMessages,
    Partition,
    SlowRequest,
    StaleServer,
)
from fathom.sim.world.violation import Violation
from fathom.store.protocol import Change

# A reader does not want more than a page; the newest lines are kept.
LINES_MAX = 80

# Too common to show where the violation does not name them.
RESTLESS = ("leases.coordination.k8s.io/", "events/")

LOST, STALE, LATE, UNKNOWN = "lost reply", "stale read", "late request", "unknown commit"

# Faults that keep watch events from a process.
DEAF = (HoldWatch, StaleServer, Partition)

# Every process is a few moments behind on the others' writes; only a commit that was missed for longer than
# this is worth a line. Of the kind that is written, every one is.
STALE_S = 0.05


BROKEN = "BROKEN"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    at_s: float
    who: str
    what: str
    because: tuple[int, ...] = ()  # Numbers of lines, from 1.
    fault: bool = False
    culprit: str = ""  # 'lost reply', 'stale read': a possible cause.


class Concern(msgspec.Struct, frozen=True):
    """The objects and processes of a timeline. Without objects: all writes of the processes under test."""

    objects: frozenset[str]
    processes: frozenset[str]

    def about(self, path: str) -> bool:
        if self.objects:
            return path in self.objects
        return not path.startswith(RESTLESS)


def timeline(
    chronicle: Chronicle, *, began_ns: int, processes: Iterable[str], violation: Violation | None
) -> list[Line]:
    """The lines that matter, in order; the newest ones if there are too many."""
    objects = family(chronicle, violation.objects) if violation is not None else frozenset()
    concern = Concern(objects, frozenset(processes))
    builder = _TimelineBuilder(chronicle, concern, began_ns)
    lines = builder.lines()
    if violation is not None:
        before = [number for number, line in enumerate(lines, 1) if line.at_s <= violation.at_s]
        text = f"{violation.invariant}: {violation.message}"
        because = builder.last_write(violation.at_s) or tuple(before[-1:])
        lines.append(Line(at_s=violation.at_s, who=BROKEN, what=text, because=because))
    return _newest(in_order(lines))


def in_order(lines: Sequence[Line]) -> list[Line]:
    """Sort by time: a decision's line is added only when its outcome is known. Renumbers the references."""
    order = sorted(range(len(lines)), key=lambda index: lines[index].at_s)
    numbers = {old + 1: new for new, old in enumerate(order, 1)}
    return [
        msgspec.structs.replace(
            lines[index], because=tuple(sorted(numbers[number] for number in lines[index].because))
        )
        for index in order
    ]


def _newest(lines: list[Line]) -> list[Line]:
    extra = len(lines) - LINES_MAX
    if extra <= 0:
        return lines
    kept = []
    for line in lines[extra:]:
        because = tuple(number - extra for number in line.because if number > extra)
        kept.append(msgspec.structs.replace(line, because=because))
    return kept


class _TimelineBuilder:
    def __init__(self, chronicle: Chronicle, concern: Concern, began_ns: int) -> None:
        self._chronicle = chronicle
        self._concern = concern
        self._began_ns = began_ns
        self._numbers: dict[int, int] = {}  # Event -> its line.
        self._struck: dict[int, int] = {}  # Event -> the line of the fault that affected it.
        self._lines: list[Line] = []
        self._revisions_seen = hearing(chronicle)
        self._answers = answers(chronicle)
        self._commits: list[CommitSeen] = []  # Commits that a watcher of these objects should know of.
        self._held_watches: dict[str, int] = {}  # Process -> the line of the last fault that held its watch.
        self._stale: dict[tuple[object, ...], int] = {}  # A process and what it missed -> its line.
        self._writes: list[int] = []  # Lines of commits.

    def lines(self) -> list[Line]:
        for event in self._chronicle.events:
            if event.at_ns >= self._began_ns:
                self._add_event(event)
            elif isinstance(event, CommitSeen):
                self._remember(event)
        return self._lines

    def last_write(self, at_s: float) -> tuple[int, ...]:
        """The line of the last write until then: a violation shows at a write, or is missed after one."""
        return tuple([number for number in self._writes if self._lines[number - 1].at_s <= at_s][-1:])

    def _add_event(self, event: ChronicleEvent) -> None:
        match event:
            case CommitSeen():
                self._commit(event)
            case Struck() if event.process != DRIVER:
                self._strike(event)
            case Lived() if self._matters(event):
                self._add(event, event.what)
            case DecisionMade():
                self._decision(event)

    def _strike(self, event: Struck) -> None:
        request = self._request_of(event.cause) if isinstance(event.fault, OfMessages) else None
        where = f"{request.method} {request.target.partition('?')[0]}: " if request is not None else ""
        self._add(event, f"{where}{event.what}", fault=True, culprit=_culprit(event))
        if event.cause != NOBODY:
            self._struck.setdefault(event.cause, len(self._lines))
        if isinstance(event.fault, DEAF):
            self._held_watches[event.process] = len(self._lines)

    def _decision(self, event: DecisionMade) -> None:
        subject, decision = event.decision.subject, event.decision
        path = "/".join(part for part in (subject.resource, subject.namespace, subject.name) if part)
        if self._concern.about(path):
            message = f": {decision.message}" if decision.message else ""
            self._add(event, f"decides {decision.verdict} for {subject.name}{message}")

    def _matters(self, event: Lived) -> bool:
        first = event.what == "starts" and event.incarnation == 1
        return event.process != DRIVER and not first

    def _commit(self, event: CommitSeen) -> None:
        shown = [change for change in event.changes if self._concern.about(path_of(change))]
        tested = event.process in self._concern.processes or bool(self._concern.objects)
        if shown and tested:
            self._stale_reads(event, shown)
            words = ", ".join(words_of(change) for change in shown)
            self._add(event, f"{words}, at revision {event.revision}")
            self._writes.append(len(self._lines))
        self._remember(event)

    def _remember(self, event: CommitSeen) -> None:
        if any(self._concern.about(path_of(change)) for change in event.changes):
            self._commits.append(event)

    def _stale_reads(self, event: CommitSeen, changes: Sequence[Change]) -> None:
        """Commits that the writer did not know of when it sent its request, although it watches that kind."""
        request = self._request_of(event.id)
        if request is None or event.process == DRIVER:
            return
        written = {resource_of(change) for change in changes}
        followed = dict.fromkeys(resource_of(change) for news in self._commits for change in news.changes)
        for resource in followed:
            upto = self._revision_at(request, resource)
            older_ns = 0 if resource in written else round(STALE_S * SECOND_NS)
            missed = [] if upto is None else self._missed_commits(request, resource, upto, older_ns)
            if missed:
                self._stale_line(request, resource, upto or 0, missed)

    def _stale_line(
        self, request: RequestSent, resource: str, upto: int, missed: Sequence[CommitSeen]
    ) -> None:
        key = (request.process, request.incarnation, resource, *(commit.id for commit in missed))
        if key in self._stale:  # Shown once; the writer's later lines refer to it.
            self._numbers.setdefault(request.id, self._stale[key])
            return
        changes = [
            change for commit in missed for change in commit.changes if resource_of(change) == resource
        ]
        objects = ", ".join(dict.fromkeys(_object(change) for change in changes))
        because = [self._numbers[commit.id] for commit in missed if commit.id in self._numbers]
        deaf = [
            self._held_watches[process]
            for process in (request.process, request.server)
            if process in self._held_watches
        ]
        text = f"acts on {resource.partition('.')[0]} as of revision {upto}: it has not seen {objects}"
        self._add(request, text, because=tuple(dict.fromkeys([*because, *deaf])), culprit=STALE)
        self._stale[key] = len(self._lines)

    def _missed_commits(
        self, request: RequestSent, resource: str, upto: int, older_ns: int
    ) -> list[CommitSeen]:
        return [
            commit
            for commit in self._commits
            if any(resource_of(change) == resource for change in commit.changes)
            and commit.revision > upto
            and commit.at_ns + older_ns < request.at_ns
            and not self._was_answered(commit, request)
        ]

    def _was_answered(self, commit: CommitSeen, request: RequestSent) -> bool:
        """The writer got the answer to its own write."""
        process, incarnation, answer = self._answers.get(commit.id, ("", 0, 0))
        return (process, incarnation) == (request.process, request.incarnation) and answer < request.id

    def _request_of(self, event: int) -> RequestSent | None:
        return next(
            (cause for cause in self._chronicle.past_of(event) if isinstance(cause, RequestSent)), None
        )

    def _revision_at(self, request: RequestSent, resource: str) -> int | None:
        """The revision up to which the sender knew all objects of a kind; None if it does not watch it."""
        revisions = self._revisions_seen.get((request.process, request.incarnation, resource), [])
        index = bisect.bisect_left(revisions, (request.id, 0))
        return revisions[index - 1][1] if index else None

    def _add(
        self,
        event: ChronicleEvent,
        text: str,
        *,
        because: tuple[int, ...] = (),
        fault: bool = False,
        culprit: str = "",
    ) -> None:
        line = Line(
            at_s=(event.at_ns - self._began_ns) / SECOND_NS,
            who=_name(event),
            what=text,
            because=because or self._because(event),
            fault=fault,
            culprit=culprit,
        )
        self._lines.append(line)
        self._numbers.setdefault(event.id, len(self._lines))

    def _because(self, event: ChronicleEvent) -> tuple[int, ...]:
        """The nearest cause that has its own line, or that a fault affected."""
        for cause in self._chronicle.past_of(event.cause):
            number = self._numbers.get(cause.id) or self._struck.get(cause.id)
            if number is not None:
                return (number,)
        return ()


def _culprit(event: Struck) -> str:
    if isinstance(event.fault, LoseReply):
        return LOST
    if isinstance(event.fault, SlowRequest):
        return LATE
    return UNKNOWN if isinstance(event.fault, CommitUnknown | CommitLost) else ""


def _name(event: ChronicleEvent) -> str:
    return f"{event.process}#{event.incarnation}" if event.incarnation > 1 else event.process or "the world"


def words_of(change: Change) -> str:
    """'creates reservation res-a'"""
    verb = "deletes" if change.entry is None else "updates" if change.previous is not None else "creates"
    return f"{verb} {_object(change)}"


def _object(change: Change) -> str:
    entry = change.entry or change.previous
    obj: Obj = entry.body.obj if entry is not None else {}
    kind = str(obj.get("kind") or resource_of(change)).lower()
    return f"{kind} {change.key.rpartition('/')[2]}"


# As text.


def clock(at_s: float) -> str:
    minutes, seconds = divmod(max(0.0, at_s), 60)
    return f"{int(minutes):02d}:{seconds:06.3f}"


def as_text(lines: Sequence[Line]) -> Iterator[str]:
    width = min(24, max((len(_who(line)) for line in lines), default=0))
    for number, line in enumerate(lines, 1):
        because = f"  (because of {', '.join(map(str, line.because))})" if line.because else ""
        yield f"{number:>3}  {clock(line.at_s)}  {_who(line):<{width}}  {line.what}{because}"


def _who(line: Line) -> str:
    return f"!! {line.who}" if line.fault else line.who
