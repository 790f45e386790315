"""Writes that may have been committed, although the audit log does not say so.

1. A server sends a commit. 2. The store commits. 3. The outcome does not reach the server: its entry has 504
and no revision. Or the server dies, and there is no entry: then the outcome of a decision names the revision
at which a read found the write, or says that nobody knows. What such a write may have changed is not said to
come from another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fathom.explain.evidence import Evidence, revision_of
from fathom.model.audit import AuditEntry
from fathom.model.decision import Decision, Outcome
from fathom.model.objects import Key, uid_of
from fathom.model.times import micro_timestamp, moment_ns

# By the revision before which they were committed, if they were at all.
Unconfirmed = Iterator[tuple[int, AuditEntry]]
AFTER_ALL = 1 << 63  # Revisions are 64-bit.


def with_unconfirmed(
    evidence: Evidence, logged: Mapping[str, Sequence[AuditEntry]]
) -> dict[str, list[AuditEntry]]:
    """The writes of each object, by UID: those that are `logged`, in order of revision, and among them the
    unconfirmed ones, each at the last place that it may have."""
    unconfirmed: dict[str, list[tuple[int, AuditEntry]]] = {}
    for before, entry in (*_of_the_log(evidence, logged), *_of_outcomes(evidence, logged)):
        unconfirmed.setdefault(entry.uid, []).append((before, entry))
    return {
        uid: _merged(logged.get(uid, ()), unconfirmed.get(uid, ()))
        for uid in dict.fromkeys((*logged, *unconfirmed))
    }


def _merged(logged: Iterable[AuditEntry], unconfirmed: Iterable[tuple[int, AuditEntry]]) -> list[AuditEntry]:
    placed = [(before, False, entry) for before, entry in unconfirmed]
    placed += [(entry.revision, True, entry) for entry in logged]
    return [entry for _, _, entry in sorted(placed, key=lambda place: place[:2])]


def _of_the_log(evidence: Evidence, logged: Mapping[str, Sequence[AuditEntry]]) -> Unconfirmed:
    decided_ns = {record.kept.decision.id: record.kept.decision.time_ns for record in evidence.decisions}
    for entry in (*evidence.audit, *_never_told(evidence)):
        if entry.uid and entry.may_have_written:
            answered_ns = moment_ns(entry.time) or 0
            later = (
                write.revision
                for write in logged.get(entry.uid, ())
                if decided_ns.get(write.decision, 0) > answered_ns or _is_newest(write, evidence)
            )
            # An unconfirmed commit expects the object as it was read before the answer: it fails after any
            # write that was decided since.
            yield next(later, AFTER_ALL), entry


def _never_told(evidence: Evidence) -> Iterator[AuditEntry]:
    """Writes whose servers died, and whose senders never learned what became of them."""
    answered = _answered(evidence)
    for record in evidence.decisions:
        decision, outcomes = record.kept.decision, record.kept.outcomes
        if outcomes and outcomes[-1].result == "unknown":
            entry = _untold(decision, outcomes[-1])
            if (decision.id, entry.uid) not in answered:
                yield entry


def _answered(evidence: Evidence) -> set[tuple[str, str]]:
    """The decisions of which the log has a write of an object that was committed, or may have been."""
    return {(entry.decision, entry.uid) for entry in evidence.audit if entry.wrote or entry.may_have_written}


def _is_newest(write: AuditEntry, evidence: Evidence) -> bool:
    """Whether the object as it is was written by it."""
    obj = evidence.objects.get(write.resource, Key(write.namespace, write.name))
    return obj is not None and uid_of(obj) == write.uid and revision_of(obj) == write.revision


def _of_outcomes(evidence: Evidence, logged: Mapping[str, Sequence[AuditEntry]]) -> Unconfirmed:
    """Of decisions that the log does not have. A settled outcome has the revision that a read found: where
    that is another's write, ours came before it. A write that changed nothing has that of an earlier one."""
    answered = _answered(evidence)
    revisions = {uid: {write.revision for write in writes} for uid, writes in logged.items()}
    for decision, outcome in _done(evidence):
        entry = _untold(decision, outcome)
        if (decision.id, entry.uid) in answered or not _is_past(entry, outcome, evidence):
            continue
        if outcome.revision not in revisions.get(entry.uid, ()):
            yield outcome.revision + 1, entry
        elif outcome.result == "settled":
            yield outcome.revision, entry


def _is_past(entry: AuditEntry, outcome: Outcome, evidence: Evidence) -> bool:
    """False where the objects are those of an earlier time."""
    obj = evidence.objects.get(entry.resource, Key(entry.namespace, entry.name))
    return obj is None or uid_of(obj) != entry.uid or outcome.revision <= revision_of(obj)


def _done(evidence: Evidence) -> Iterator[tuple[Decision, Outcome]]:
    for record in evidence.decisions:
        for outcome in record.kept.outcomes:
            if outcome.revision and outcome.result in {"committed", "settled"}:
                yield record.kept.decision, outcome


def _untold(decision: Decision, outcome: Outcome) -> AuditEntry:
    """As the log would have it, without its revision. It may have changed any field, or any of the status."""
    written = outcome.object or decision.subject
    return AuditEntry(
        id=f"outcome:{decision.id}:{outcome.revision}",
        time=micro_timestamp(outcome.time_ns),
        user="",
        verb=outcome.verb,
        resource=written.resource,
        namespace=written.namespace,
        name=written.name,
        uid=written.uid,
        code=504,
        decision=decision.id,
        changed=("status",) if outcome.verb == "status" else ("*",),
    )
