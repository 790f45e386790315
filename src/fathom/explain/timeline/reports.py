"""Entries from Events and conditions: what was reported about the objects, and by which decision or write.

Their times are in whole seconds. Events of ours name the decision that they report. Conditions name none, and
neither do Events of others: there a cause is inferred, and only where there is a single candidate, or where
the log names the change. The entry has the time of the cause, or of the first candidate, if that is later:
nobody saw the report before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.timeline.scope import Scope, ref_of
from fathom.explain.timeline.timeline import Edge, Entry, decision_id, words_for, write_id
from fathom.explain.timeline.writes import Writes, audit_ref
from fathom.model.audit import AuditEntry
from fathom.model.decision import Decision
from fathom.model.fields import touches
from fathom.model.objects import Obj, key_of, lookup, metadata, uid_of
from fathom.model.times import SECOND_NS, micro_timestamp, moment_ns, timestamp
from fathom.model.well_known import DECISION_ANNOTATION

EVENTS = "events"
# A report is sent right after its decision; a write arrives right after its condition was made.
LATE_NS = 2 * SECOND_NS


def event_entries(evidence: Evidence, scope: Scope) -> tuple[list[Entry], list[Edge]]:
    """Events about the subject, its owners and what it owns, by the UID that they name."""
    created_ns = {
        entry.uid: moment_ns(entry.time) or 0
        for entry in evidence.audit
        if entry.resource == EVENTS and entry.verb == "create" and entry.uid
    }
    entries: list[Entry] = []
    edges: list[Edge] = []
    for event in evidence.objects.list(EVENTS):
        about = event.get("involvedObject") or event.get("regarding") or {}
        if about.get("uid") not in scope.uids:
            continue
        ref = scope.refs[about["uid"]]
        began_ns = moment_ns(event.get("eventTime")) or moment_ns(event.get("firstTimestamp")) or 0
        cause, inferred = _event_cause(event, ref, began_ns, evidence)
        written_ns = created_ns.get(uid_of(event), 0)  # Exact, where the audit log was read for Events too.
        entry = _event(event, ref, max(began_ns, written_ns, cause.time_ns if cause is not None else 0))
        entries.append(entry)
        if cause is not None:
            edges.append(Edge(decision_id(cause.id), entry.id, "reported", inferred))
    return entries, edges


def _event(event: Obj, ref: ObjectRef, time_ns: int) -> Entry:
    count = int(event.get("count") or lookup(event, "series", "count") or 1)
    last_ns = moment_ns(event.get("lastTimestamp")) or 0
    actor = event.get("reportingComponent") or lookup(event, "source", "component") or "?"
    message = str(event.get("message") or event.get("note") or "")
    return Entry(
        id=f"event:{uid_of(event) or key_of(event).name}",
        time=micro_timestamp(time_ns),
        source="event",
        actor=str(actor),
        text=f"reports the Event {event.get('reason')} of {words_for(ref)}: {message}".removesuffix(": "),
        object=ref,
        ids={"event": key_of(event).name, **({"decision": named} if (named := decision_of(event)) else {})},
        count=count,
        until=micro_timestamp(last_ns) if count > 1 and last_ns > time_ns else "",
    )


def decision_of(event: Obj) -> str:
    """The id of the decision that the Event reports; '' where it names none: it is not one of ours."""
    return str((metadata(event).get("annotations") or {}).get(DECISION_ANNOTATION) or "")


def _event_cause(
    event: Obj, ref: ObjectRef, began_ns: int, evidence: Evidence
) -> tuple[Decision | None, bool]:
    named = decision_of(event)
    decisions = [record.kept.decision for record in evidence.decisions]
    if named:
        return next((decision for decision in decisions if decision.id == named), None), False
    near = [
        decision
        for decision in decisions
        if decision.subject.uid == ref.uid and began_ns - LATE_NS < decision.time_ns < began_ns + SECOND_NS
    ]
    message = str(event.get("message") or "")
    same = [decision for decision in near if decision.message and decision.message == message]
    candidates = same if message and same else []
    return (candidates[0], True) if len(candidates) == 1 else (None, True)


def condition_entries(evidence: Evidence, scope: Scope, writes: Writes) -> tuple[list[Entry], list[Edge]]:
    """The last change of each condition: earlier ones are in no record."""
    entries: list[Entry] = []
    edges: list[Edge] = []
    for obj, ref in _present(evidence, scope):
        for condition in lookup(obj, "status", "conditions") or ():
            changed_ns = moment_ns(condition.get("lastTransitionTime"))
            if changed_ns is None:
                continue
            written = _written_since(condition, changed_ns, writes.possible(ref.uid))
            soon_ns = changed_ns + SECOND_NS + LATE_NS
            candidates = [
                write
                for write in written
                if _sets(write, condition)
                or (_may_change(write, condition) and (_time_ns(write) < soon_ns or not write.wrote))
            ]
            # A write that is not on record may have changed it as well. When an unconfirmed one was committed
            # is not known: its time is that of an answer, or of a read that found it.
            cause = _changing(candidates, condition) if writes.is_newest(obj) else None
            changing = candidates if cause is None else [cause]
            time_ns = max(changed_ns, min(map(_time_ns, changing), default=0))
            entry = _condition(condition, ref, time_ns, text_ns=_reworded_ns(condition, written, changing))
            entries.append(entry)
            if cause is not None:
                cause_id = write_id(cause.revision, audit_ref(cause))
                edges.append(Edge(cause_id, entry.id, "reported", inferred=True))
    return entries, edges


def _present(evidence: Evidence, scope: Scope) -> Iterator[tuple[Obj, ObjectRef]]:
    for uid in sorted(scope.uids):
        ref = scope.refs[uid]
        obj = evidence.objects.get(ref.resource, ref.key)
        if obj is not None and uid_of(obj) == uid:
            yield obj, ref_of(ref.resource, obj)


def _written_since(condition: Obj, changed_ns: int, writes: Sequence[AuditEntry]) -> list[AuditEntry]:
    field = f"status.conditions[type={condition.get('type')}]"
    return [
        entry
        for entry in writes
        if _time_ns(entry) >= changed_ns and any(touches(path, field) for path in entry.changed)
    ]


def _reworded_ns(condition: Obj, written: Sequence[AuditEntry], changing: Sequence[AuditEntry]) -> int | None:
    """When the reason or the message was last written after the change of the status; None: not since.
    After is by revision: a write from before the change may be in the log behind it."""
    field = f"status.conditions[type={condition.get('type')}]"
    words = (f"{field}.reason", f"{field}.message")
    first = min((entry.revision for entry in changing if entry.wrote), default=0)
    known = {entry.id for entry in changing}
    later = [
        _time_ns(entry)
        for entry in written
        if entry.revision > first
        and entry.id not in known
        and any(touches(path, word) for path in entry.changed for word in words)
    ]
    return later[-1] if later else None


def _changing(candidates: Sequence[AuditEntry], condition: Obj) -> AuditEntry | None:
    """The last write that surely set the status or the time of the change, however late it came, unless one
    after it may have; else the only one that may have. None if it may not have been committed."""
    sure = [place for place, write in enumerate(candidates) if write.wrote and _sets(write, condition)]
    doubtful = candidates[sure[-1] if sure else 0 :]
    return doubtful[0] if len(doubtful) == 1 and doubtful[0].wrote else None


def _sets(entry: AuditEntry, condition: Obj) -> bool:
    """Whether the write set the condition's status or time. A second change of the status within one second
    leaves the time as it is. All conditions at once are set where there were none: a condition that came
    later is an item of its own."""
    field = f"status.conditions[type={condition.get('type')}]"
    exact = {"status", "status.conditions", field, f"{field}.lastTransitionTime", f"{field}.status"}
    return not exact.isdisjoint(entry.changed)


def _may_change(entry: AuditEntry, condition: Obj) -> bool:
    """Whether the write may have changed the condition's status, and not only a time or a message."""
    field = f"status.conditions[type={condition.get('type')}]"
    parts = (f"{field}.status", f"{field}.lastTransitionTime")
    return any(touches(path, part) for path in entry.changed for part in parts)


def _time_ns(entry: AuditEntry) -> int:
    return moment_ns(entry.time) or 0


def _condition(condition: Obj, ref: ObjectRef, time_ns: int, *, text_ns: int | None) -> Entry:
    """`text_ns`: since when reason and message may be as they are, if that is after this change."""
    reason = f" ({condition['reason']})" if condition.get("reason") else ""
    has_text = reason or condition.get("message")
    since = "" if text_ns is None or not has_text else f"; since {_moment(text_ns, time_ns)} it reads"
    message = f": {condition['message']}" if condition.get("message") else ""
    return Entry(
        id=f"condition:{ref.uid}:{condition.get('type')}:{condition.get('lastTransitionTime')}",
        time=micro_timestamp(time_ns),
        source="condition",
        actor=words_for(ref),
        text=f"has condition {condition.get('type')}={condition.get('status')}{since}{reason}{message}",
        object=ref,
        generation=int(condition.get("observedGeneration") or 0),
    )


def _moment(time_ns: int, beside_ns: int) -> str:
    """'12:00:40', as the line's own time is shown; of another day, in full."""
    text, beside = timestamp(time_ns), timestamp(beside_ns)
    return text[11:19] if text[:10] == beside[:10] else text
