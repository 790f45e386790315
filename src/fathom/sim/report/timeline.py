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
from collections.abc import Iterable, Sequence

import msgspec

from fathom.explain.evidence import ObjectRef
from fathom.explain.timeline.answer import between
from fathom.explain.timeline.timeline import Edge, Entry, Source, Timeline
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS, micro_timestamp
from fathom.sim.report.chronicle import (
    NOBODY,
    Chronicle,
    ChronicleEvent,
    CommitSeen,
    DecisionMade,
    FaultTookEffect,
    ProcessChanged,
    RequestSent,
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
from fathom.sim.world.process import EPOCH_NS
from fathom.sim.world.violation import Violation
from fathom.store.protocol import Change

# A reader does not want more than a page; the newest are kept.
ENTRIES_MAX = 80

# Too common to show where the violation does not name them.
RESTLESS = ("leases.coordination.k8s.io/", "events/")

LOST, STALE, LATE, UNKNOWN = "lost reply", "stale read", "late request", "unknown commit"

# Faults that keep watch events from a process.
DEAF = (HoldWatch, StaleServer, Partition)

# Every process is a few moments behind on the others' writes; only a commit that was missed for longer than
# this is worth a line. Of the kind that is written, every one is.
STALE_S = 0.05


BROKEN = "BROKEN"


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
) -> Timeline:
    """The entries that matter, in order; the newest ones if there are too many."""
    objects = family(chronicle, violation.objects) if violation is not None else frozenset()
    builder = _TimelineBuilder(chronicle, Concern(objects, frozenset(processes)), began_ns)
    builder.add_events()
    if violation is not None:
        builder.add_violation(violation)
    # A decision's entry is added only when its outcome is known.
    entries = sorted(builder.entries, key=lambda entry: entry.time)[-ENTRIES_MAX:]
    return Timeline(
        subject=_subject(violation),
        entries=tuple(entries),
        edges=tuple(between(builder.edges, entries)),
    )


def _subject(violation: Violation | None) -> ObjectRef:
    """The first object of the violation, by name: a violation has no UIDs. Without one, the whole run."""
    resource, *path = (
        violation.objects[0].split("/") if violation is not None and violation.objects else ("",)
    )
    return ObjectRef(resource, "/".join(path[:-1]), "".join(path[-1:]))


class _TimelineBuilder:
    def __init__(self, chronicle: Chronicle, concern: Concern, began_ns: int) -> None:
        self._chronicle = chronicle
        self._concern = concern
        self._began_ns = began_ns
        self.entries: list[Entry] = []
        self.edges: list[Edge] = []
        self._ids: dict[int, str] = {}  # Event -> its entry.
        self._struck: dict[int, str] = {}  # Event -> the entry of the fault that affected it.
        self._revisions_seen = hearing(chronicle)
        self._answers = answers(chronicle)
        # By resource, in the order of revisions: commits that a watcher of these objects should know of.
        self._commits: dict[str, list[CommitSeen]] = {}
        self._held_watches: dict[str, str] = {}  # Process -> the last fault that held its watch.
        self._stale: dict[tuple[object, ...], str] = {}  # A process and what it missed -> its entry.
        self._writes: list[Entry] = []  # Entries of commits.

    def add_events(self) -> None:
        for event in self._chronicle.events:
            if event.at_ns >= self._began_ns:
                self._add_event(event)
            elif isinstance(event, CommitSeen):
                self._remember(event)

    def add_violation(self, violation: Violation) -> None:
        """Its cause is the last write until then, else the last entry: a violation shows at a write, or is
        missed after one."""
        time = micro_timestamp(EPOCH_NS + self._began_ns + round(violation.at_s * SECOND_NS))
        text = f"{violation.invariant}: {violation.message}".partition("\n")[0]
        broken = Entry(id="violation", time=time, source="check", actor=BROKEN, text=text)
        writes = [entry.id for entry in self._writes if entry.time <= time]
        before = [entry.id for entry in self.entries if entry.time <= time]
        self.edges += [Edge(id_, broken.id, "led to") for id_ in writes[-1:] or before[-1:]]
        self.entries.append(broken)

    def _add_event(self, event: ChronicleEvent) -> None:
        match event:
            case CommitSeen():
                self._commit(event)
            case FaultTookEffect() if event.process != DRIVER:
                self._strike(event)
            case ProcessChanged() if self._matters(event):
                self._add(event, event.what, source="process")
            case DecisionMade():
                self._decision(event)

    def _strike(self, event: FaultTookEffect) -> None:
        request = self._request_of(event.cause) if isinstance(event.fault, OfMessages) else None
        where = f"{request.method} {request.target.partition('?')[0]}: " if request is not None else ""
        entry = self._add(
            event, f"{where}{event.what}", source="fault", possible_cause=_possible_cause(event)
        )
        if event.cause != NOBODY:
            self._struck.setdefault(event.cause, entry.id)
        if isinstance(event.fault, DEAF):
            self._held_watches[event.process] = entry.id

    def _decision(self, event: DecisionMade) -> None:
        subject, decision = event.decision.subject, event.decision
        path = "/".join(part for part in (subject.resource, subject.namespace, subject.name) if part)
        if self._concern.about(path):
            message = f": {decision.message}" if decision.message else ""
            text = f"decides {decision.verdict} for {subject.name}{message}"
            ref = ObjectRef(subject.resource, subject.namespace, subject.name, subject.uid)
            self._add(event, text, source="decision", about=ref)

    def _matters(self, event: ProcessChanged) -> bool:
        first = event.what == "starts" and event.incarnation == 1
        return event.process != DRIVER and not first

    def _commit(self, event: CommitSeen) -> None:
        shown = [change for change in event.changes if self._concern.about(path_of(change))]
        tested = event.process in self._concern.processes or bool(self._concern.objects)
        if shown and tested:
            self._stale_reads(event, shown)
            words = ", ".join(words_of(change) for change in shown)
            entry = self._add(event, f"{words}, at revision {event.revision}", source="audit")
            self._writes.append(entry)
        self._remember(event)

    def _remember(self, event: CommitSeen) -> None:
        if any(self._concern.about(path_of(change)) for change in event.changes):
            for resource in dict.fromkeys(map(resource_of, event.changes)):
                self._commits.setdefault(resource, []).append(event)

    def _stale_reads(self, event: CommitSeen, changes: Sequence[Change]) -> None:
        """Commits that the writer did not know of when it sent its request, although it watches that kind."""
        request = self._request_of(event.id)
        if request is None or event.process == DRIVER:
            return
        written = {resource_of(change) for change in changes}
        for resource in self._commits:
            upto = self._revision_at(request, resource)
            older_ns = 0 if resource in written else round(STALE_S * SECOND_NS)
            missed = [] if upto is None else self._missed_commits(request, resource, upto, older_ns)
            if missed:
                self._stale_line(request, resource, upto or 0, missed)

    def _stale_line(
        self, request: RequestSent, resource: str, upto: int, missed: Sequence[CommitSeen]
    ) -> None:
        key = (request.process, request.incarnation, resource, *(commit.id for commit in missed))
        if key in self._stale:  # Shown once; the writer's later entries refer to it.
            self._ids.setdefault(request.id, self._stale[key])
            return
        changes = [
            change for commit in missed for change in commit.changes if resource_of(change) == resource
        ]
        objects = ", ".join(dict.fromkeys(_object(change) for change in changes))
        because = [self._ids[commit.id] for commit in missed if commit.id in self._ids]
        deaf = [
            self._held_watches[process]
            for process in (request.process, request.server)
            if process in self._held_watches
        ]
        text = f"acts on {resource.partition('.')[0]} as of revision {upto}: it has not seen {objects}"
        causes = tuple(dict.fromkeys([*because, *deaf]))
        entry = self._add(request, text, source="cache", because=causes, possible_cause=STALE)
        self._stale[key] = entry.id

    def _missed_commits(
        self, request: RequestSent, resource: str, upto: int, older_ns: int
    ) -> list[CommitSeen]:
        commits = self._commits[resource]
        newer = bisect.bisect_right(commits, upto, key=lambda commit: commit.revision)
        return [
            commit
            for commit in commits[newer:]
            if commit.at_ns + older_ns < request.at_ns and not self._was_answered(commit, request)
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
        source: Source,
        about: ObjectRef | None = None,
        because: tuple[str, ...] = (),
        possible_cause: str = "",
    ) -> Entry:
        entry = Entry(
            id=f"run:{len(self.entries)}",
            time=micro_timestamp(EPOCH_NS + event.at_ns),
            source=source,
            actor=_name(event),
            text=text,
            object=about,
            revision=event.revision if isinstance(event, CommitSeen) else 0,
            possible_cause=possible_cause,
        )
        self.edges += [Edge(cause, entry.id, "led to") for cause in because or self._because(event)]
        self.entries.append(entry)
        self._ids.setdefault(event.id, entry.id)
        return entry

    def _because(self, event: ChronicleEvent) -> tuple[str, ...]:
        """The nearest cause that has its own entry, or that a fault affected."""
        for cause in self._chronicle.past_of(event.cause):
            id_ = self._ids.get(cause.id) or self._struck.get(cause.id)
            if id_ is not None:
                return (id_,)
        return ()


def _possible_cause(event: FaultTookEffect) -> str:
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
