"""Timelines made from records are true: no edge that the chronicle does not have, and few are missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from fathom.explain.evidence import ObjectRef
from fathom.explain.timeline import answer as timeline_answer
from fathom.explain.timeline.timeline import Edge, Timeline, TimelineSpec, path_of, write_id
from fathom.model.objects import lookup
from fathom.model.well_known import DECISION_ANNOTATION
from fathom.sim.report.live_records import LiveRecords
from fathom.sim.report.object_timeline import ObjectTimelines
from fathom.sim.world.invariants import Checker, Finding
from fathom.sim.world.world import World

# Of the chronicle's edges, how many must be found: a queue keeps only the first of several causes.
FOUND_MIN = 0.95
HOUSEKEEPING = "housekeeping"  # Prefix of the names of its parts in records.
UNFOLDED = TimelineSpec(fold=False, entries_max=1_000_000)


class ComparedEdges(msgspec.Struct):
    """What a comparison of timelines found, over all objects of a run."""

    recorded: int = 0  # Edges of timelines from records that were compared.
    inferred: int = 0  # Of these, the inferred ones.
    false: list[str] = []  # In words.
    expected: int = 0  # Edges of the chronicle.
    missing: list[str] = []


def compare(live: LiveRecords, true: ObjectTimelines, subject: ObjectRef, into: ComparedEdges) -> None:
    timeline = timeline_answer.answer(live.evidence(subject), UNFOLDED)
    edges = dict.fromkeys(edge for edge in contracted(timeline) if edge.cause != edge.effect)
    for edge in edges:
        if _is_within_server(edge, true):
            continue
        into.recorded += 1
        into.inferred += edge.inferred
        if not is_true(edge, true, timeline):
            into.false.append(f"{path_of(subject)}: {edge.cause} {edge.kind} {edge.effect}")
    pairs = {(edge.cause, edge.effect) for edge in edges}
    woken = {edge.effect for edge in edges if edge.kind in {"woke", "used"}}
    for effect, causes in _expected(true.timeline(subject)).items():
        if _is_within_server(causes[0], true):
            continue
        into.expected += 1
        # Of several changes that arrived together, the queue keeps the first.
        if not any((edge.cause, effect) in pairs for edge in causes) and not (
            causes[0].kind == "woke" and effect in woken
        ):
            into.missing.append(f"{path_of(subject)}: {causes[0].cause} {causes[0].kind} {effect}")


def _is_within_server(edge: Edge, true: ObjectTimelines) -> bool:
    """Whether housekeeping decided it, in the API server: its requests and its view of the objects pass over
    no network, so the chronicle has neither."""
    ids = [end.removeprefix("decision:") for end in (edge.cause, edge.effect) if end.startswith("decision:")]
    decided = [true.decisions[id_] for id_ in ids if id_ in true.decisions]
    return any(event.decision.controller.startswith(HOUSEKEEPING) for event in decided)


def _expected(timeline: Timeline) -> dict[str, list[Edge]]:
    by_effect: dict[str, list[Edge]] = {}
    for edge in timeline.edges:
        by_effect.setdefault(edge.effect, []).append(edge)
    return by_effect


def contracted(timeline: Timeline) -> Iterator[Edge]:
    """Edges between writes, decisions and reports. A wait in a queue, a rule and a reading of caches are
    parts of their decision; a verdict of admission is part of its write. A write that a cache received
    and that a decision used is one edge from the write to the decision."""
    parts = {entry.id: _whole(entry.id, entry.ids) for entry in timeline.entries}
    received = {entry.id: entry.ids["write"] for entry in timeline.entries if "write" in entry.ids}
    written_by_audit = {
        entry.ids["audit"]: entry.id for entry in timeline.entries if entry.source in {"audit", "override"}
    }
    for edge in timeline.edges:
        if edge.effect in received:
            continue
        cause = received.get(edge.cause) or parts[edge.cause]
        if edge.cause.startswith("admission:"):
            cause = written_by_audit[cause]
        yield Edge(cause, parts[edge.effect], edge.kind, edge.inferred)


def _whole(id_: str, ids: dict[str, str]) -> str:
    if id_.startswith("admission:"):
        return ids["audit"]
    if id_.startswith(("queue:", "cache:", "outcome:")) and "decision" in ids:
        return f"decision:{ids['decision']}"
    return id_.partition("/")[0] if id_.startswith("decision:") else id_


def is_true(edge: Edge, true: ObjectTimelines, timeline: Timeline) -> bool:
    if edge.effect.startswith("decision:"):
        decision = edge.effect.removeprefix("decision:")
        if edge.cause.startswith("decision:"):
            return _goes_on_from(edge.cause.removeprefix("decision:"), decision, true)
        return true.was_delivered(edge.cause, decision) and _is_named(edge, true)
    if edge.effect.startswith("write:"):
        written = true.writes.get(edge.effect)
        return written is not None and edge.cause == f"decision:{written.decision}"
    if edge.effect.startswith("audit:"):  # The API server refused it.
        return edge.cause.removeprefix("decision:") in true.requests
    if edge.effect.startswith("condition:"):
        return _changed_condition(edge, true)
    return _is_reported(edge, true, timeline)


def _goes_on_from(earlier: str, later: str, true: ObjectTimelines) -> bool:
    """Only who has decided can try it again: the same incarnation, for the same object, and later. Of a pass
    that raised, the record has no UID."""
    before, after = true.decisions.get(earlier), true.decisions[later]
    if before is None or before.id >= after.id:
        return False
    one, other = (made.decision.subject for made in (before, after))
    return (
        (before.process, before.incarnation) == (after.process, after.incarnation)
        and before.decision.controller == after.decision.controller
        and (one.resource, one.namespace, one.name) == (other.resource, other.namespace, other.name)
        and (one.uid == other.uid or not one.uid or not other.uid)
    )


def _is_named(edge: Edge, true: ObjectTimelines) -> bool:
    """Of a wake: the write was of the very object whose change queued the key, and not of a namesake."""
    cause = true.decisions[edge.effect.removeprefix("decision:")].decision.cause
    named = true.writes.get(write_id(cause.revision, ObjectRef(cause.resource, cause.namespace, cause.name)))
    return edge.kind != "woke" or (named is not None and true.writes[edge.cause].ref.uid == named.ref.uid)


def _changed_condition(edge: Edge, true: ObjectTimelines) -> bool:
    """Its status or its time: a second change of the status within one second leaves the time as it is."""
    _, uid, type_, _ = edge.effect.split(":", 3)
    written = true.writes.get(edge.cause)
    if written is None or written.ref.uid != uid:
        return False
    before, after = (
        next(
            (
                (condition.get("status"), condition.get("lastTransitionTime"))
                for condition in lookup(obj, "status", "conditions") or ()
                if condition["type"] == type_
            ),
            None,
        )
        for obj in (written.before, written.after)
    )
    return bool(before != after)


def _is_reported(edge: Edge, true: ObjectTimelines, timeline: Timeline) -> bool:
    """The process that decided wrote the Event, which names the decision. An Event of an older version names
    none: then it is about the decision's own subject."""
    decided = true.decisions.get(edge.cause.removeprefix("decision:"))
    name = next(entry.ids.get("event", "") for entry in timeline.entries if entry.id == edge.effect)
    writes = (written for written in true.writes.values() if written.ref.resource == "events")
    event = next((written for written in writes if written.ref.name == name), None)
    if decided is None or event is None:
        return False
    if event.commit.process != decided.process:
        return False
    named = lookup(event.after, "metadata", "annotations", DECISION_ANNOTATION)
    about = lookup(event.after, "involvedObject", "uid")
    return bool(named == decided.decision.id if named else about == decided.decision.subject.uid)


class TimelinesAreTrue(Checker):
    """For scenarios that keep a chronicle."""

    name = "timelines from records have no false edge, and few missing ones"

    def settled(self, world: World) -> Iterable[str | Finding]:
        chronicle = world.engine.chronicle
        if chronicle is None:
            return
        compared = compare_all(LiveRecords(chronicle), ObjectTimelines(chronicle))
        if compared.false:
            yield f"{len(compared.false)} edges are false: {compared.false[0]}"
        if len(compared.missing) > (1 - FOUND_MIN) * compared.expected:
            missing = f"{len(compared.missing)} of {compared.expected} edges of the chronicle are missing"
            yield f"{missing}: {compared.missing[0]}"


def compare_all(live: LiveRecords, true: ObjectTimelines) -> ComparedEdges:
    compared = ComparedEdges()
    for subject in live.subjects():
        compare(live, true, subject, compared)
    return compared
