"""The audit log keeps what it is given, in bounded space, through crashes and full disks."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from pathlib import Path

import pytest
from tests.record.entries import Lines, StoppedClock, entry

from fathom.model.audit import AuditEntry, Verdict
from fathom.record import audit
from fathom.record.audit import AuditLog
from fathom.record.audit_reading import files, read_entries

FULL = entry(
    1,
    groups=("system:authenticated",),
    impersonator="root",
    uid="u-1",
    subresource="scale",
    request="r-1",
    user_agent="kubectl/1.37 \u00e9",
    source="127.0.0.1:1",
    decision="d-1",
    changed=("spec.replicas", "metadata.labels[a.b/c]"),
    admission=(
        Verdict("Priority", mutated=("spec.priority",), notes=(("k", "v"),)),
        Verdict("X", denied="no"),
    ),
    dry_run=True,
)


def log_in(tmp_path: Path, **options: object) -> AuditLog:
    return AuditLog(tmp_path / "audit", clock=StoppedClock(), **options)  # type: ignore[arg-type]  # options pass through


def test_an_entry_reads_back_as_it_was_written(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record(FULL)
    log.record(entry(2))
    log.close()
    assert list(read_entries(tmp_path / "audit")) == [FULL, entry(2)]
    assert (log.written, log.dropped) == (2, 0)


def test_a_line_says_only_what_there_is_to_say(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record(AuditEntry(id="1", time="t", user="u", verb="create", resource="pods", code=201))
    log.close()
    assert log.path.read_bytes() == (
        b'{"id":"1","time":"t","user":"u","verb":"create","resource":"pods","code":201}\n'
    )


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record(entry())
    log.close()
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700


def test_nothing_is_written_until_a_flush_and_a_full_buffer_flushes_itself(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record(entry())
    assert not log.path.exists()
    while not log.path.exists():
        log.record(entry(user_agent="x" * 10_000))
    assert log.written > 100
    log.close()


def test_files_rotate_and_the_oldest_go(tmp_path: Path) -> None:
    log = log_in(tmp_path, file_bytes_max=1000, files_max=3)
    for number in range(50):
        log.record(entry(number))
        log.flush()
    log.close()
    names = [path.name for path in files(tmp_path / "audit")]
    assert names == ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"]
    assert all(path.stat().st_size <= 1000 for path in files(tmp_path / "audit"))
    kept = [one.id for one in read_entries(tmp_path / "audit")]
    assert kept == [f"id-{number}" for number in range(50 - len(kept), 50)]
    assert len(kept) > 5


def test_a_log_of_one_file_starts_it_anew(tmp_path: Path) -> None:
    log = log_in(tmp_path, file_bytes_max=500, files_max=1)
    for number in range(20):
        log.record(entry(number))
        log.flush()
    log.close()
    assert [path.name for path in files(tmp_path / "audit")] == ["audit.jsonl"]
    assert log.path.stat().st_size <= 500


def test_a_log_goes_on_where_an_earlier_process_stopped(tmp_path: Path) -> None:
    for number in (1, 2):
        log = log_in(tmp_path)
        log.record(entry(number))
        log.close()
    assert list(read_entries(tmp_path / "audit")) == [entry(1), entry(2)]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_torn_by_a_crash_is_skipped_and_spoils_no_other(tmp_path: Path, cut: int) -> None:
    log = log_in(tmp_path)
    log.record(entry(1))
    log.record(entry(2))
    log.close()
    os.truncate(log.path, log.path.stat().st_size - cut)
    again = log_in(tmp_path)
    again.record(entry(3))
    again.close()
    assert list(read_entries(tmp_path / "audit")) == [entry(1), *([entry(2)] if cut == 1 else []), entry(3)]


class Disk:
    """Takes `room` bytes, then says that it is full."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, handle: int, block: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = os.write(handle, block[: self.room])
        self.room -= count
        return count


def test_a_full_disk_costs_entries_that_are_counted_and_said_and_nothing_else(tmp_path: Path) -> None:
    clock, said, disk = StoppedClock(), Lines(), Disk(room=250)
    log = AuditLog(tmp_path / "audit", clock=clock, log=said, write=disk.write)
    for number in range(6):
        log.record(entry(number))
        log.flush()
    kept = list(read_entries(tmp_path / "audit"))
    assert kept == [entry(number) for number in range(len(kept))]
    assert (log.written, log.dropped) == (len(kept), 6 - len(kept))
    assert [event for event, _ in said.lines] == ["audit entries lost"]
    disk.room = 10_000
    log.record(entry(7))
    log.close()
    assert list(read_entries(tmp_path / "audit")) == [*kept, entry(7)]
    disk.room = 0
    clock.ns += 11_000_000_000
    log.record(entry(8))
    log.close()
    assert [fields["lost"] for _, fields in said.lines] == [1, log.dropped]


def test_a_place_that_cannot_be_written_costs_entries_only(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text("a file where the directory should be")
    log = log_in(tmp_path)
    log.record(entry())
    log.close()
    assert (log.written, log.dropped) == (0, 1)


def test_a_file_removed_by_hand_is_made_anew_after_an_error_and_a_directory_too(tmp_path: Path) -> None:
    disk = Disk(room=10_000)
    log = log_in(tmp_path, write=disk.write)
    log.record(entry(1))
    log.flush()
    log.path.unlink()
    log.path.parent.rmdir()
    disk.room = 0
    log.record(entry(2))
    log.flush()
    disk.room = 10_000
    log.record(entry(3))
    log.close()
    assert list(read_entries(tmp_path / "audit")) == [entry(3)]


def test_an_entry_that_cannot_be_encoded_is_counted_and_leaves_no_trace(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record(entry(1))
    log.record(entry(2, user_agent="\ud800"))
    log.record(entry(3))
    log.close()
    assert list(read_entries(tmp_path / "audit")) == [entry(1), entry(3)]
    assert log.dropped == 1


def test_running_writes_what_is_recorded_within_moments_and_the_rest_when_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "FLUSH_S", 0.001)
    monkeypatch.setattr(audit, "SYNC_S", 0.0)

    async def story() -> None:
        log = log_in(tmp_path)
        running = asyncio.create_task(log.run())
        log.record(entry(1))
        while not log.written:
            await asyncio.sleep(0.001)
        log.record(entry(2))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(story(), 10))
    assert list(read_entries(tmp_path / "audit")) == [entry(1), entry(2)]
