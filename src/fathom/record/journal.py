"""The decision journal: decisions and their outcomes, in bounded space, kept through crashes.

When the space is nearly used up, old records keep their detail only where it matters (`journal_trimming`).

A record is in the page cache when `decided` returns, so it is there before the commit that it describes is
sent. Reading joins the outcomes to their decisions; a decision without one belongs to a commit that is still
pending, or whose process died before it got the answer.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from fathom.model.decision import (
    Decision,
    KeptDecision,
    Outcome,
    RecordedVerdicts,
    Roster,
    Table,
    VerdictColumn,
)
from fathom.model.record_query import NodeRejections
from fathom.record.journal_index import PART_BYTES, SUFFIX, pack_with_index, write_index
from fathom.record.journal_trimming import FailingObjects, Record, failures_only, is_routine, thinned
from fathom.record.kept_windows import KeptWindows
from fathom.record.old_records import upgraded_decision, upgraded_outcome, upgraded_verdicts
from fathom.record.ring import Ring, runs
from fathom.record.segment import JOURNAL, NotASegment, segments, thin
from fathom.seams.log import Log

# At 400 bytes a decision and its outcome, packed ten times smaller: several million.
BUDGET_BYTES = 256 << 20

_DECISION, _OUTCOME, _ROSTER, _COLUMN, _VERDICTS = b"D", b"O", b"R", b"C", b"V"
_LETTERS: dict[type, bytes] = {
    Decision: _DECISION,
    Outcome: _OUTCOME,
    Roster: _ROSTER,
    VerdictColumn: _COLUMN,
    RecordedVerdicts: _VERDICTS,
}

_decode_decision_now = msgspec.json.Decoder(Decision).decode
_decode_outcome_now = msgspec.json.Decoder(Outcome).decode
decode_roster = msgspec.json.Decoder(Roster).decode
decode_column = msgspec.json.Decoder(VerdictColumn).decode
_decode_verdicts_now = msgspec.json.Decoder(RecordedVerdicts).decode


def decode_decision(body: bytes) -> Decision:
    """Journals of older versions have the cause as two texts."""
    try:
        return upgraded_decision(_decode_decision_now(body))
    except msgspec.ValidationError:
        fields = msgspec.json.decode(body)
        cause = {"kind": fields.pop("cause", "unstated"), "detail": fields.pop("cause_detail", "")}
        return upgraded_decision(msgspec.convert({**fields, "cause": cause}, Decision))


def decode_outcome(body: bytes) -> Outcome:
    return upgraded_outcome(_decode_outcome_now(body))


def decode_verdicts(body: bytes) -> RecordedVerdicts:
    return upgraded_verdicts(_decode_verdicts_now(body))


_KINDS: dict[bytes, Callable[[bytes], Record]] = {
    _DECISION: decode_decision,
    _OUTCOME: decode_outcome,
    _ROSTER: decode_roster,
    _COLUMN: decode_column,
    _VERDICTS: decode_verdicts,
}


_TABLES: dict[bytes, Callable[[bytes], Table]] = {
    _ROSTER: decode_roster,
    _COLUMN: decode_column,
    _VERDICTS: decode_verdicts,
}


class DiskJournal:
    """A Journal on disk."""

    def __init__(
        self,
        directory: Path,
        *,
        budget_bytes: int = BUDGET_BYTES,
        log: Log | None = None,
        kept: KeptWindows | None = None,
    ) -> None:
        self.written = 0
        self.bytes = 0  # Before compression.
        self.directory = directory
        self.kept = kept  # A tape of the same process keeps the same windows.
        self._failing = FailingObjects()
        self._ring = Ring(
            directory,
            JOURNAL,
            budget_bytes=budget_bytes,
            long_runs=False,
            log=log,
            pack=pack_with_index,
            thin=self._thin,
            reduce=self._reduce,
            beside=SUFFIX,
            kept=kept,
        )
        self._encode = msgspec.json.Encoder().encode
        self._unfit = 0  # Records that JSON cannot hold: half a surrogate pair in a name.

    def decided(self, decision: Decision) -> None:
        if not is_routine(decision):
            self._failing.note(decision)
        if self.kept is not None:
            self.kept.note(decision)
        self._keep(decision)

    def concluded(self, outcome: Outcome) -> None:
        self._keep(outcome)

    def tabled(self, table: Table) -> None:
        self._keep(table)

    def _keep(self, record: Record) -> None:
        try:
            body = self._encode(record)
        except (TypeError, ValueError):
            self._unfit += 1
            return
        if self._ring.append(_LETTERS[type(record)] + body):
            self.written += 1
            self.bytes += len(body) + 1

    def _thin(self, path: Path) -> int:
        failing = self._failing.keys()
        return _replaced(path, lambda records: thinned(records, failing), level=1)

    def _reduce(self, path: Path) -> int:
        failing = self._failing.keys()
        return _replaced(path, lambda records: failures_only(records, failing), level=2)

    @property
    def lost(self) -> int:
        return self._ring.lost + self._unfit

    @property
    def recording(self) -> bool:
        """False while the disk is full."""
        return not self._ring.gaps.since_ns

    @property
    def disk_bytes(self) -> int:
        return self._ring.disk_bytes

    def close(self) -> None:
        self._ring.close()


class WantedDecisions(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for decisions; empty fields match all."""

    id: str = ""
    controller: str = ""
    resource: str = ""
    namespace: str | None = None
    name: str = ""
    since_ns: int = 0

    def takes(self, decision: Decision) -> bool:
        subject = decision.subject
        return (
            decision.time_ns >= self.since_ns
            and self.id in {"", decision.id}
            and self.controller in {"", decision.controller}
            and self.resource in {"", subject.resource}
            and self.namespace in {None, subject.namespace}
            and self.name in {"", subject.name}
        )


EVERYTHING = WantedDecisions()


def read_journal(directory: Path, wanted: WantedDecisions = EVERYTHING) -> list[KeptDecision]:
    """In the order they were made. Records truncated by a crash are skipped, and so is a segment that is
    dropped during the read."""
    decisions: dict[str, Decision] = {}
    outcomes: dict[str, list[Outcome]] = {}
    for body in _bodies(directory):
        if body.startswith(_DECISION):
            decision = decode_decision(body[1:])
            if wanted.takes(decision):
                decisions[decision.id] = decision
        elif body.startswith(_OUTCOME) and (outcome := decode_outcome(body[1:])).id in decisions:
            outcomes.setdefault(outcome.id, []).append(outcome)
    return [KeptDecision(decision, tuple(outcomes.get(decision.id, ()))) for decision in decisions.values()]


def read_tables(directory: Path) -> Iterator[Table]:
    """All tables of the journal, in order."""
    for body in _bodies(directory):
        if body[:1] in _TABLES:
            yield decode_table(body)


def encode_table(table: Table) -> bytes:
    return _LETTERS[type(table)] + msgspec.json.encode(table)


def decode_table(body: bytes) -> Table:
    """Raises msgspec.DecodeError."""
    decode = _TABLES.get(body[:1])
    if decode is None:
        raise msgspec.DecodeError("not a table of verdicts")
    return decode(body[1:])


def node_reasons(directory: Path, decision: Decision) -> dict[str, str] | None:
    """Node -> why it was rejected; '' where the pod fits. None where the table was dropped, or never was."""
    joined = node_rejections(directory, decision)
    return None if joined is None else joined.reasons


def node_rejections(directory: Path, decision: Decision) -> NodeRejections | None:
    """Every node's reason, as recorded. None where the table was dropped, or never was."""
    if not decision.verdicts:
        return None
    rosters: dict[str, Roster] = {}
    columns: dict[str, VerdictColumn] = {}
    for body in _bodies(directory):
        if body.startswith(_ROSTER):
            roster = decode_roster(body[1:])
            rosters[roster.id] = roster
        elif body.startswith(_COLUMN):
            column = decode_column(body[1:])
            columns[column.id] = column
        elif body.startswith(_VERDICTS) and (verdicts := decode_verdicts(body[1:])).id == decision.verdicts:
            return joined_reasons(verdicts, decision, rosters, columns)
    return None


def joined_reasons(
    verdicts: RecordedVerdicts,
    decision: Decision,
    rosters: dict[str, Roster],
    columns: dict[str, VerdictColumn],
) -> NodeRejections | None:
    if verdicts.roster not in rosters or any(column not in columns for column in verdicts.columns):
        return None
    layers = [bytearray(zlib.decompress(codes)) for codes in (verdicts.codes, *verdicts.by_domain)]
    for layer, at, code in decision.differs:
        layers[layer][at] = code
    codes = list(layers[0])
    for name, by_domain in zip(verdicts.columns, layers[1:], strict=True):
        domains = array("i", zlib.decompress(columns[name].domains))
        codes = [code or by_domain[domain] for code, domain in zip(codes, domains, strict=True)]
    names = rosters[verdicts.roster].names
    reasons = {name: verdicts.reasons[code] for name, code in zip(names, codes, strict=True) if name}
    rules = dict(zip(verdicts.reasons, upgraded_verdicts(verdicts).rules, strict=True))
    return NodeRejections(reasons, {reason: rule for reason, rule in rules.items() if rule})


def _replaced(path: Path, trim: Callable[[list[Record]], Iterable[Record]], *, level: int) -> int:
    """Replace a segment's records and write its index again; returns the size of both."""
    size = thin(path, lambda bodies: _encoded(trim(_decoded(bodies))), PART_BYTES, level)
    return size + write_index(path)


def _decoded(bodies: list[bytes]) -> list[Record]:
    return [_KINDS[body[:1]](body[1:]) for body in bodies]


def _encoded(records: Iterable[Record]) -> Iterator[bytes]:
    for record in records:
        yield _LETTERS[type(record)] + msgspec.json.encode(record)


def _bodies(directory: Path) -> Iterator[bytes]:
    for files in runs(directory, JOURNAL).values():
        for path in files:
            try:
                for segment in segments(path):
                    yield from segment.frames
            except (NotASegment, FileNotFoundError):
                continue
