"""Reads a journal through its indexes: decisions about one object among millions, in milliseconds.

    query ──> rows that may match, in every segment's columns ──> their records ──> those that do match

The columns only find candidates; `model/record_query` says what matches. What a crash cut short, what was
dropped while it was being read, and records that cannot be decoded are left out, as in `read_journal`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from fathom.model.decision import (
    Decision,
    KeptDecision,
    Outcome,
    RecordedVerdicts,
    Roster,
    VerdictColumn,
)
from fathom.model.record_query import NodeRejections, ObjectRef, RecordQuery, is_about
from fathom.record import journal
from fathom.record.journal_index import Columns, matching, namespace_hash, object_hash, text_hash
from fathom.record.journal_segments import Gone, OpenSegment, PackedSegment, identity_of, open_segment
from fathom.record.ring import ring_files
from fathom.record.segment import NotASegment

T = TypeVar("T")

# Where a segment was replaced or dropped under a query, it starts over: so many tries in total.
TRIES = 3


class Place(NamedTuple):
    """Where a record is. Places sort as the records were written."""

    segment: int
    offset: int


class JournalReader:
    """One journal. Queries may come from several threads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._segments: dict[Path, PackedSegment | OpenSegment] = {}
        self._lock = threading.Lock()

    def query(self, query: RecordQuery) -> list[KeptDecision]:
        """In the order in which they were recorded."""
        with self._lock:
            return self._again(lambda records: _Query(records, query).answer())

    def node_rejections(self, decision: Decision) -> NodeRejections | None:
        """Every node's reason. None where the table was dropped, or never was."""
        if not decision.verdicts:
            return None
        with self._lock:
            return self._again(lambda records: _node_rejections(records, decision))

    def index_some(self) -> bool:
        """Index a part of what was written since, so that the next query has less to do. False if there was
        nothing: then a query is as quick as it can be."""
        with self._lock:
            opened = [segment for segment in self._listed(follow=False) if isinstance(segment, OpenSegment)]
            return sum(segment.follow_some() for segment in opened) > 0

    def _again(self, read: Callable[[_Records], T]) -> T:
        """The last try leaves out the records of segments that were replaced under it."""
        for _ in range(TRIES - 1):
            try:
                return read(_Records(self._listed()))
            except Gone:
                continue
        return read(_Records(self._listed(), skip_gone=True))

    def _listed(self, *, follow: bool = True) -> list[PackedSegment | OpenSegment]:
        """The segments as they are now, oldest first."""
        listed = {}
        for path in ring_files(self.directory):
            try:
                listed[path] = self._current(path, follow)
            except (FileNotFoundError, NotASegment, Gone, msgspec.DecodeError):
                continue  # Dropped meanwhile, allocated but never written, or damaged.
        self._segments = listed
        return list(listed.values())

    def _current(self, path: Path, follow: bool) -> PackedSegment | OpenSegment:
        segment = self._segments.get(path)
        if segment is None or segment.identity != identity_of(path):
            segment = open_segment(path)
        if follow and isinstance(segment, OpenSegment):
            segment.follow()
        return segment


Pick = Callable[[Columns], np.ndarray]


class _Records:
    """Candidates in the columns of all segments, and single records."""

    def __init__(self, segments: list[PackedSegment | OpenSegment], *, skip_gone: bool = False) -> None:
        self._segments = segments
        self._skip_gone = skip_gone

    def places(self, column: Pick, wanted: Iterable[int], offsets: Pick) -> Iterator[Place]:
        """The records whose column has a wanted hash. `offsets`: the column with their places."""
        hashes = tuple(wanted)
        for number, segment in enumerate(self._segments if hashes else ()):
            rows = matching(column(segment.columns), hashes)
            for offset in offsets(segment.columns)[rows].tolist():
                yield Place(number, offset)

    def hashes(self, column: Pick, wanted: Iterable[int], other: Pick) -> set[int]:
        """The values of another column of the same rows."""
        return {place.offset for place in self.places(column, wanted, other)}

    def decoded(self, place: Place, decode: Callable[[bytes], T]) -> T | None:
        """None where the record is damaged. Raises Gone."""
        try:
            return decode(self._segments[place.segment].body(place.offset)[1:])
        except (NotASegment, msgspec.DecodeError):
            return None
        except Gone:
            if self._skip_gone:
                return None
            raise

    def all_decisions(self, query: RecordQuery) -> Iterator[Place]:
        """Newest first, as far as the columns tell."""
        since_s, until_s = query.since_ns // 10**9, query.until_ns // 10**9
        for number in range(len(self._segments) - 1, -1, -1):
            columns = self._segments[number].columns
            mask = columns.decision_seconds >= since_s
            if query.until_ns:
                mask &= columns.decision_seconds <= until_s
            if query.namespace is not None:
                mask &= columns.decision_namespaces == namespace_hash(query.namespace)
            for offset in columns.decisions[mask][::-1].tolist():
                yield Place(number, offset)


class _Query:
    def __init__(self, records: _Records, query: RecordQuery) -> None:
        self._records = records
        self._query = query
        self._kept: dict[Place, KeptDecision] = {}

    def answer(self) -> list[KeptDecision]:
        query = self._query
        if query.is_for_all:
            chosen = self._newest(self._records.all_decisions(query), self._is_in_namespace, batch=64)
        else:
            chosen = {place for ref in query.objects for place in self._about(ref)} | self._exact()
        return [self._kept[place] for place in sorted(chosen)]

    def _about(self, ref: ObjectRef) -> set[Place]:
        """Decisions with the object as their subject, those that wrote it, and those that evict it."""
        find, wanted = self._records.places, (object_hash(ref.resource, ref.namespace, ref.name),)
        wrote = self._records.hashes(lambda c: c.written_objects, wanted, lambda c: c.written_ids)
        places = {
            *find(lambda c: c.decision_objects, wanted, lambda c: c.decisions),
            *find(lambda c: c.evicted_objects, wanted, lambda c: c.evicted),
            *self._decisions(wrote),
        }
        return self._newest(
            iter(sorted(places, reverse=True)),
            lambda kept: self._query.in_time(kept.decision) and is_about(kept, ref),
        )

    def _exact(self) -> set[Place]:
        """Decisions by their ids, and those that wrote the revisions."""
        query = self._query
        low = {revision & 0xFFFFFFFF for revision in query.revisions}
        ids = self._records.hashes(lambda c: c.outcome_revisions, low, lambda c: c.outcome_ids)
        places = self._decisions(ids | {text_hash(id_) for id_ in query.decisions})
        self._read(places)
        return {place for place in places if place in self._kept and self._is_exact(self._kept[place])}

    def _is_exact(self, kept: KeptDecision) -> bool:
        return kept.decision.id in self._query.decisions or any(
            outcome.revision in self._query.revisions for outcome in kept.outcomes
        )

    def _is_in_namespace(self, kept: KeptDecision) -> bool:
        namespace = self._query.namespace
        return self._query.in_time(kept.decision) and namespace in {None, kept.decision.subject.namespace}

    def _newest(
        self, places: Iterator[Place], is_wanted: Callable[[KeptDecision], bool], *, batch: int = 256
    ) -> set[Place]:
        """The newest that are wanted. `places` come newest first; records are read in batches, because
        finding the outcomes of many decisions costs little more than those of one."""
        chosen: set[Place] = set()
        while len(chosen) < self._query.newest:
            group = list(islice(places, batch))
            if not group:
                break
            self._read(group)
            wanted = [place for place in group if place in self._kept and is_wanted(self._kept[place])]
            chosen.update(wanted[: self._query.newest - len(chosen)])
        return chosen

    def _decisions(self, ids: Iterable[int]) -> set[Place]:
        return set(self._records.places(lambda c: c.decision_ids, ids, lambda c: c.decisions))

    def _read(self, places: Iterable[Place]) -> None:
        """Read decisions with their outcomes."""
        decisions: dict[Place, Decision] = {}
        for place in places:
            decision = self._records.decoded(place, journal.decode_decision)
            if decision is not None and place not in self._kept:
                decisions[place] = decision
        outcomes: dict[str, list[Outcome]] = {decision.id: [] for decision in decisions.values()}
        hashes = {text_hash(id_) for id_ in outcomes}
        for place in self._records.places(lambda c: c.outcome_ids, hashes, lambda c: c.outcomes):
            outcome = self._records.decoded(place, journal.decode_outcome)
            if outcome is not None and outcome.id in outcomes:
                outcomes[outcome.id].append(outcome)
        for place, decision in decisions.items():
            self._kept[place] = KeptDecision(decision, tuple(outcomes[decision.id]))


def _node_rejections(records: _Records, decision: Decision) -> NodeRejections | None:
    verdicts = _tables(records, (decision.verdicts,), RecordedVerdicts).get(decision.verdicts)
    if verdicts is None:
        return None
    rosters = _tables(records, (verdicts.roster,), Roster)
    columns = _tables(records, verdicts.columns, VerdictColumn)
    return journal.joined_reasons(verdicts, decision, rosters, columns)


AnyTable = TypeVar("AnyTable", Roster, VerdictColumn, RecordedVerdicts)


def _tables(records: _Records, ids: tuple[str, ...], kind: type[AnyTable]) -> dict[str, AnyTable]:
    hashes = {text_hash(id_) for id_ in ids}
    places = records.places(lambda c: c.table_ids, hashes, lambda c: c.tables)
    decode = msgspec.json.Decoder(kind).decode  # Tables of other kinds have other fields, so they fail.
    decoded = (records.decoded(place, decode) for place in places)
    return {table.id: table for table in decoded if table is not None and table.id in ids}
