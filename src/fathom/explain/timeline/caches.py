"""Entries about caches: from which revisions a decision was made, and when a process received a write.

A process notes when changes of quotas, policies and overrides arrive, and its tape has all arrivals. Without
either, the first decision that had seen the change says when it had arrived at the latest; the entry says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from fathom.explain.evidence import CacheObservation, Evidence, ObjectRef, Recorded
from fathom.explain.timeline.decisions import is_attempt, may_read, ours
from fathom.explain.timeline.scope import Scope
from fathom.explain.timeline.timeline import Edge, Entry, decision_id, singular, words_for, write_id
from fathom.explain.timeline.writes import audit_ref
from fathom.model.audit import AuditEntry
from fathom.model.decision import Decision, SeenVersions
from fathom.model.times import micro_timestamp, moment_ns

KINDS_SHOWN = ("Node", "Pod")
SCHEDULER = "scheduler"  # The part of a process; 'scheduler-0of2' is one of several.


def cache_entries(evidence: Evidence, scope: Scope) -> tuple[list[Entry], list[Edge]]:
    decided = [(record, ref) for record, ref in ours(evidence, scope) if ref.uid in scope.uids]
    cited = [
        entry
        for entry in evidence.audit
        if _is_input(entry, scope) and may_read(entry.resource, entry.namespace, evidence)
    ]
    entries: list[Entry] = []
    edges: list[Edge] = []
    for record, ref in decided:
        decision = record.kept.decision
        unseen = [write for write in cited if _is_unseen(write, decision)]
        if unseen or (is_attempt(decision) and not decision.node):
            entries.append(_read(record, ref, unseen, scope))
            edges.append(Edge(f"cache:{decision.id}", decision_id(decision.id), "used"))
    for write in cited:
        for entry, user in _received(write, evidence, [record for record, _ in decided]):
            entries.append(entry)
            edges.append(Edge(write_id(write.revision, audit_ref(write)), entry.id, "saw"))
            if user:
                edges.append(Edge(entry.id, decision_id(user), "used"))
    return entries, edges


def _is_input(entry: AuditEntry, scope: Scope) -> bool:
    """A write of something that decisions cite. A report of usage or health alone is not waited for."""
    is_report = bool(entry.changed) and all(path.startswith("status") for path in entry.changed)
    return entry.wrote and scope.role(entry.uid) == "cited" and not is_report


def _is_unseen(write: AuditEntry, decision: Decision) -> bool:
    seen = seen_of(decision, write.resource)
    earlier = (moment_ns(write.time) or 0) < decision.time_ns
    return seen is not None and earlier and write.revision > newest(seen)


def seen_of(decision: Decision, resource: str) -> SeenVersions | None:
    """Decisions name kinds ('TenantQuota'), writes name resources ('tenantquotas.fathom.dev')."""
    word = singular(resource)
    return next((seen for kind, seen in decision.seen.items() if _lower(kind) == word), None)


@lru_cache(maxsize=256)
def _lower(kind: str) -> str:
    return kind.lower()


def newest(seen: SeenVersions) -> int:
    return max(seen.revision, seen.applied)


# From which revisions a decision was made.


def _read(record: Recorded, ref: ObjectRef, unseen: Sequence[AuditEntry], scope: Scope) -> Entry:
    decision = record.kept.decision
    kinds = {singular(cited.resource) for uid, cited in scope.refs.items() if scope.role(uid) == "cited"}
    shown = [
        f"{kind} at revision {_versions(seen)}"
        for kind, seen in decision.seen.items()
        if kind in KINDS_SHOWN or kind.lower() in kinds
    ]
    missing = "".join(
        f"; it has not received revision {write.revision} of {words_for(audit_ref(write))}"
        for write in unseen
    )
    node = seen_of(decision, "nodes")
    return Entry(
        id=f"cache:{decision.id}",
        time=micro_timestamp(decision.time_ns),
        source="cache",
        actor=decision.controller,
        text=f"reads its caches for {words_for(ref)}: {', '.join(shown)}{missing}",
        object=ref,
        revision=0 if node is None else node.revision,
        generation=decision.subject.generation,
        ids={"decision": decision.id},
    )


def _versions(seen: SeenVersions) -> str:
    newer = f" (newest change {seen.applied})" if seen.applied > seen.revision else ""
    return f"{seen.revision}{newer}"


# When a process received a write.


def _received(
    write: AuditEntry, evidence: Evidence, decided: Sequence[Recorded]
) -> Iterator[tuple[Entry, str]]:
    """For each reader that first decided without the write: when it received it, and the first decision that
    used it."""
    for reader in dict.fromkeys(map(_reader, decided)):
        decisions = [record.kept.decision for record in decided if _reader(record) == reader]
        aware = [
            (decision, newest(seen) >= write.revision)
            for decision in decisions
            if (seen := seen_of(decision, write.resource)) is not None
        ]
        if not any(not saw for _, saw in aware):
            continue
        user = next((decision for decision, saw in aware if saw), None)
        noted = _noted(write, reader, evidence.observations)
        if noted is not None:
            yield _entry(write, reader, noted.time_ns, ""), "" if user is None else user.id
        elif user is not None:
            how = f", at the latest now: decision {user.id} had seen it"
            yield _entry(write, reader, user.time_ns, how), user.id


class _Reader(NamedTuple):
    """A part of a process that has caches of its own: the scheduler, or all controllers together."""

    process: str
    name: str
    schedules: bool


def _reader(record: Recorded) -> _Reader:
    decision = record.kept.decision
    schedules = is_attempt(decision)
    name = decision.controller if schedules or not record.process else record.process
    return _Reader(record.process, name, schedules)


def _noted(
    write: AuditEntry, reader: _Reader, observations: Sequence[CacheObservation]
) -> CacheObservation | None:
    word = singular(write.resource)
    return next(
        (
            observed
            for observed in observations
            if observed.process == reader.process
            and (not observed.part or observed.part.startswith(SCHEDULER) == reader.schedules)
            and observed.kind.lower() == word
            and observed.revision >= write.revision
        ),
        None,
    )


def _entry(write: AuditEntry, reader: _Reader, time_ns: int, how: str) -> Entry:
    ref = audit_ref(write)
    return Entry(
        id=f"cache:{reader.name}:{write_id(write.revision, ref)}",
        time=micro_timestamp(time_ns),
        source="cache",
        actor=reader.name,
        text=f"receives revision {write.revision} of {words_for(ref)} in its cache{how}",
        object=ref,
        revision=write.revision,
        ids={"process": reader.process, "write": write_id(write.revision, ref)},
    )
