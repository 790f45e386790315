"""A journal on a disk that is full, with real processes that are killed at random."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.record.test_journal_reader import query, scanned

from fathom.model.record_query import RecordQuery
from fathom.record.journal import DiskJournal, read_journal
from fathom.record.journal_reader import JournalReader
from fathom.record.recording_gaps import read_gaps

pytestmark = pytest.mark.live
ROOT = Path(__file__).parent.parent.parent
DISK, BUDGET = "8m", 2 << 20
WITHIN_S = 60.0
ROUNDS = 6

WRITER = """
import random, sys, time
from pathlib import Path
from tests.record.test_journal_reader import write
from fathom.record.journal import DiskJournal
journal = DiskJournal(Path(sys.argv[1]), budget_bytes=int(sys.argv[2]))
rng, number = random.Random(int(sys.argv[3])), int(sys.argv[4])
while True:
    write(journal, rng, 20, number)
    number += 20
    print(number, journal.recording, journal.lost, journal.disk_bytes, flush=True)
    time.sleep(0.001)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted: {mounted.stderr.decode().strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Take all the room that is left."""
    filler = disk / "filler"
    room = os.statvfs(disk)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize)
    return filler


class Writer:
    """A process that writes decisions as fast as it can."""

    def __init__(self, directory: Path, seed: int, start: int) -> None:
        arguments = [str(directory), str(BUDGET), str(seed), str(start)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        self.number, self.recording, self.lost, self.disk_bytes = start, True, 0, 0

    def until(self, check: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN_S
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, recording, lost, disk_bytes = line.split()
            self.number, self.recording = int(number), recording == "True"
            self.lost, self.disk_bytes = int(lost), int(disk_bytes)
            if check():
                return
            assert time.monotonic() < deadline, line
        raise AssertionError(f"the writer ended with {self._process.wait()}")

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()


def assert_index_is_right(directory: Path, rng: random.Random, written: int) -> None:
    kept = read_journal(directory)
    reader = JournalReader(directory)
    assert reader.query(RecordQuery(newest=1_000_000)) == kept
    for _ in range(20):
        wanted = query(rng, written)
        assert reader.query(wanted) == scanned(kept, wanted), wanted


def test_a_full_disk_pauses_a_journal_which_says_so_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    directory = small_disk / "journal"
    writer = Writer(directory, seed=1, start=0)
    try:
        writer.until(lambda: writer.number >= 500)
        filler = fill(small_disk)
        writer.until(lambda: not writer.recording)  # It goes on deciding.
        (gap,) = read_gaps(directory)
        assert gap.until_ns == 0
        lost_until = writer.number
        writer.until(lambda: writer.number >= lost_until + 500)
        assert_index_is_right(directory, random.Random(1), writer.number)
        ids = {kept.decision.id.partition("-")[2] for kept in read_journal(directory)}
        filler.unlink()
        writer.until(lambda: writer.recording)
        resumed = writer.number
        writer.until(lambda: writer.number >= resumed + 500)
        assert writer.disk_bytes <= BUDGET
    finally:
        writer.kill()
    assert_index_is_right(directory, random.Random(2), writer.number)
    (gap,) = read_gaps(directory)
    assert gap.since_ns < gap.until_ns
    assert gap.lost > 500
    after = {kept.decision.id.partition("-")[2] for kept in read_journal(directory)}
    assert f"{resumed + 300:x}" in after - ids  # What came after the gap is on record; what was in it is not.
    assert f"{lost_until + 300:x}" not in after


def test_journals_killed_at_random_on_a_disk_that_is_full_at_random_are_indexed_as_a_scan_reads_them(
    small_disk: Path,
) -> None:
    seed = random.SystemRandom().getrandbits(32)
    sys.stdout.write(f"seed {seed}\n")
    rng, directory, number = random.Random(seed), small_disk / "journal", 0
    for _ in range(ROUNDS):
        filler = fill(small_disk) if rng.random() < 0.4 else None
        writer = Writer(directory, seed=rng.getrandbits(32), start=number)
        try:
            until = number + rng.randrange(20, 2000)
            writer.until(lambda until=until, writer=writer: writer.number >= until)  # type: ignore[misc]
        finally:
            writer.kill()
        number = writer.number + 100
        assert_index_is_right(directory, rng, number)
        if filler is not None:
            filler.unlink()
        size = sum(path.stat().st_size for path in directory.iterdir() if path.suffix in {".seg", ".index"})
        # A killed process leaves its open segment as it was allocated.
        assert size <= BUDGET * 9 // 8
    DiskJournal(directory, budget_bytes=BUDGET).close()
    assert_index_is_right(directory, rng, number)
