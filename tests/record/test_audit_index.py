"""The index of the audit log finds what a scan finds, through rotations, restarts and crashes."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from random import Random

import pytest
from tests.record.entries import StoppedClock, entry

from fathom import private_files
from fathom.model.audit import AuditEntry
from fathom.model.record_query import ObjectRef
from fathom.record import audit_index
from fathom.record.audit import AuditLog
from fathom.record.audit_index import AuditIndex
from fathom.record.audit_reading import files, read_entries

WEB = ObjectRef("deployments.apps", "default", "web")
NAMES = ("web", "db", "cache")


def log_in(directory: Path, **options: int) -> AuditLog:
    return AuditLog(directory, clock=StoppedClock(), **options)  # type: ignore[arg-type]  # options pass through


def scanned(directory: Path, ref: ObjectRef) -> list[AuditEntry]:
    return list(read_entries(directory, resource=ref.resource, namespace=ref.namespace, name=ref.name))


def indexes(directory: Path) -> list[Path]:
    return sorted(directory.glob("audit-*.index"))


@pytest.mark.parametrize("seed", range(5))
def test_the_index_finds_what_a_scan_finds_while_the_log_rotates(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    log, index = log_in(tmp_path, file_bytes_max=20_000, files_max=3), AuditIndex(tmp_path)
    for number in range(600):
        name = random.choice(NAMES)
        log.record(entry(number, name=name, user_agent="x" * random.randrange(300)))
        if random.random() < 0.05:
            log.flush()
        if random.random() < 0.02:
            log.flush()
            ref = ObjectRef("deployments.apps", "default", random.choice(NAMES))
            assert index.newest([ref], 10_000) == scanned(tmp_path, ref)
        if random.random() < 0.01:
            index.close()
            index = AuditIndex(tmp_path)  # A restart.
    log.close()
    assert len(files(tmp_path)) == 3
    every = [ObjectRef("deployments.apps", "default", name) for name in NAMES]
    assert index.newest(every, 10_000) == list(read_entries(tmp_path))
    index.close()
    assert len(indexes(tmp_path)) == 3


def test_of_many_writes_the_newest_are_read_oldest_first(tmp_path: Path) -> None:
    log = log_in(tmp_path, file_bytes_max=2_000)
    for number in range(50):
        log.record(entry(number))
        log.flush()
    log.close()
    assert len(files(tmp_path)) > 2
    newest = AuditIndex(tmp_path).newest([WEB], 7)
    assert [each.id for each in newest] == [f"id-{number}" for number in range(43, 50)]


def test_an_object_of_another_kind_or_namespace_with_the_same_name_is_another_object(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    others = (
        entry(1, namespace="shop"),
        entry(2, resource="pods"),
        entry(3, name="webb"),
        entry(4, user_agent="web"),
    )
    for each in others:
        log.record(each)
    log.close()
    assert [each.id for each in AuditIndex(tmp_path).newest([WEB], 10)] == ["id-4"]
    assert AuditIndex(tmp_path).newest([], 10) == []


def test_a_line_that_a_crash_cut_short_is_skipped_and_found_once_it_is_whole(tmp_path: Path) -> None:
    log, index = log_in(tmp_path), AuditIndex(tmp_path)
    log.record(entry(1))
    log.close()
    whole = log.path.read_bytes()
    for cut in (whole[:40], whole):
        log.path.write_bytes(whole + cut)
        fresh = AuditIndex(tmp_path)
        expected = 2 if cut == whole else 1
        assert len(fresh.newest([WEB], 10)) == len(index.newest([WEB], 10)) == expected
        fresh.close()
    log.path.write_bytes(whole + whole + whole[:40])
    log = log_in(tmp_path)  # Ends the line that was cut short.
    log.record(entry(2))
    log.close()
    assert [each.id for each in index.newest([WEB], 10)] == ["id-1", "id-1", "id-2"]


def test_after_a_kill_a_new_index_reads_the_saved_one_and_makes_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_index, "SAVE_BYTES", 2_000)
    log, index = log_in(tmp_path), AuditIndex(tmp_path)
    for number in range(20):
        log.record(entry(number))
        log.flush()
        index.follow()
    (saved,) = indexes(tmp_path)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    log.close()  # The index is not closed: what it had not saved is lost.
    content = saved.read_bytes()
    assert b"web" not in content
    everything = scanned(tmp_path, WEB)
    assert AuditIndex(tmp_path).newest([WEB], 100) == everything
    damaged = bytearray(content)
    damaged[len(damaged) // 2] ^= 1
    for wrong in (b"", content[:-5], bytes(damaged), content + b"x"):
        saved.write_bytes(wrong)
        assert AuditIndex(tmp_path).newest([WEB], 100) == everything


def test_an_index_of_another_log_is_not_used(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record(entry(1))
    log.record(entry(2))
    log.close()
    index = AuditIndex(tmp_path)
    index.follow()
    index.close()
    (saved,) = indexes(tmp_path)
    log.path.unlink()
    log = log_in(tmp_path)
    log.record(entry(3, name="db"))
    log.record(entry(4))
    log.close()
    fresh = AuditIndex(tmp_path)
    assert [each.id for each in fresh.newest([WEB], 10)] == ["id-4"]
    assert not saved.exists()


def test_a_full_disk_leaves_the_index_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log, index = log_in(tmp_path), AuditIndex(tmp_path)
    log.record(entry(1))
    log.close()
    monkeypatch.setattr(private_files, "create", full)
    assert [each.id for each in index.newest([WEB], 10)] == ["id-1"]
    index.close()
    assert indexes(tmp_path) == []


def test_a_log_that_does_not_exist_yet_is_empty(tmp_path: Path) -> None:
    index = AuditIndex(tmp_path / "audit")
    assert index.newest([WEB], 10) == []
    log = log_in(tmp_path / "audit")
    log.record(entry(1))
    log.close()
    assert [each.id for each in index.newest([WEB], 10)] == ["id-1"]


def test_the_last_write_before_a_moment_is_found_as_a_scan_finds_it(tmp_path: Path) -> None:
    log, index = log_in(tmp_path, file_bytes_max=2_000), AuditIndex(tmp_path)
    assert index.last_write(lambda _: False) is None
    for number in range(0, 60, 2):
        refused = number % 6 == 0
        log.record(entry(number, code=409 if refused else 200, revision=0 if refused else 100 + number))
        log.flush()
    log.close()
    assert len(files(tmp_path)) > 2
    for revision in range(98, 164):

        def is_after(write: AuditEntry, revision: int = revision) -> bool:
            return write.revision > revision

        writes = [each for each in read_entries(tmp_path) if each.wrote and not is_after(each)]
        assert index.last_write(is_after) == (writes[-1] if writes else None), revision
