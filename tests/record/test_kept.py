"""Windows that keep full detail, objects that failed, and full disks."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from tests.record.entries import Lines
from tests.record.test_journal import decision, outcome

from fathom.cli.cluster.journals import opened_journal
from fathom.cli.main import run
from fathom.model.decision import Considered, Subject
from fathom.model.record_query import ObjectRef, RecordQuery
from fathom.model.times import SECOND_NS
from fathom.record import journal_trimming
from fathom.record.journal import DiskJournal, WantedDecisions, read_journal
from fathom.record.journal_index import read_index
from fathom.record.journal_reader import JournalReader
from fathom.record.kept_windows import KeptWindow, KeptWindows, declare, declared, noted, used_up_since
from fathom.record.ring import KEPT_SHARE, Ring, ring_files, run_of
from fathom.record.segment import HEADER_BYTES, TAPE, read_header

BUDGET = 64 * 1024  # Segments of 8 KiB.
FAILING = Subject("pods", "default", "failing")


def fill(ring: Ring, runs: int) -> None:
    """Runs that cannot be compressed, so that the budget is used."""
    for _ in range(runs):
        ring.begin()
        ring.append(os.urandom(6000))


def aged(directory: Path, seconds_ago: dict[int, int], now_ns: int) -> None:
    """Set when the runs were recorded."""
    for path in ring_files(directory):
        time_ns = now_ns - seconds_ago[run_of(path)] * SECOND_NS
        os.utime(path, ns=(time_ns, time_ns))


def open_ring(directory: Path, data: Path, log: Lines | None = None) -> Ring:
    return Ring(directory, TAPE, budget_bytes=BUDGET, log=log, kept=KeptWindows(data, "scheduler"))


def recorded_in_the_past(tmp_path: Path, now_ns: int) -> Path:
    """Four runs: 4, 3, 2 and 1 hours ago."""
    directory = tmp_path / "tape"
    ring = open_ring(directory, tmp_path)
    fill(ring, 4)
    ring.close()
    aged(directory, {run: (5 - run) * 3600 for run in range(1, 5)}, now_ns)
    return directory


def test_runs_of_a_declared_incident_outlive_younger_ones(tmp_path: Path) -> None:
    now_ns = 1_700_000_000 * SECOND_NS
    directory = recorded_in_the_past(tmp_path, now_ns)
    middle_ns = now_ns - 3 * 3600 * SECOND_NS - 600 * SECOND_NS
    declare(tmp_path, KeptWindow(middle_ns - SECOND_NS, middle_ns + SECOND_NS, "incident", "pod default/web"))
    ring = open_ring(directory, tmp_path)
    fill(ring, 30)
    ring.close()
    assert 2 in {run_of(path) for path in ring_files(directory)}
    assert 1 not in {run_of(path) for path in ring_files(directory)}
    assert ring.disk_bytes <= BUDGET
    assert used_up_since(tmp_path) == {}


def test_when_the_budget_of_kept_runs_is_used_up_the_oldest_go_and_that_is_said(tmp_path: Path) -> None:
    declare(tmp_path, KeptWindow(0, 2**62, "incident", "pod default/web"))
    log = Lines()
    ring = open_ring(tmp_path / "tape", tmp_path, log)
    fill(ring, 30)
    ring.close()
    newest = max(run_of(path) for path in ring_files(tmp_path / "tape"))
    assert newest == 30
    assert ring.disk_bytes <= BUDGET
    assert list(used_up_since(tmp_path)) == ["scheduler"]
    assert any("their part of the budget is used up" in event for event, _ in log.lines)


def test_kept_runs_leave_room_for_what_happens_now(tmp_path: Path) -> None:
    now_ns = 1_700_000_000 * SECOND_NS
    directory = recorded_in_the_past(tmp_path, now_ns)
    declare(tmp_path, KeptWindow(0, now_ns, "incident", "pod default/web"))
    ring = open_ring(directory, tmp_path)
    fill(ring, 30)
    sizes = {path: path.stat().st_size for path in ring_files(directory)}
    old = sum(size for path, size in sizes.items() if run_of(path) <= 4)
    ring.close()
    assert 0 < old <= BUDGET * KEPT_SHARE
    assert ring.lost == 0


def test_a_process_notes_windows_of_overrides_and_rollouts_itself(tmp_path: Path) -> None:
    windows = KeptWindows(tmp_path, "controllers")
    windows.note(decision(1))
    assert noted(tmp_path) == {}
    windows.note(decision(2, overrides=(Considered("freeze"),)))
    windows.note(decision(3, subject=Subject("deployments.apps", "default", "web"), verdict="create"))
    (window,) = noted(tmp_path)["controllers"]
    time_ns = decision(2).time_ns
    assert window.why == "override"
    assert window.overlaps(time_ns, time_ns)
    assert not window.overlaps(time_ns - 3600 * SECOND_NS, time_ns - 1800 * SECOND_NS)
    again = KeptWindows(tmp_path, "controllers")
    assert again.covers(time_ns, time_ns)


def journal_of(directory: Path, **options: Any) -> DiskJournal:
    return DiskJournal(directory, budget_bytes=128 * 1024, **options)


def routine(journal: DiskJournal, numbers: range) -> None:
    """Ordinary bindings, each of another pod, with text that does not compress well."""
    for number in numbers:
        subject = Subject("pods", "default", f"web-{number}")
        journal.decided(decision(number, verdict="bind", subject=subject, message=os.urandom(200).hex()))
        journal.concluded(outcome(number))


def failing(journal: DiskJournal, numbers: range) -> None:
    for number in numbers:
        journal.decided(decision(number, verdict="unschedulable", subject=FAILING, message="no room"))


@pytest.mark.slow
def test_a_failing_pod_keeps_its_records_however_much_routine_follows(tmp_path: Path) -> None:
    journal = journal_of(tmp_path)
    failing(journal, range(5))
    routine(journal, range(100, 6000))
    journal.close()
    kept = read_journal(tmp_path, WantedDecisions(resource="pods", name="failing"))
    assert [(each.decision.id, each.decision.message) for each in kept] == [
        (decision(number).id, "no room") for number in range(5)
    ]
    assert journal.disk_bytes <= 128 * 1024
    levels = {read_header(path).thinned for path in ring_files(tmp_path)}
    assert 2 in levels


@pytest.mark.slow
def test_a_failing_pod_keeps_its_binding_too_when_it_is_bound_at_last(tmp_path: Path) -> None:
    journal = journal_of(tmp_path)
    failing(journal, range(5))
    routine(journal, range(100, 400))
    journal.decided(decision(50, verdict="bind", subject=FAILING, node="a", message="fits"))
    journal.concluded(outcome(50))
    routine(journal, range(1000, 7000))
    journal.close()
    kept = read_journal(tmp_path, WantedDecisions(resource="pods", name="failing"))
    assert [each.decision.verdict for each in kept] == ["unschedulable"] * 5 + ["bind"]
    assert kept[-1].decision.message == "fits"
    assert journal.disk_bytes <= 128 * 1024


@pytest.mark.slow
def test_routine_of_two_words_does_not_push_a_failing_pod_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_trimming, "FAILING_MAX", 10)
    journal = journal_of(tmp_path)
    failing(journal, range(5))
    for number in range(100, 200):
        owner = Subject("replicasets.apps", "default", f"web-{number}")
        journal.decided(decision(number, verdict="create+status", subject=owner))
    routine(journal, range(200, 400))
    journal.decided(decision(50, verdict="bind", subject=FAILING, node="a", message="fits"))
    journal.concluded(outcome(50))
    routine(journal, range(1000, 7000))
    journal.close()
    kept = read_journal(tmp_path, WantedDecisions(resource="pods", name="failing"))
    assert [each.decision.verdict for each in kept] == ["unschedulable"] * 5 + ["bind"]


@pytest.mark.slow
def test_a_reduced_journal_is_read_through_its_index(tmp_path: Path) -> None:
    journal = journal_of(tmp_path)
    failing(journal, range(5))
    routine(journal, range(100, 6000))
    journal.close()
    reduced = [path for path in ring_files(tmp_path) if read_header(path).thinned == 2]
    assert reduced
    for path in ring_files(tmp_path):
        assert read_index(path, path.read_bytes()[:HEADER_BYTES]) is not None, path
    stored = [path.stat().st_size for path in tmp_path.iterdir() if path.suffix in {".seg", ".index"}]
    assert journal.disk_bytes == sum(stored)
    reader = JournalReader(tmp_path)
    about = RecordQuery(objects=(ObjectRef("pods", "default", "failing"),))
    assert [kept.decision.id for kept in reader.query(about)] == [decision(number).id for number in range(5)]


def test_a_journal_that_a_command_opens_notes_and_keeps_windows(tmp_path: Path) -> None:
    with opened_journal(tmp_path, "gateway", Lines()) as journal:
        journal.decided(decision(1, overrides=(Considered("freeze"),)))
        assert journal.kept is not None
        assert journal.kept.covers(decision(1).time_ns, decision(1).time_ns)
    assert list(noted(tmp_path)) == ["gateway"]


@pytest.mark.slow
def test_a_journal_keeps_the_detail_of_a_declared_incident(tmp_path: Path) -> None:
    data, directory = tmp_path / "data", tmp_path / "data" / "journal" / "scheduler"
    kept = KeptWindows(data, "scheduler")
    journal = journal_of(directory, kept=kept)
    routine(journal, range(60))
    journal.close()
    declare(
        data, KeptWindow(0, max(map(_changed_ns, ring_files(directory))), "incident", "pod default/web-1")
    )
    journal = journal_of(directory, kept=KeptWindows(data, "scheduler"))
    routine(journal, range(1000, 4000))
    journal.close()
    decisions = [each.decision for each in read_journal(directory)]
    details = [each for each in decisions if each.id in {decision(number).id for number in range(60)}]
    assert len(details) == 60
    assert not any(each.brief for each in details)
    assert any(each.brief for each in decisions)


def _changed_ns(path: Path) -> int:
    return path.stat().st_mtime_ns


@pytest.mark.slow
def test_a_full_disk_is_said_and_the_process_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Lines()
    journal = journal_of(tmp_path, log=log)
    routine(journal, range(20))

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", no_room)
        routine(journal, range(1000, 3000))
        assert journal.lost > 0
        assert any(
            event == "recording stopped" and "No space left" in fields["error"] for event, fields in log.lines
        )
    lost = journal.lost
    routine(journal, range(5000, 7000))
    journal.close()
    assert journal.lost < lost + 4000, "recording goes on when there is room again"
    ids = {each.decision.id for each in read_journal(tmp_path)}
    assert decision(6999).id in ids
    assert journal.disk_bytes <= 128 * 1024


# The command.


def test_keep_declares_an_incident_and_status_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "journal").mkdir()  # A cluster was here.
    assert (
        run(
            [
                "record",
                "keep",
                "--around",
                "deploy/web",
                "--for",
                "30m",
                "-n",
                "shop",
                "--data",
                str(tmp_path),
            ]
        )
        == 0
    )
    assert capsys.readouterr().out.startswith("kept with full detail, around deploy shop/web: 20")
    (window,) = declared(tmp_path)
    assert (window.why, window.object) == ("incident", "deploy shop/web")
    assert window.until_ns - window.since_ns == 3600 * SECOND_NS


def test_keep_says_when_the_budget_was_used_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "journal").mkdir()  # A cluster was here.
    KeptWindows(tmp_path, "scheduler").used_up()
    assert run(["record", "keep", "--around", "pod/web-1", "--for", "1m", "--data", str(tmp_path)]) == 1
    assert "scheduler had no room left for kept records at 20" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--around", "web", "--for", "1m"), "name the object as KIND/NAME"),
        (("--around", "pod/web", "--for", "soon"), "--for must be a duration"),
    ],
)
def test_what_keep_does_not_understand_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], complaint: str
) -> None:
    assert run(["record", "keep", *options, "--data", str(tmp_path)]) == 2
    assert complaint in capsys.readouterr().err
