"""When nothing can be recorded, the gap is known: since when, until when, and through a restart."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from fathom.ask.recording_gaps import Period, gaps_of_journal
from fathom.model.decision import Decision, Subject
from fathom.record import ring as rings
from fathom.record.incident_export import Window, gap_notes
from fathom.record.journal import DiskJournal, read_journal
from fathom.record.recording_gaps import GAPS_KEPT, OPEN, RecordingGap, RecordingGaps, read_gaps

SECOND_NS = 1_000_000_000


def decision(number: int) -> Decision:
    subject = Subject("pods", "default", f"web-{number}")
    return Decision(id=f"d-{number}", time_ns=number, controller="scheduler", subject=subject, verdict="bind")


def test_a_gap_is_open_while_it_lasts_and_then_has_an_end_and_a_count(tmp_path: Path) -> None:
    clock = iter(range(time.time_ns(), time.time_ns() + 10**12, SECOND_NS))
    gaps = RecordingGaps(tmp_path, now_ns=lambda: next(clock))
    assert read_gaps(tmp_path) == []
    gaps.pause()
    gaps.lose()
    gaps.pause()  # It is the same gap.
    gaps.lose(2)
    (gap,) = read_gaps(tmp_path)
    assert gap.until_ns == 0
    gaps.resume()
    gaps.resume()
    (gap,) = read_gaps(tmp_path)
    assert (gap.until_ns - gap.since_ns, gap.lost) == (SECOND_NS, 3)
    for _ in range(GAPS_KEPT + 5):
        gaps.pause()
        gaps.resume()
    assert len(read_gaps(tmp_path)) == GAPS_KEPT


def test_a_gap_goes_on_through_a_kill_and_ends_with_the_first_record_after_it(tmp_path: Path) -> None:
    RecordingGaps(tmp_path, now_ns=lambda: 1).pause()  # The process is killed here.
    since_ns = (tmp_path / OPEN).stat().st_mtime_ns
    journal = DiskJournal(tmp_path)
    was_recording = journal.recording
    assert read_gaps(tmp_path) == [RecordingGap(since_ns)]
    journal.decided(decision(1))
    assert (was_recording, journal.recording) == (False, True)
    (gap,) = read_gaps(tmp_path)
    assert gap.since_ns == since_ns <= gap.until_ns
    journal.close()
    assert [kept.decision.id for kept in read_journal(tmp_path)] == ["d-1"]


def test_a_journal_that_cannot_be_written_is_tried_again_soon_and_says_what_it_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only after a thousand lost records: a quiet cluster takes hours for that."""
    monkeypatch.setattr(rings, "RETRY_NS", 0)
    directory = tmp_path / "journal"
    journal = DiskJournal(directory)
    shutil.rmtree(directory)
    for number in range(3):
        journal.decided(decision(number))
    assert (journal.recording, journal.lost) == (False, 3)
    directory.mkdir()
    journal.decided(decision(3))
    assert (journal.recording, journal.lost) == (True, 3)
    journal.close()
    assert [kept.decision.id for kept in read_journal(directory)] == ["d-3"]
    (gap,) = read_gaps(directory)
    assert gap.lost == 3
    (said,) = gaps_of_journal("scheduler", directory, Period())
    assert said.source == "journal of scheduler"
    assert "decisions were not recorded from" in said.why
    assert said.why.endswith("3 records were lost")


def test_a_gap_concerns_a_question_only_if_it_meets_the_subjects_life() -> None:
    gap = RecordingGap(100, 200)
    assert Period(50).meets(gap)
    assert Period(150).meets(gap)
    assert not Period(201).meets(gap)
    assert not Period(0, 99).meets(gap)
    assert Period(0, 100).meets(gap)
    assert Period(10**18).meets(RecordingGap(100))  # It goes on.


def test_an_incident_says_when_records_of_its_window_could_not_be_written(tmp_path: Path) -> None:
    directory = tmp_path / "journal" / "scheduler"
    directory.mkdir(parents=True)
    clock = iter((100 * SECOND_NS, 200 * SECOND_NS))
    gaps = RecordingGaps(directory, now_ns=lambda: next(clock))
    gaps.pause()
    gaps.resume()
    (note,) = gap_notes(tmp_path, Window(150 * SECOND_NS, 300 * SECOND_NS))
    assert note == (
        "the journal of scheduler has no records from 1970-01-01T00:01:40.000000Z"
        " to 1970-01-01T00:03:20.000000Z"
    )
    assert gap_notes(tmp_path, Window(201 * SECOND_NS, 300 * SECOND_NS)) == []
