"""A run told as a story: what happened to the objects concerned, when, by whom, and because of what.

1  00:00.004  scheduler     creates reservation res-a                        revision 61
2  00:00.006  !! scheduler  api-1 has done it, but the reply is lost         because of 1
3  00:02.000  scheduler     dies
4  00:02.500  scheduler#2   starts
5  00:04.101  scheduler#2   acts on reservations as of revision 58: it has not heard of res-a
6  00:04.101  scheduler#2   creates reservation res-b                        revision 66, because of 4
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from fathom.model.objects import Obj
from fathom.sim.chronicle import (
    NOBODY,
    Asked,
    Chronicle,
    Committed,
    Decided,
    Event,
    Lived,
    Said,
    Struck,
    Took,
)
from fathom.sim.inforce import DRIVER, FOREVER_NS, SECOND_NS
from fathom.sim.violation import Violation
from fathom.store.protocol import Change

REGISTRY = "/registry/"

# More than a page is not read. What is left out is said.
LINES_MAX = 80

# Too common to tell where nobody asked about them.
RESTLESS = ("leases.coordination.k8s.io/", "events/")

LOST, STALE = "lost reply", "stale read"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    at_s: float
    who: str
    what: str
    because: tuple[int, ...] = ()  # Numbers of lines, from 1.
    fault: bool = False
    culprit: str = ""  # 'lost reply', 'stale read': where the cause may lie.


class Concern(msgspec.Struct, frozen=True):
    """What a timeline is about. Without objects: everything that the processes under test wrote."""

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
    objects = frozenset(violation.objects) if violation is not None else frozenset()
    concern = Concern(objects, frozenset(processes))
    teller = _Teller(chronicle, concern, began_ns)
    # What came after it, where a story goes on that long, is for the story to tell.
    end_ns = began_ns + round(violation.at_s * SECOND_NS) if violation is not None else FOREVER_NS
    lines = teller.lines(end_ns)
    if violation is not None:
        because = (len(lines),) if lines else ()
        what = f"{violation.invariant}: {violation.message}"
        lines.append(Line(at_s=violation.at_s, who="BROKEN", what=what, because=because))
    return _newest(lines)


def _newest(lines: list[Line]) -> list[Line]:
    extra = len(lines) - LINES_MAX
    if extra <= 0:
        return lines
    kept = []
    for line in lines[extra:]:
        because = tuple(number - extra for number in line.because if number > extra)
        kept.append(msgspec.structs.replace(line, because=because))
    return kept


class _Teller:
    def __init__(self, chronicle: Chronicle, concern: Concern, began_ns: int) -> None:
        self._chronicle = chronicle
        self._concern = concern
        self._began_ns = began_ns
        self._numbers: dict[int, int] = {}  # Event -> the line that tells it.
        self._lines: list[Line] = []
        self._heard = hearing(chronicle)
        self._news: list[Committed] = []  # Commits that a reader of these objects should have heard of.

    def lines(self, end_ns: int) -> list[Line]:
        for event in self._chronicle.events:
            if event.at_ns > end_ns:
                break
            if event.at_ns >= self._began_ns:
                self._tell(event)
            elif isinstance(event, Committed):
                self._remember(event)
        return self._lines

    def _tell(self, event: Event) -> None:
        match event:
            case Committed():
                self._commit(event)
            case Struck() if event.process != DRIVER:
                culprit = LOST if "the reply is lost" in event.what else ""
                self._add(event, event.what, fault=True, culprit=culprit)
            case Lived() if self._matters(event):
                self._add(event, event.what)
            case Decided():
                subject = event.decision.subject
                path = "/".join(part for part in (subject.resource, subject.namespace, subject.name) if part)
                if self._concern.about(path):
                    message = f": {event.decision.message}" if event.decision.message else ""
                    self._add(event, f"decides {event.decision.verdict} for {subject.name}{message}")

    def _matters(self, event: Lived) -> bool:
        first = event.what == "starts" and event.incarnation == 1
        return event.process != DRIVER and not first

    def _commit(self, event: Committed) -> None:
        told = [change for change in event.changes if self._concern.about(path_of(change))]
        tested = event.process in self._concern.processes or bool(self._concern.objects)
        if told and tested:
            self._stale_reads(event, told)
            words = ", ".join(words_of(change) for change in told)
            self._add(event, f"{words}, at revision {event.revision}")
        self._remember(event)

    def _remember(self, event: Committed) -> None:
        if any(self._concern.about(path_of(change)) for change in event.changes):
            self._news.append(event)

    def _stale_reads(self, event: Committed, told: Sequence[Change]) -> None:
        """What the writer had not heard of when it asked, although it follows that kind."""
        asked = next((one for one in self._chronicle.past_of(event.id) if isinstance(one, Asked)), None)
        if asked is None:
            return
        for resource in dict.fromkeys(resource_of(change) for change in told):
            upto = self._heard_at(asked, resource)
            missed = [one for one in self._news if upto is not None and _unheard(one, resource, upto, asked)]
            if missed:
                what = ", ".join(dict.fromkeys(_object(change) for one in missed for change in one.changes))
                because = tuple(self._numbers[one.id] for one in missed if one.id in self._numbers)
                plural = resource.partition(".")[0]
                text = f"acts on {plural} as of revision {upto}: it has not heard of {what}"
                self._add(asked, text, because=because, culprit=STALE)

    def _heard_at(self, asked: Asked, resource: str) -> int | None:
        """Up to which revision the asker had heard of everything of a kind; None if it does not follow it."""
        heard = self._heard.get((asked.process, asked.incarnation, resource), [])
        index = bisect.bisect_left(heard, (asked.id, 0))
        return heard[index - 1][1] if index else None

    def _add(
        self,
        event: Event,
        what: str,
        *,
        because: tuple[int, ...] = (),
        fault: bool = False,
        culprit: str = "",
    ) -> None:
        line = Line(
            at_s=(event.at_ns - self._began_ns) / SECOND_NS,
            who=_name(event),
            what=what,
            because=because or self._because(event),
            fault=fault,
            culprit=culprit,
        )
        self._lines.append(line)
        self._numbers.setdefault(event.id, len(self._lines))

    def _because(self, event: Event) -> tuple[int, ...]:
        """The nearest cause that has a line of its own."""
        for cause in self._chronicle.past_of(event.cause):
            if cause.id in self._numbers:
                return (self._numbers[cause.id],)
        return ()


def hearing(chronicle: Chronicle) -> dict[tuple[str, int, str], list[tuple[int, int]]]:
    """(process, incarnation, resource) -> (event, the revision it had heard up to by then), in order."""
    found: dict[tuple[str, int, str], list[tuple[int, int]]] = {}
    for event in chronicle.events:
        if not isinstance(event, Took) or event.cause == NOBODY:
            continue
        said = chronicle.events[event.cause]
        if isinstance(said, Said) and said.covers:
            heard = found.setdefault((event.process, event.incarnation, said.resource), [])
            heard.append((event.id, max(said.revision, heard[-1][1] if heard else 0)))
    return found


def _unheard(commit: Committed, resource: str, upto: int, asked: Asked) -> bool:
    concerns = any(resource_of(change) == resource for change in commit.changes)
    return concerns and commit.revision > upto and commit.at_ns < asked.at_ns


def _name(event: Event) -> str:
    return f"{event.process}#{event.incarnation}" if event.incarnation > 1 else event.process or "the world"


def path_of(change: Change) -> str:
    return change.key.removeprefix(REGISTRY)


def resource_of(change: Change) -> str:
    return path_of(change).partition("/")[0]


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
