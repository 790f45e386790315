"""Metrics of journal and tape: their size, and the records they lost."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.metrics.families import Family, counter, gauge
from fathom.metrics.registry import Part
from fathom.record.journal import DiskJournal
from fathom.record.tape import DiskTape


def measure_records(metrics: Part, journal: DiskJournal | None, tape: DiskTape | None) -> None:
    """Register the metrics, and where journal and tape are."""
    if journal is not None:
        metrics.keep_journal(journal.directory)
    if tape is not None:
        metrics.keep_tape(tape.directory)

    def collect() -> Iterable[Family]:
        if journal is not None:
            yield from _journal(journal, metrics.labels)
        if tape is not None:
            yield from _tape(tape, metrics.labels)

    metrics.register("records", collect)


def _journal(journal: DiskJournal, labels: dict[str, str]) -> Iterable[Family]:
    yield gauge("fathom_journal_bytes", "Disk space of the decision journal.", journal.disk_bytes, labels)
    yield counter("fathom_journal_records_total", "Decisions and outcomes recorded.", journal.written, labels)
    yield counter(
        "fathom_journal_lost_records_total", "Records that could not be written.", journal.lost, labels
    )
    recording = "1 while decisions are recorded; 0 while the disk is full."
    yield gauge("fathom_journal_recording", recording, int(journal.recording), labels)


def _tape(tape: DiskTape, labels: dict[str, str]) -> Iterable[Family]:
    yield gauge("fathom_tape_bytes", "Disk space of the tape for replays.", tape.disk_bytes, labels)
    yield counter("fathom_tape_records_total", "Inputs and requests recorded.", tape.records, labels)
    yield counter("fathom_tape_lost_records_total", "Records that could not be written.", tape.lost, labels)
    recording = "1 while inputs are recorded; 0 while the disk or the budget is full."
    yield gauge("fathom_tape_recording", recording, int(tape.recording), labels)
