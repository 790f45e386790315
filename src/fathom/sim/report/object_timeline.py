"""The timeline of one object from a run's chronicle: the second source of `explain/timeline`'s type.

Its edges are what happened in the simulated world, whatever the records say: the request that made a commit
carries its decision, and an input brought a commit to a process before that decided. So it is the measure for
a timeline that is made from records (`checkers/timelines.py`).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

import msgspec

from fathom.api.resource_cache import REGISTRY
from fathom.explain.evidence import ObjectRef
from fathom.explain.timeline.decisions import decision_text
from fathom.explain.timeline.ordering import in_order
from fathom.explain.timeline.timeline import Edge, Entry, Timeline, decision_id, words_for, write_id
from fathom.kinds.binding_batch import BATCHES
from fathom.model.objects import Obj, lookup, metadata, uid_of
from fathom.model.times import micro_timestamp
from fathom.model.well_known import DECISION_ANNOTATION
from fathom.seams.seam import Input
from fathom.sim.report.chronicle import (
    NOBODY,
    Chronicle,
    CommitSeen,
    DecisionMade,
    InputReceived,
    LogLine,
    RequestSent,
    resource_of,
)
from fathom.sim.report.evidence import answers, hearing, single_reads
from fathom.sim.world.invariants import place_of
from fathom.sim.world.process import EPOCH_NS
from fathom.store.protocol import Change

EVENTS = "events"
# Kept beside the objects in their commits; the API does not serve them.
BOOKS = frozenset({"nodeledgers.fathom.dev", "tenantledgers.fathom.dev", "intentledgers.fathom.dev"})


class Written(msgspec.Struct, frozen=True):
    """One object of one commit."""

    commit: CommitSeen
    ref: ObjectRef
    before: Obj | None
    after: Obj | None
    decision: str  # The decision that its request carried; '' if none.

    @property
    def id(self) -> str:
        return write_id(self.commit.revision, self.ref)

    @property
    def text(self) -> str:
        verb = "creates" if self.before is None else "deletes" if self.after is None else "updates"
        return f"{verb} {words_for(self.ref)}"

    def concerns(self, uid: str) -> bool:
        """The object itself was written, or one that it owns."""
        meta = metadata(self.after or self.before or {})
        return self.ref.uid == uid or any(owner["uid"] == uid for owner in meta.get("ownerReferences") or ())


class ObjectTimelines:
    """The timelines of all objects of one run."""

    def __init__(self, chronicle: Chronicle) -> None:
        self._chronicle = chronicle
        self._revisions_seen = hearing(chronicle)
        self._answers = answers(chronicle)
        self._read = single_reads(chronicle)
        self.decisions = {
            event.decision.id: event for event in chronicle.events if isinstance(event, DecisionMade)
        }
        self.writes = {written.id: written for written in _all_written(chronicle)}
        self.requests = {event.decision for event in chronicle.events if isinstance(event, RequestSent)}
        self._by_resource: dict[str, list[Written]] = {}
        for written in self.writes.values():
            self._by_resource.setdefault(written.ref.resource, []).append(written)
        events = self._by_resource.get(EVENTS, ())
        self._events = {f"event:{event.ref.uid}": event for event in events if event.before is None}
        self._events_gone = {event.ref.uid for event in events if event.after is None}

    def timeline(self, subject: ObjectRef) -> Timeline:
        edges = [*self._wrote(subject.uid), *self._woke(subject.uid), *self._reported(subject.uid)]
        entries = {id_: self._entry(id_) for edge in edges for id_ in (edge.cause, edge.effect)}
        for written in self.writes.values():
            if written.ref.uid == subject.uid:
                entries[written.id] = self._entry(written.id)
        ordered = in_order(list(entries.values()), edges)
        return Timeline(subject=subject, entries=tuple(ordered), edges=tuple(edges))

    def was_delivered(self, write: str, decision: str) -> bool:
        """Whether the commit had reached the process by a watch, a list or as an answer, when it decided."""
        written, decided = self.writes.get(write), self.decisions.get(decision)
        if written is None or decided is None:
            return False
        process, incarnation, answer = self._answers.get(written.commit.id, ("", 0, 0))
        if (process, incarnation) == (decided.process, decided.incarnation) and answer < decided.id:
            return True
        stream = (decided.process, decided.incarnation, written.ref.resource)
        if any(
            self._read.get((*stream, revision), decided.id) < decided.id for revision in self._shows(written)
        ):
            return True
        seen = self._revisions_seen.get(stream, [])
        index = bisect.bisect_left(seen, (decided.id, 0))
        return index > 0 and seen[index - 1][1] >= written.commit.revision

    def _shows(self, written: Written) -> list[int]:
        """The revisions of objects that show the write to who reads them: its own; of a removal, also those
        of the objects that have the name since."""
        if written.after is not None:
            return [written.commit.revision]
        return [
            later.commit.revision
            for later in self._by_resource[written.ref.resource]
            if later.ref.key == written.ref.key and later.commit.revision >= written.commit.revision
        ]

    # Edges.

    def _wrote(self, uid: str) -> Iterator[Edge]:
        for written in self.writes.values():
            if written.ref.resource == EVENTS or written.decision not in self.decisions:
                continue
            if uid in {written.ref.uid, self._subject(written)}:
                yield Edge(decision_id(written.decision), written.id, "wrote")

    def _subject(self, written: Written) -> str:
        return self.decisions[written.decision].decision.subject.uid

    def _reported(self, uid: str) -> Iterator[Edge]:
        """The Events about the object that are still there: records have no others."""
        for written in self._by_resource.get(EVENTS, ()):
            about = lookup(written.after or {}, "involvedObject", "uid")
            is_there = written.before is None and written.ref.uid not in self._events_gone
            if is_there and about == uid and written.decision in self.decisions:
                yield Edge(decision_id(written.decision), f"event:{written.ref.uid}", "reported")

    def _woke(self, uid: str) -> Iterator[Edge]:
        for decided in self.decisions.values():
            if decided.decision.subject.uid == uid:
                for written in self._brought(decided):
                    if written.concerns(uid):
                        yield Edge(written.id, decision_id(decided.decision.id), "woke")

    def _brought(self, decided: DecisionMade) -> Iterator[Written]:
        """What the watch brought with the input in which the process decided."""
        took = self._chronicle.events[decided.cause] if decided.cause != NOBODY else None
        if not isinstance(took, InputReceived) or took.cause == NOBODY:
            return
        message = self._chronicle.events[took.cause]
        if not isinstance(message, LogLine) or message.kind is not Input.CHUNK:
            return
        seen = self._revisions_seen.get((took.process, took.incarnation, message.resource), [])
        index = bisect.bisect_left(seen, (took.id, 0))
        known = seen[index - 1][1] if index else 0
        for written in self._by_resource.get(message.resource, ()):
            if known < written.commit.revision <= message.revision:
                yield written

    def _entry(self, id_: str) -> Entry:
        written = self.writes.get(id_) or self._events.get(id_)
        if written is not None:
            return Entry(
                id=id_,
                time=micro_timestamp(EPOCH_NS + written.commit.at_ns),
                source="event" if id_ in self._events else "audit",
                actor=written.commit.process,
                text=written.text,
                object=written.ref,
                revision=written.commit.revision,
                ids={"decision": written.decision} if written.decision else {},
            )
        decided = self.decisions[id_.removeprefix("decision:")]
        subject = decided.decision.subject
        ref = ObjectRef(subject.resource, subject.namespace, subject.name, subject.uid)
        return Entry(
            id=id_,
            time=micro_timestamp(EPOCH_NS + decided.at_ns),
            source="decision",
            actor=decided.decision.controller,
            text=decision_text(decided.decision, ref),
            object=ref,
            generation=subject.generation,
            ids={"decision": decided.decision.id, "process": decided.process},
        )


def _all_written(chronicle: Chronicle) -> Iterator[Written]:
    for event in chronicle.events:
        if not isinstance(event, CommitSeen):
            continue
        sent = next((past for past in chronicle.past_of(event.id) if isinstance(past, RequestSent)), None)
        for change in event.changes:
            if change.key.startswith(REGISTRY) and place_of(change.key)[0] not in BOOKS:
                yield _written(event, change, _decision_of(sent, place_of(change.key)[0]))


def _decision_of(sent: RequestSent | None, resource: str) -> str:
    """Without what the API server writes in the same commit: a pod's quota is charged."""
    if sent is None or resource_of(sent.target) not in {resource, BATCHES}:
        return ""
    return sent.decision


def _written(commit: CommitSeen, change: Change, sent: str) -> Written:
    before = change.previous.body.obj if change.previous is not None else None
    after = change.entry.body.obj if change.entry is not None else None
    resource, key = place_of(change.key)
    ref = ObjectRef(resource, *key, uid_of(after or before or {}))
    return Written(commit, ref, before, after, sent or _bound_by(before, after))


def _bound_by(before: Obj | None, after: Obj | None) -> str:
    """A batch of bindings has a decision for each pod, which it writes on the pod."""
    if lookup(before, "spec", "nodeName") or not lookup(after, "spec", "nodeName"):
        return ""
    return str((metadata(after or {}).get("annotations") or {}).get(DECISION_ANNOTATION) or "")
