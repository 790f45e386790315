"""Makes a Timeline from evidence. The order in which the sources come does not matter."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.explain.evidence import Evidence, Gap, Recorded
from fathom.explain.hidden_names import HiddenNames, hidden_from
from fathom.explain.timeline.caches import cache_entries
from fathom.explain.timeline.decisions import decision_entries, may_read
from fathom.explain.timeline.folding import folded, without_routine
from fathom.explain.timeline.ordering import in_order
from fathom.explain.timeline.overrides import end_entries
from fathom.explain.timeline.reports import condition_entries, event_entries
from fathom.explain.timeline.scope import Scope, scope_of
from fathom.explain.timeline.timeline import Edge, Entry, Timeline, TimelineSpec, decision_id, words_for
from fathom.explain.timeline.writes import EVERY_FIELD, Writes, write_entries
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.objects import metadata
from fathom.model.times import micro_timestamp


def answer(evidence: Evidence, spec: TimelineSpec) -> Timeline:
    evidence = _sorted(evidence)
    scope, writes = scope_of(evidence), Writes(evidence)
    written, from_writes = write_entries(evidence, scope, writes)
    decided, from_decisions = decision_entries(evidence, scope, writes)
    cached, from_caches = cache_entries(evidence, scope)
    events, from_events = event_entries(evidence, scope)
    conditions, from_conditions = condition_entries(evidence, scope, writes)
    ends = end_entries(evidence, scope.held_by)
    collected = [*written, *decided, *cached, *events, *conditions, *ends]
    everything = _once([entry for entry in collected if not _is_aside(entry, scope)])
    decisions_of_writes = _named_decisions(written)
    edges = [
        *from_writes,
        *from_decisions,
        *from_caches,
        *from_events,
        *from_conditions,
        *decisions_of_writes,
    ]
    hidden = hidden_from(evidence)
    readable = [_with_role(entry, scope) for entry in everything if _may_see(entry, evidence, hidden)]
    entries = _within(_of_generation(_meanwhile(readable, scope, edges), edges, scope, spec), spec)
    gaps = [*evidence.gaps, *_gaps(evidence, scope, written, len(everything) - len(readable))]
    edges = between(edges, entries)
    if spec.fold:
        entries = without_routine(entries, edges)
        edges = between(edges, entries)
    entries = in_order(entries, edges)
    if spec.fold:
        entries, edges = folded(entries, edges)
    if len(entries) > spec.entries_max:
        gaps.append(Gap("timeline", f"{len(entries) - spec.entries_max} older entries are left out"))
        entries = entries[-spec.entries_max :]
        edges = between(edges, entries)
    return Timeline(
        subject=scope.subject,
        generation=int(metadata(scope.obj or {}).get("generation") or 0),
        entries=tuple(entries),
        edges=tuple(edges),
        gaps=tuple(gaps),
        time=micro_timestamp(evidence.now_ns) if evidence.now_ns else "",
    )


def _with_role(entry: Entry, scope: Scope) -> Entry:
    role = scope.role(entry.object.uid) if entry.object is not None else None
    return entry if role is None else msgspec.structs.replace(entry, role=role)


def _sorted(evidence: Evidence) -> Evidence:
    """Whatever the order in which processes answered, the same answer follows."""
    return msgspec.structs.replace(
        evidence,
        decisions=tuple(sorted(evidence.decisions, key=_moment)),
        audit=tuple(sorted(evidence.audit, key=lambda entry: (entry.time, entry.id))),
        observations=tuple(
            sorted(evidence.observations, key=lambda seen: (seen.time_ns, seen.process, seen.kind))
        ),
        gaps=tuple(sorted(evidence.gaps, key=lambda gap: (gap.source, gap.why))),
    )


def _moment(record: Recorded) -> tuple[int, str]:
    return record.kept.decision.time_ns, record.kept.decision.id


def _once(entries: Sequence[Entry]) -> list[Entry]:
    """The audit log and a decision's outcome may tell of the same write: the audit log's entry, which comes
    first, has more."""
    return list({entry.id: entry for entry in reversed(entries)}.values())


def _named_decisions(written: Sequence[Entry]) -> list[Edge]:
    return [
        Edge(decision_id(entry.ids["decision"]), entry.id, "wrote" if entry.revision else "led to")
        for entry in written
        if "decision" in entry.ids and entry.source in {"audit", "override"}
    ]


def between(edges: Sequence[Edge], entries: Sequence[Entry]) -> list[Edge]:
    """Edges between entries that are there, each once; a recorded one rather than an inferred one."""
    ids = {entry.id for entry in entries}
    kept: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        pair = (edge.cause, edge.effect)
        known = pair in kept and not kept[pair].inferred
        if edge.cause in ids and edge.effect in ids and edge.cause != edge.effect and not known:
            kept[pair] = edge
    return [kept[pair] for pair in sorted(kept)]


# What is left out.


def _may_see(entry: Entry, evidence: Evidence, hidden: HiddenNames) -> bool:
    ref = entry.object
    if ref is None:
        return True
    if ref.resource == TENANT_QUOTAS and ref.name in hidden.tenants:
        return False
    return may_read(ref.resource, ref.namespace, evidence)


def _within(entries: Sequence[Entry], spec: TimelineSpec) -> list[Entry]:
    first = micro_timestamp(spec.since_ns)
    last = micro_timestamp(spec.until_ns) if spec.until_ns else "~"
    if spec.until_revision:
        written = (
            entry.time
            for entry in entries
            if entry.source in {"audit", "override"} and 0 < entry.revision <= spec.until_revision
        )
        last = min(last, max(written, default=""))
    return [entry for entry in entries if first <= (entry.until or entry.time) and entry.time <= last]


def _meanwhile(entries: Sequence[Entry], scope: Scope, edges: Sequence[Edge]) -> list[Entry]:
    """Without what happened to quotas, policies, overrides and nodes before or after everything else, unless
    it caused some of that, or is about an override of the subject."""
    own = [entry for entry in entries if not _is_cited(entry, scope)]
    first = min((entry.time for entry in own), default="~")
    last = max((entry.until or entry.time for entry in own), default="")
    causes = {edge.cause for edge in edges}
    return [
        entry
        for entry in entries
        if not _is_cited(entry, scope) or first <= entry.time <= last or entry.id in causes
    ]


def _is_aside(entry: Entry, scope: Scope) -> bool:
    """Of an override that no decision cites, only counts what it says: not how it was acknowledged."""
    if entry.object is None or entry.object.uid not in scope.uncited:
        return False
    return entry.source != "override" or entry.routine


def _is_cited(entry: Entry, scope: Scope) -> bool:
    """By decisions alone."""
    return (
        entry.object is not None
        and scope.role(entry.object.uid) == "cited"
        and entry.object not in scope.held_by
    )


def _of_generation(
    entries: list[Entry], edges: Sequence[Edge], scope: Scope, spec: TimelineSpec
) -> list[Entry]:
    """From the first record of the subject's generation to the first of the next one, and what caused that
    first one."""
    if not spec.generation:
        return entries
    about = [entry for entry in entries if entry.object is not None and entry.object.uid == scope.subject.uid]
    first = min((entry.time for entry in about if entry.generation == spec.generation), default="~")
    after = min((entry.time for entry in about if entry.generation > spec.generation), default="~")
    began = {entry.id for entry in about if entry.time == first}
    causes = {edge.cause for edge in edges if edge.effect in began}
    return [entry for entry in entries if first <= entry.time < after or entry.id in causes]


def _unknown_before(evidence: Evidence, scope: Scope) -> str:
    """The time of the subject's first write on record, if it is not its creation; else ''."""
    own = [entry for entry in evidence.audit if entry.wrote and entry.uid == scope.subject.uid != ""]
    if scope.obj is None and not own:
        return ""
    is_whole = any(entry.verb == "create" or entry.changed == EVERY_FIELD for entry in own)
    return "" if is_whole else min((entry.time for entry in own), default=micro_timestamp(evidence.now_ns))


def _gaps(evidence: Evidence, scope: Scope, written: Sequence[Entry], unreadable: int) -> list[Gap]:
    gaps = []
    held = {record.kept.decision.id for record in evidence.decisions}
    named = {entry.ids["decision"] for entry in written if "decision" in entry.ids}
    if not scope.subject.uid:
        gaps.append(Gap("objects", "no object of this name exists, and none is on record"))
    if (since := _unknown_before(evidence, scope)) and evidence.audit:
        gaps.append(Gap("audit log", f"it has nothing of {words_for(scope.subject)} before {since}"))
    if lost := len(named - held):
        gaps.append(Gap("journals", f"no journal that answered has {lost} of the decisions that writes name"))
    if unreadable:
        gaps.append(Gap("permissions", f"{unreadable} entries are about objects that you may not read"))
    if scope.left_out:
        gaps.append(Gap("timeline", f"{scope.left_out} more objects that it owns are left out"))
    return gaps
