"""A timeline without the API's help: objects from the API, journals and audit log beside the kubeconfig.

For API servers that do not answer Timelines themselves. It works on the machine of the cluster only.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fathom.client.api import Api, Resource, own_resource
from fathom.explain.evidence import (
    CacheObservation,
    Evidence,
    Gap,
    HeldObjects,
    ObjectRef,
    Recorded,
    RecordQuery,
)
from fathom.explain.timeline.answer import answer
from fathom.explain.timeline.decisions import is_attempt
from fathom.explain.timeline.scope import POLICIES
from fathom.explain.timeline.timeline import Timeline, TimelineSpec, singular
from fathom.explain.timeline.wanted import wanted, wanted_more
from fathom.kinds import (
    repair_proposal,
    reservation,
    scheduler_override,
    scheduling_policy,
    tenant_quota,
    workload_progress,
)
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.audit import AuditEntry
from fathom.model.decision import Subject
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, metadata
from fathom.model.times import micro_timestamp, moment_ns
from fathom.record.audit_reading import read_entries
from fathom.record.journal import node_reasons, read_journal
from fathom.record.segment import NotASegment
from fathom.record.tape import BadTape, Reel, reels
from fathom.record.tape_caches import received_revisions
from fathom.record.tape_list import directories

if TYPE_CHECKING:
    from collections.abc import Sequence

# The kinds that timelines are about, or that decisions cite.
KINDS = (
    Resource("", "v1", "pods"),
    Resource("apps", "v1", "replicasets"),
    Resource("apps", "v1", "deployments"),
    Resource("batch", "v1", "jobs"),
    Resource("autoscaling", "v2", "horizontalpodautoscalers"),
    Resource("", "v1", "services"),
    Resource("", "v1", "events"),
    Resource("", "v1", "resourcequotas"),
    Resource("", "v1", "nodes", namespaced=False),
    Resource("", "v1", "namespaces", namespaced=False),
    *(
        own_resource(kind.DEFINITION)
        for kind in (
            repair_proposal,
            reservation,
            scheduler_override,
            scheduling_policy,
            tenant_quota,
            workload_progress,
        )
    ),
)
# Kinds whose changes decisions wait for.
STEERING = frozenset({TENANT_QUOTAS, OVERRIDES, POLICIES, "resourcequotas"})
# Read in about a second.
TAPE_BYTES_MAX = 64 << 20
FOR_EVER_NS = 1 << 63
# Each table of reasons is a scan of a journal.
REASONS_MAX = 3


class _Read(msgspec.Struct, frozen=True):
    decisions: tuple[Recorded, ...]
    audit: tuple[AuditEntry, ...]
    gaps: tuple[tuple[Gap, int], ...]  # Each with the time before which there is no data.


async def local_timeline(
    api: Api, subject: ObjectRef, spec: TimelineSpec, *, data: Path, journals: Sequence[Path], now_ns: int
) -> Timeline:
    listed: dict[str, list[Obj]] = {}
    gaps: list[Gap] = []
    for resource in KINDS:
        try:
            listed[resource.name] = await _all(api, resource)
        except ApiError as error:
            gaps.append(Gap(resource.name, str(error)))
    objects = HeldObjects(listed)
    first = _read(wanted(subject, objects, spec), data, journals)
    begun_ns = max(spec.since_ns, _created_ns(objects.get(subject.resource, subject.key)))
    evidence = Evidence(
        subject=subject,
        objects=objects,
        decisions=first.decisions,
        audit=first.audit,
        gaps=(*gaps, *(gap for gap, begins_ns in first.gaps if begins_ns > begun_ns)),
        now_ns=now_ns,
    )
    more = wanted_more(evidence, spec)
    if more is not None:
        evidence = _joined(evidence, _read(more, data, journals))
    return answer(_with_tapes(evidence, data), spec)


def _created_ns(obj: Obj | None) -> int:
    return moment_ns(metadata(obj).get("creationTimestamp")) or 0 if obj is not None else 0


def _joined(evidence: Evidence, more: _Read) -> Evidence:
    decisions = {record.kept.decision.id: record for record in (*evidence.decisions, *more.decisions)}
    audit = {entry.id: entry for entry in (*evidence.audit, *more.audit)}
    return msgspec.structs.replace(evidence, decisions=tuple(decisions.values()), audit=tuple(audit.values()))


def _with_tapes(evidence: Evidence, data: Path) -> Evidence:
    """When the deciding processes received the changes of quotas, policies and overrides. Where a tape is too
    long to read, what decisions had seen stands for it."""
    processes = {record.process for record in evidence.decisions}
    observations: list[CacheObservation] = []
    for process, directory in directories(data).items():
        if process not in processes:
            continue
        for reel in reels(directory)[-1:]:
            try:
                if reel.size_bytes <= TAPE_BYTES_MAX:
                    observations += _observations(process, reel)
            except (BadTape, NotASegment, FileNotFoundError):
                continue  # Killed before its first record was written, or dropped meanwhile.
    return msgspec.structs.replace(evidence, observations=tuple(observations))


def _observations(process: str, reel: Reel) -> list[CacheObservation]:
    return [
        CacheObservation(
            process=process,
            kind=singular(received.resource),
            revision=received.revision,
            time_ns=received.time_ns,
        )
        for received in received_revisions(reel, STEERING)
    ]


async def _all(api: Api, resource: Resource) -> list[Obj]:
    page = await api.list_page(resource)
    items = page.items
    while page.token:
        page = await api.list_page(resource, token=page.token)
        items += page.items
    return items


def _read(query: RecordQuery, data: Path, journals: Sequence[Path]) -> _Read:
    places = {(ref.resource, ref.namespace, ref.name) for ref in query.objects}
    gaps = [] if journals else [(Gap("journals", f"there are none in {data}"), FOR_EVER_NS)]
    decisions: list[Recorded] = []
    for path in journals:
        records = read_journal(path)
        if records:
            begins_ns = min(record.decision.time_ns for record in records)
            begins = f"it begins at {micro_timestamp(begins_ns)}"
            gaps.append((Gap(f"journal of {path.name}", begins), begins_ns))
        kept = [
            record
            for record in records
            if _place(record.decision.subject) in places
            or any(out.object is not None and _place(out.object) in places for out in record.outcomes)
        ]
        waiting = [record for record in kept if is_attempt(record.decision) and not record.decision.node]
        explained = {record.decision.id for record in waiting[-REASONS_MAX:]}
        decisions += [
            Recorded(
                path.name,
                record,
                node_reasons(path, record.decision) if record.decision.id in explained else None,
            )
            for record in kept
        ]
    audit, begins = _audit(places, data)
    audit_gap = Gap("audit log", f"it begins at {begins}" if begins else f"there is none in {data}")
    gaps.append((audit_gap, moment_ns(begins) or FOR_EVER_NS))
    return _Read(tuple(decisions), audit, tuple(gaps))


def _place(record: AuditEntry | Subject) -> tuple[str, str, str]:
    return record.resource, record.namespace, record.name


def _audit(places: set[tuple[str, str, str]], data: Path) -> tuple[tuple[AuditEntry, ...], str]:
    begins = ""
    kept = []
    for entry in read_entries(data / "audit"):
        begins = begins or entry.time
        if _place(entry) in places:
            kept.append(entry)
    return tuple(kept), begins
