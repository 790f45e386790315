"""A ring of segments: what was appended is read back in order, from a beginning, within the budget, after any
crash."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.record.entries import Lines

from fathom.record import ring as rings
from fathom.record.ring import Ring, RingBusy, ring_files, runs
from fathom.record.segment import (
    HEADER_BYTES,
    TAPE,
    Frames,
    NotASegment,
    SegmentHeader,
    decode_header,
    pack,
    read_header,
    segments,
)

SMALL = 64 * 1024  # Segments of 8 KiB.


def kept(directory: Path) -> dict[int, list[bytes]]:
    """All records that can be read, by run."""
    return {
        run: [body for path in files for segment in segments(path) for body in segment.frames]
        for run, files in runs(directory, TAPE).items()
    }


def unpacked(path: Path) -> int:
    """Leaves the segment as it is."""
    return path.stat().st_size


def test_what_is_appended_is_read_back_in_order_over_many_segments(tmp_path: Path) -> None:
    ring = Ring(tmp_path, TAPE, budget_bytes=SMALL * 20)
    ring.begin()
    bodies = [b"h%d" % number + b"x" * (number % 5000) for number in range(2000)]
    assert all(ring.append(body) for body in bodies)
    assert kept(tmp_path) == {1: bodies}  # Also while it is being written.
    ring.close()
    assert kept(tmp_path) == {1: bodies}
    assert len(ring_files(tmp_path)) > 5
    assert {read_header(path).codec for path in ring_files(tmp_path)} == {1}
    assert ring.lost == 0


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "tape", TAPE, budget_bytes=SMALL)
    ring.begin()
    ring.append(b"secret")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tape").iterdir()]
    ring.close()
    modes += [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tape").iterdir()]
    assert set(modes) == {0o600}
    assert stat.S_IMODE((tmp_path / "tape").stat().st_mode) == 0o700


def one_segment(directory: Path, bodies: list[bytes]) -> Path:
    ring = Ring(directory, TAPE, budget_bytes=SMALL * 10, pack=unpacked)
    ring.begin()
    for body in bodies:
        ring.append(body)
    ring.close()
    (path,) = ring_files(directory)
    return path


BODIES = [b"one", b"", b"three" * 20, b"\x00" * 30, b"five"]


def test_a_segment_cut_anywhere_is_a_prefix(tmp_path: Path) -> None:
    whole = one_segment(tmp_path, BODIES).read_bytes()
    seen = set()
    for cut in range(HEADER_BYTES, len(whole) + 1):
        frames = Frames(whole[HEADER_BYTES:cut], chain=1)
        read = list(frames)
        assert read == BODIES[: len(read)]
        seen.add(len(read))
    assert seen == {0, 1, 2, 3, 4, 5}


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_segment_with_a_changed_byte_is_a_prefix(
    tmp_path_factory: pytest.TempPathFactory, place: int, change: int
) -> None:
    whole = bytearray(one_segment(tmp_path_factory.mktemp("ring"), BODIES).read_bytes())
    place = HEADER_BYTES + place % (len(whole) - HEADER_BYTES)
    whole[place] ^= change
    frames = Frames(bytes(whole[HEADER_BYTES:]), chain=1)
    read = list(frames)
    assert read == BODIES[: len(read)]
    assert len(read) < len(BODIES)


def test_a_frame_counts_only_after_those_before_it(tmp_path: Path) -> None:
    """A later segment, and a frame put where another was, are not taken for what follows."""
    whole = one_segment(tmp_path, BODIES).read_bytes()[HEADER_BYTES:]
    first, second = Frames(whole, chain=1), Frames(whole[11:], chain=1)
    assert next(iter(first)) == b"one"
    assert list(second) == []
    assert second.torn


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        (b"", "not a fathom recording"),
        (b"{}" * 100, "not a fathom recording"),
        (SegmentHeader(TAPE, 1, 0, 1).encode()[:-1] + b"\xff", "a damaged header"),
        (SegmentHeader(TAPE, 1, 0, 1, codec=9).encode(), "with an unknown compression"),
    ],
)
def test_what_is_no_segment_is_said(block: bytes, complaint: str) -> None:
    with pytest.raises(NotASegment, match=complaint):
        decode_header(block)


def test_the_oldest_runs_go_whole_and_the_budget_holds(tmp_path: Path) -> None:
    ring = Ring(tmp_path, TAPE, budget_bytes=SMALL)
    for run in range(30):
        ring.begin()
        for part in range(12):
            assert ring.append(b"%d/%d" % (run + 1, part) + os.urandom(1000))
        assert sum(path.stat().st_size for path in ring_files(tmp_path)) <= SMALL
    ring.close()
    found = kept(tmp_path)
    assert max(found) == 30
    assert len(found) > 2
    for run, bodies in found.items():
        assert [body.partition(b"/")[0] for body in bodies] == [b"%d" % run] * 12
        assert bodies[0].startswith(b"%d/0" % run)


def test_a_run_that_fills_the_budget_alone_pauses_and_the_next_one_goes_on(tmp_path: Path) -> None:
    said = Lines()
    ring = Ring(tmp_path, TAPE, budget_bytes=SMALL, log=said)
    ring.begin()
    taken = 0
    while ring.append(os.urandom(1000)):
        taken += 1
    assert not ring.append(b"no room")
    assert (ring.recording, ring.lost) == (False, 2)
    assert len(kept(tmp_path)[1]) == taken > 40
    assert [event for event, _ in said.lines] == ["recording paused: this run fills its budget"]
    ring.begin()
    assert ring.append(b"again")
    ring.close()
    assert kept(tmp_path) == {2: [b"again"]}


def test_a_record_larger_than_a_segment_has_one_of_its_own(tmp_path: Path) -> None:
    ring = Ring(tmp_path, TAPE, budget_bytes=SMALL)
    ring.begin()
    bodies = [b"small", b"x" * 40_000, b"after"]
    assert [ring.append(body) for body in bodies] == [True, True, True]
    assert not ring.append(b"y" * SMALL)
    ring.close()
    assert kept(tmp_path) == {1: bodies}


def test_a_place_that_cannot_be_written_stops_the_recording_and_nothing_else(tmp_path: Path) -> None:
    said = Lines()
    ring = Ring(tmp_path / "tape", TAPE, budget_bytes=SMALL, log=said)
    ring.begin()
    shutil.rmtree(tmp_path / "tape")
    while ring.append(os.urandom(1000)):
        pass
    ring.begin()
    assert not ring.append(b"lost")
    assert not ring.recording
    assert "recording stopped" in [event for event, _ in said.lines]
    (tmp_path / "tape").mkdir()
    ring.begin()
    assert ring.append(b"back")
    ring.close()
    assert list(kept(tmp_path / "tape").values()) == [[b"back"]]


@pytest.mark.live
def test_a_full_disk_is_an_error_at_a_segment_and_no_signal_at_a_store(tmp_path: Path) -> None:
    """The limit on a file's size stands for the disk; without allocation, the store would be a SIGBUS."""
    code = f"""
import resource
from pathlib import Path
from fathom.record.ring import Ring
ring = Ring(Path({str(tmp_path)!r}), 1, budget_bytes=1 << 20)
ring.begin()
ring.append(b"first")
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
count = 0
while ring.append(bytes(1000)):
    count += 1
print(count, ring.recording, ring.lost)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, recording, lost = done.stdout.split()
    assert (int(count) > 100, recording, lost) == (True, "False", "1")
    assert len(kept(tmp_path)[1]) == int(count) + 1


def test_records_that_stand_for_themselves_drop_a_segment_at_a_time(tmp_path: Path) -> None:
    ring = Ring(tmp_path, TAPE, budget_bytes=SMALL, long_runs=False)
    for number in range(1000):
        assert ring.append(b"%d " % number + os.urandom(500))
    ring.close()
    numbers = [int(body.split()[0]) for bodies in kept(tmp_path).values() for body in bodies]
    assert numbers == list(range(numbers[0], 1000))
    assert len(numbers) > 60


def test_records_that_stand_for_themselves_go_on_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rings, "LOST_PER_TRY", 10)
    ring = Ring(tmp_path / "tape", TAPE, budget_bytes=SMALL, long_runs=False)
    shutil.rmtree(tmp_path / "tape")
    results = [ring.append(b"x") for _ in range(25)]
    (tmp_path / "tape").mkdir()
    results += [ring.append(b"x") for _ in range(10)]
    ring.close()
    assert results == [False] * 30 + [True] * 5


def test_a_segment_that_cannot_be_packed_is_as_good_unpacked(tmp_path: Path) -> None:
    def fails(path: Path) -> int:
        raise OSError(28, "No space left on device")

    said = Lines()
    ring = Ring(tmp_path, TAPE, budget_bytes=SMALL * 2, log=said, pack=fails)
    ring.begin()
    bodies = [b"%d" % number * 500 for number in range(40)]
    for body in bodies:
        ring.append(body)
    ring.close()
    assert kept(tmp_path) == {1: bodies}
    assert {event for event, _ in said.lines} == {"a segment could not be compressed"}


def test_two_processes_do_not_write_to_one_ring(tmp_path: Path) -> None:
    ring = Ring(tmp_path, TAPE, budget_bytes=SMALL)
    with pytest.raises(RingBusy, match="another process"):
        Ring(tmp_path, TAPE, budget_bytes=SMALL)
    ring.close()
    Ring(tmp_path, TAPE, budget_bytes=SMALL).close()


def test_a_segment_that_nobody_began_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "00000003-000000.seg").write_bytes(bytes(8192))
    (tmp_path / "00000004-000001.seg").write_bytes(SegmentHeader(TAPE, 4, 1, 9).encode())
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "00000002-000000.packing").write_bytes(b"half")
    assert kept(tmp_path) == {}
    ring = Ring(tmp_path, TAPE, budget_bytes=SMALL)
    ring.begin()
    ring.append(b"new")
    ring.close()
    assert kept(tmp_path) == {5: [b"new"]}
    assert not list(tmp_path.glob("*.packing"))


WRITER = """
import sys
from pathlib import Path
from fathom.record.ring import Ring
ring = Ring(Path(sys.argv[1]), 1, budget_bytes=1 << 20)
ring.begin()
number = 0
while True:
    number += 1
    ring.append(b"%d " % number + b"x" * (number * 7919 % 3000))
    print(number, flush=True)
"""


@pytest.mark.live
@pytest.mark.parametrize("moment", range(8))
def test_what_was_appended_outlives_a_kill(tmp_path: Path, moment: int) -> None:
    """Everything that had returned is there, whole and in order, and at most one record more."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    acknowledged = 0
    for line in writer.stdout:
        acknowledged = int(line)
        if acknowledged >= 30 + moment * 41:
            break
    writer.send_signal(signal.SIGKILL)
    acknowledged = max(acknowledged, *map(int, writer.stdout.read().split()), 0)
    writer.wait()
    bodies = kept(tmp_path)[1]
    numbers = [int(body.split()[0]) for body in bodies]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= acknowledged
    assert [len(body.partition(b" ")[2]) for body in bodies] == [n * 7919 % 3000 for n in numbers]
    again = Ring(tmp_path, TAPE, budget_bytes=1 << 20)  # Packs what was left, and loses nothing of it.
    again.close()
    assert kept(tmp_path)[1] == bodies


def test_packing_leaves_out_what_is_torn(tmp_path: Path) -> None:
    path = one_segment(tmp_path, BODIES)
    with path.open("ab") as file:
        file.write(b"\x05\x00\x00\x00half a frame")
    (segment,) = segments(path)
    assert list(segment.frames) == BODIES
    assert segment.frames.torn
    pack(path)
    (segment,) = segments(path)
    assert list(segment.frames) == BODIES
    assert not segment.frames.torn
