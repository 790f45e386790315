"""Reads a journal through its indexes: decisions about one object among millions, in milliseconds.

    query ──> rows that may match, in every segment's columns ──> their records ──> those that do match

The columns only find candidates; `model/record_query` says what matches. What a crash cut short, what was
dropped while it was being read, and records that cannot be decoded are left out, as in `read_journal`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
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
from fathom.model.record_query import ObjectRef, RecordQuery, is_about
from fathom.record import journal
from fathom.record.journal_index import (
    COLUMN,
    DECISION,
    EVICTION,
    OUTCOME,
    ROSTER,
    VERDICTS,
    Columns,
    matching,
    object_hash,
    text_hash,
)
from fathom.record.journal_segments import Gone, OpenSegment, PackedSegment, identity_of, open_segment
from fathom.record.ring import ring_files
from fathom.record.segment import NotASegment

T = TypeVar("T")

# The journal was thinned or dropped under a query: it starts over, at most so many times.
TRIES = 3


class Place(NamedTuple):
    """Where a record is. Places sort as the records were written."""

    segment: int
    offset: int


class JournalReader:
    """One journal. Queries may come from several threads."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._segments: dict[Path, PackedSegment | OpenSegment] = {}
        self._lock = threading.Lock()

    def query(self, query: RecordQuery) -> list[KeptDecision]:
        """In the order in which they were recorded."""
        with self._lock:
            return self._again(lambda: _Query(self._listed(), query).answer())

    def node_reasons(self, decision: Decision) -> dict[str, str] | None:
        """Node -> why it was rejected; '' where the pod fits. None where the table was dropped, or never
        was."""
        if not decision.verdicts:
            return None
        with self._lock:
            return self._again(lambda: _node_reasons(_Records(self._listed()), decision))

    def _again(self, read: Callable[[], T]) -> T:
        for _ in range(TRIES - 1):
            try:
                return read()
            except Gone:
                continue
        try:
            return read()
        except Gone as error:
            raise OSError(f"the journal {self._directory} changes too fast to be read") from error

    def _listed(self) -> list[PackedSegment | OpenSegment]:
        """The segments as they are now, oldest first."""
        listed = {}
        for path in ring_files(self._directory):
            try:
                listed[path] = self._current(path)
            except (FileNotFoundError, NotASegment, Gone, msgspec.DecodeError):
                continue  # Dropped meanwhile, allocated but never written, or damaged.
        self._segments = listed
        return list(listed.values())

    def _current(self, path: Path) -> PackedSegment | OpenSegment:
        segment = self._segments.get(path)
        if segment is None or segment.identity != identity_of(path):
            segment = open_segment(path)
        if isinstance(segment, OpenSegment):
            segment.follow()
        return segment


class _Records:
    """Candidate rows and single records of all segments."""

    def __init__(self, segments: list[PackedSegment | OpenSegment]) -> None:
        self._segments = segments

    def places(
        self, column: Callable[[Columns], np.ndarray], wanted: Iterable[int], kinds: Iterable[int]
    ) -> Iterator[tuple[Place, int, int]]:
        """(place, kind, hash of the id) of rows of these kinds whose column has a wanted hash."""
        hashes, allowed = tuple(wanted), tuple(kinds)
        for number, segment in enumerate(self._segments if hashes else ()):
            columns = segment.columns
            rows = matching(column(columns), hashes)
            rows = rows[np.isin(columns.kinds[rows], allowed)]
            for row in rows.tolist():
                place = Place(number, int(columns.offsets[row]))
                yield place, int(columns.kinds[row]), int(columns.ids[row])

    def body(self, place: Place) -> bytes | None:
        """None where the record is damaged. Raises Gone."""
        try:
            return self._segments[place.segment].body(place.offset)
        except NotASegment:
            return None

    def decoded(self, place: Place, decode: Callable[[bytes], T]) -> T | None:
        body = self.body(place)
        try:
            return None if body is None else decode(body[1:])
        except msgspec.DecodeError:
            return None

    def all_decisions(self, query: RecordQuery) -> Iterator[Place]:
        """Newest first, as far as the columns tell."""
        since_s, until_s = query.since_ns // 10**9, query.until_ns // 10**9
        for number in range(len(self._segments) - 1, -1, -1):
            columns = self._segments[number].columns
            mask = (columns.kinds == DECISION) & (columns.values >= since_s)
            if query.until_ns:
                mask &= columns.values <= until_s
            if query.namespace is not None:
                mask &= columns.namespaces == np.uint32(text_hash(query.namespace))
            for offset in columns.offsets[mask][::-1].tolist():
                yield Place(number, offset)


class _Query:
    def __init__(self, segments: list[PackedSegment | OpenSegment], query: RecordQuery) -> None:
        self._records = _Records(segments)
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
        wanted = (object_hash(ref.resource, ref.namespace, ref.name),)
        places, ids = set(), set()
        for place, kind, id_ in self._records.places(
            lambda columns: columns.objects, wanted, (DECISION, EVICTION, OUTCOME)
        ):
            if kind == OUTCOME:
                ids.add(id_)
            else:
                places.add(place)
        places |= self._decisions(ids)
        newest_first = iter(sorted(places, reverse=True))
        return self._newest(
            newest_first, lambda kept: self._query.in_time(kept.decision) and is_about(kept, ref)
        )

    def _exact(self) -> set[Place]:
        """Decisions by their ids, and those that wrote the revisions."""
        query = self._query
        ids = {text_hash(id_) for id_ in query.decisions}
        low = {revision & 0xFFFFFFFF for revision in query.revisions}
        ids |= {id_ for _, _, id_ in self._records.places(lambda columns: columns.values, low, (OUTCOME,))}
        places = self._decisions(ids)
        self._read(places)
        return {
            place
            for place in places
            if (kept := self._kept.get(place)) is not None
            and (
                kept.decision.id in query.decisions
                or any(outcome.revision in query.revisions for outcome in kept.outcomes)
            )
        }

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
            group = [place for place, _ in zip(places, range(batch), strict=False)]
            if not group:
                break
            self._read(group)
            wanted = [place for place in group if place in self._kept and is_wanted(self._kept[place])]
            chosen.update(wanted[: self._query.newest - len(chosen)])
        return chosen

    def _decisions(self, ids: Iterable[int]) -> set[Place]:
        return {place for place, _, _ in self._records.places(lambda columns: columns.ids, ids, (DECISION,))}

    def _read(self, places: Iterable[Place]) -> None:
        """Read decisions with their outcomes."""
        decisions: dict[Place, Decision] = {}
        for place in places:
            decision = self._records.decoded(place, journal.decode_decision)
            if decision is not None and place not in self._kept:
                decisions[place] = decision
        outcomes: dict[str, list[Outcome]] = {decision.id: [] for decision in decisions.values()}
        hashes = {text_hash(id_) for id_ in outcomes}
        for place, _, _ in self._records.places(lambda columns: columns.ids, hashes, (OUTCOME,)):
            outcome = self._records.decoded(place, journal.decode_outcome)
            if outcome is not None and outcome.id in outcomes:
                outcomes[outcome.id].append(outcome)
        for place, decision in decisions.items():
            self._kept[place] = KeptDecision(decision, tuple(outcomes[decision.id]))


def _node_reasons(records: _Records, decision: Decision) -> dict[str, str] | None:
    wanted = (decision.verdicts,)
    verdicts = _tables(records, wanted, VERDICTS, journal.decode_verdicts).get(decision.verdicts)
    if verdicts is None:
        return None
    rosters = _tables(records, (verdicts.roster,), ROSTER, journal.decode_roster)
    columns = _tables(records, verdicts.columns, COLUMN, journal.decode_column)
    return journal.joined_reasons(verdicts, decision, rosters, columns)


Named = TypeVar("Named", Roster, VerdictColumn, RecordedVerdicts)


def _tables(
    records: _Records, ids: tuple[str, ...], kind: int, decode: Callable[[bytes], Named]
) -> dict[str, Named]:
    hashes = {text_hash(id_) for id_ in ids}
    places = records.places(lambda columns: columns.ids, hashes, (kind,))
    decoded = (records.decoded(place, decode) for place, _, _ in places)
    return {table.id: table for table in decoded if table is not None and table.id in ids}
