"""Collects the evidence for one question: journals and states of processes, objects, audit log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from fathom.api.agent_connections import Agents
from fathom.ask.access import Access
from fathom.ask.audit import read_audit
from fathom.ask.fan_in import ProcessAnswer, ask_processes
from fathom.ask.past import PastMoment
from fathom.ask.processes import agents_of, registered_processes
from fathom.ask.recording_gaps import Period, gaps_of_audit, gaps_of_journal, gaps_of_states, life_of
from fathom.explain.evidence import (
    CacheObservation,
    Evidence,
    Gap,
    ObjectRef,
    Objects,
    ProcessState,
    Recorded,
    RecordQuery,
)
from fathom.model.accounts import NODE_USER
from fathom.model.audit import AuditEntry
from fathom.model.objects import Key, lookup, uid_of
from fathom.model.record_query import DecisionReader
from fathom.model.times import moment_ns
from fathom.record.audit_index import AuditIndex
from fathom.record.journal_reader import JournalReader
from fathom.record.recorded_answers import read_records
from fathom.seams.outside import Clock

# Nodes that wrote an object which is gone: so many are asked for one question; of others it says "no data".
WRITERS_MAX = 50


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Where an API server reads what it does not hold itself."""

    journals: dict[str, DecisionReader] = {}  # Of parts that run in the API server: 'housekeeping'.
    audit: AuditIndex | None = None
    attached: str = ""  # URL of the cluster that the objects are copied from; '': they are our own.
    copied: frozenset[str] | None = None  # The kinds that are copied; None: all are known.
    behind: Callable[[], str] = str  # What of that cluster the copy cannot follow now; '': nothing.


class Collector:
    def __init__(
        self, agents: Agents, sources: Sources, clock: Clock, *, current: Callable[[], Objects]
    ) -> None:
        self._agents = agents
        self._sources = sources
        self._clock = clock
        self._current = current  # Of now: processes are asked where they are, not where they were.

    async def collect(
        self,
        subject: ObjectRef,
        objects: Objects,
        query: RecordQuery,
        access: Access,
        *,
        past: PastMoment | None = None,
    ) -> Evidence:
        """`past`: the evidence of that moment. What processes say of their state is of now, so it is left
        out."""
        query, writes_of = _until(msgspec.structs.replace(query, writes_of=()), past), query.writes_of
        refs = tuple(dict.fromkeys((subject, *query.objects)))
        answers, own, audit = await asyncio.gather(
            self._ask(objects, query, refs),
            asyncio.to_thread(self._own_records, query),
            asyncio.to_thread(read_audit, self._sources.audit, dict.fromkeys((*refs, *writes_of))),
        )
        asked = {(ref.resource, ref.key) for ref in refs}
        about = (entry for entry in audit.entries if _place(entry) in asked)
        answers += await self._ask_writers(objects, query, refs, about)
        readable = await access.readable(self._current())
        period = life_of(subject, objects, until_ns=0 if past is None else past.time_ns)
        gaps = [
            *(answer.gap for answer in answers if answer.gap is not None),
            *gaps_of_states((state for answer in answers for state in answer.states), period),
            *await asyncio.to_thread(self._own_gaps, period),
            *((Gap("cluster", behind),) if (behind := self._sources.behind()) else ()),
        ]
        return Evidence(
            subject=subject,
            objects=objects,
            decisions=in_order([*own, *(record for answer in answers for record in answer.records)]),
            audit=tuple(entry for entry in audit.entries if past is None or _is_before(entry, past)),
            processes=() if past is not None else _redacted(answers, readable),
            observations=tuple(observations_of(state for answer in answers for state in answer.states)),
            gaps=(*gaps, *((audit.gap,) if audit.gap is not None else ())),
            now_ns=self._clock.now_ns() if past is None else past.time_ns,
            may_read_nodes=await access.may_read_nodes(),
            readable=readable,
            attached=self._sources.attached,
            copied=self._sources.copied,
        )

    async def collect_more(
        self, evidence: Evidence, query: RecordQuery, *, past: PastMoment | None = None
    ) -> Evidence:
        """The evidence with the records of another query, and the writes of its objects."""
        query = _until(query, past)
        answers, own, audit = await asyncio.gather(
            self._ask(evidence.objects, query, query.objects),
            asyncio.to_thread(self._own_records, query),
            asyncio.to_thread(read_audit, self._sources.audit, query.objects),
        )
        answers += await self._ask_writers(evidence.objects, query, query.objects, audit.entries)
        more = (record for answer in answers for record in answer.records)
        gaps = [answer.gap for answer in answers if answer.gap is not None]
        writes = (entry for entry in audit.entries if past is None or _is_before(entry, past))
        entries = {entry.id: entry for entry in (*evidence.audit, *writes)}
        return msgspec.structs.replace(
            evidence,
            decisions=in_order([*more, *own, *evidence.decisions]),
            audit=tuple(sorted(entries.values(), key=lambda entry: entry.time)),
            gaps=tuple(dict.fromkeys((*evidence.gaps, *gaps))),
        )

    async def records(
        self, objects: Objects, query: RecordQuery, *, nodes: Sequence[str] = ()
    ) -> tuple[tuple[Recorded, ...], list[Gap]]:
        """Decisions alone. `nodes`: whose agents are asked besides those that the query's objects are on."""
        answers, own = await asyncio.gather(
            self._ask(objects, query, query.objects, nodes), asyncio.to_thread(self._own_records, query)
        )
        records = in_order([*own, *(record for answer in answers for record in answer.records)])
        return records, [answer.gap for answer in answers if answer.gap is not None]

    @property
    def audit(self) -> AuditIndex | None:
        return self._sources.audit

    async def _ask(
        self, objects: Objects, query: RecordQuery, refs: Sequence[ObjectRef], nodes: Sequence[str] = ()
    ) -> list[ProcessAnswer]:
        if self._sources.attached:  # Processes there do not know us, and kubelets keep no journals.
            return []
        current = self._current()
        agents = agents_of(current, [*_nodes_of(objects, refs), *nodes])
        about = [uid for ref in refs if (uid := _uid(objects, ref))]
        return await ask_processes(self._agents, [*registered_processes(current), *agents], query, about)

    async def _ask_writers(
        self,
        objects: Objects,
        query: RecordQuery,
        refs: Sequence[ObjectRef],
        entries: Iterable[AuditEntry],
    ) -> list[ProcessAnswer]:
        """The agents that wrote an object which is gone: nothing else says on which node it was."""
        if self._sources.attached:
            return []
        asked = set(_nodes_of(objects, refs))
        nodes = {entry.user.removeprefix(NODE_USER) for entry in entries if entry.user.startswith(NODE_USER)}
        agents = agents_of(self._current(), sorted(nodes - asked)[:WRITERS_MAX])
        return await ask_processes(self._agents, agents, query, []) if agents else []

    def _own_gaps(self, period: Period) -> list[Gap]:
        """When the API server's own records could not be written."""
        journals = [
            gap
            for name, reader in self._sources.journals.items()
            if isinstance(reader, JournalReader)
            for gap in gaps_of_journal(name, reader.directory, period)
        ]
        audit = self._sources.audit
        return [*journals, *gaps_of_audit(None if audit is None else audit.directory, period)]

    def _own_records(self, query: RecordQuery) -> list[Recorded]:
        return [
            record
            for name, reader in self._sources.journals.items()
            for record in read_records(reader, query, name)
        ]


def _place(entry: AuditEntry) -> tuple[str, Key]:
    return entry.resource, Key(entry.namespace, entry.name)


def _until(query: RecordQuery, past: PastMoment | None) -> RecordQuery:
    """The query, for records up to that moment."""
    if past is None:
        return query
    return msgspec.structs.replace(query, until_ns=min(query.until_ns or past.time_ns, past.time_ns))


def _is_before(entry: AuditEntry, past: PastMoment) -> bool:
    """A request that wrote nothing has no revision: it counts by its time."""
    return entry.revision <= past.revision if entry.revision else (moment_ns(entry.time) or 0) <= past.time_ns


def in_order(records: Iterable[Recorded]) -> tuple[Recorded, ...]:
    """Oldest first. Clocks of several machines may differ, so the order between processes is approximate."""
    # Agents of one process share a journal, so a record may come twice.
    by_id = {record.kept.decision.id: record for record in records}
    return tuple(sorted(by_id.values(), key=lambda record: record.kept.decision.time_ns))


def observations_of(states: Iterable[ProcessState]) -> Iterator[CacheObservation]:
    """When changes of quotas, policies and overrides arrived, as the parts of processes have noted it."""
    for state in states:
        for kind, received in state.received.items():
            for revision, time_ns in received:
                yield CacheObservation(
                    process=state.process,
                    part="".join(state.parts[:1]),
                    kind=kind,
                    revision=revision,
                    time_ns=time_ns,
                )


def _redacted(answers: Iterable[ProcessAnswer], readable: frozenset[str] | None) -> tuple[ProcessState, ...]:
    """States without the names of pods that the user may not read: of those ahead in the queue, only their
    number is left."""
    states = tuple(state for answer in answers for state in answer.states)
    if readable is None:
        return states
    return tuple(
        msgspec.structs.replace(state, state=_without_others(state.state, readable)) for state in states
    )


def _without_others(state: Mapping[str, Any], readable: frozenset[str]) -> dict[str, Any]:
    kept = {name: value for name, value in state.items() if name not in {"queue", "loops"}}
    queue = state.get("queue")
    if queue is not None:
        pods = {uid: _place_alone(pod, readable) for uid, pod in queue.get("pods", {}).items()}
        kept["queue"] = {**queue, "pods": pods}
    return kept


def _place_alone(pod: Mapping[str, Any], readable: frozenset[str]) -> dict[str, Any]:
    if "ahead" not in pod:
        return dict(pod)
    named = [other for other in pod["ahead"] if other["namespace"] in readable]
    return {**pod, "ahead": named, "aheadHidden": len(pod["ahead"]) - len(named)}


def _uid(objects: Objects, ref: ObjectRef) -> str:
    if ref.uid:
        return ref.uid
    obj = objects.get(ref.resource, ref.key)
    return "" if obj is None else uid_of(obj)


def _nodes_of(objects: Objects, refs: Iterable[ObjectRef]) -> list[str]:
    """The nodes whose agents have decided about these objects: only those are asked, not thousands."""
    nodes = []
    for ref in refs:
        if ref.resource == "nodes":
            nodes.append(ref.name)
        elif ref.resource == "pods" and (pod := objects.get("pods", ref.key)) is not None:
            nodes.append(str(lookup(pod, "spec", "nodeName") or ""))
    return [node for node in nodes if node]
