"""Times in which a journal or the audit log could not be written, as gaps of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from fathom.explain.evidence import Gap, ObjectRef, Objects, ProcessState
from fathom.model.objects import metadata
from fathom.model.times import SECOND_NS, moment_ns, timestamp
from fathom.record.recording_gaps import RecordingGap, read_gaps


class Period(msgspec.Struct, frozen=True):
    """The time that a question is about; records of other times need not be missed."""

    since_ns: int = 0
    until_ns: int = 0  # 0: now.

    def meets(self, gap: RecordingGap) -> bool:
        began_before_end = not self.until_ns or gap.since_ns <= self.until_ns
        return began_before_end and (not gap.until_ns or gap.until_ns >= self.since_ns)


def life_of(subject: ObjectRef, objects: Objects, *, until_ns: int = 0) -> Period:
    """Since the subject was created; of one that is gone, all that is on record."""
    obj = objects.get(subject.resource, subject.key) if subject.name else None
    created_ns = 0 if obj is None else moment_ns(metadata(obj).get("creationTimestamp")) or 0
    return Period(created_ns, until_ns)


def gaps_of_states(states: Iterable[ProcessState], period: Period) -> Iterator[Gap]:
    for state in states:
        listed = (state.state.get("journal") or {}).get("gaps") or []
        yield from _gaps(
            f"journal of {state.parts[0] if state.parts else state.process}",
            "decisions",
            msgspec.convert(listed, list[RecordingGap]),
            period,
        )


def gaps_of_journal(name: str, directory: Path, period: Period) -> Iterator[Gap]:
    yield from _gaps(f"journal of {name}", "decisions", read_gaps(directory), period)


def gaps_of_audit(directory: Path | None, period: Period) -> Iterator[Gap]:
    if directory is not None:
        yield from _gaps("audit log", "writes", read_gaps(directory), period)


def _gaps(source: str, records: str, gaps: Iterable[RecordingGap], period: Period) -> Iterator[Gap]:
    for gap in gaps:
        if period.meets(gap):
            yield Gap(source, _words(records, gap))


def _words(records: str, gap: RecordingGap) -> str:
    since = timestamp(gap.since_ns)
    if not gap.until_ns:
        return f"{records} are not recorded since {since}: the disk or the budget is full"
    lost = f"{gap.lost} records were" if gap.lost != 1 else "1 record was"
    # Whole seconds, so the next one: the gap is not shown shorter than it was.
    until = timestamp(gap.until_ns + SECOND_NS - 1)
    return f"{records} were not recorded from {since} to {until}: {lost} lost"
