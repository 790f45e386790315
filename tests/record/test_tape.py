"""A tape holds what its process was told and what it asked; runs are read, listed, exported one by one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fathom.record.segment import JOURNAL, SegmentHeader
from fathom.record.tape import ASK, BadTape, DiskTape, Record, TapedRequest, asked, reels
from fathom.record.tape_list import directory_of, export, shelf_of
from fathom.seams.process import Birth
from fathom.seams.seam import Ask, Input

BIRTH = Birth(
    entry="a.b:c", seed="82219", epoch_ns=1_767_225_600_000_000_000, options={"workers": 4}, fathom="0.1.0"
)
POST = Ask("POST", "/api/v1/pods?dryRun=All", b'{"a":1}', (("fathom-fence", "ns/name/3"), ("x", "y")))


def tell(tape: DiskTape, *, run: int = 1, chunks: int = 3) -> None:
    birth = msgspec.structs.replace(BIRTH, incarnation=run)
    tape.append(Input.START, 0, now_ns=0, status=0, checksum=0, payload=msgspec.json.encode(birth))
    tape.asked(1, POST, now_ns=5, checksum=POST.checksum())
    tape.append(Input.REPLY, 1, now_ns=10, status=201, checksum=POST.checksum(), payload=b"{}")
    for number in range(chunks):
        tape.append(Input.CHUNK, 2, now_ns=20 + number, status=0, checksum=0, payload=b"%d\n" % number)


def told(chunks: int = 3) -> list[Record]:
    crc = POST.checksum()
    return [
        Record(Input.START, 0, 0, 0, 0, msgspec.json.encode(BIRTH)),
        Record(ASK, 1, 5, 0, crc, b"POST /api/v1/pods?dryRun=All 7"),
        Record(Input.REPLY, 1, 10, 201, crc, b"{}"),
        *(Record(Input.CHUNK, 2, 20 + number, 0, 0, b"%d\n" % number) for number in range(chunks)),
    ]


def test_records_are_read_back_as_they_were(tmp_path: Path) -> None:
    tape = DiskTape(tmp_path)
    tell(tape)
    (reel,) = reels(tmp_path)
    assert list(reel.records()) == told()  # While it is being recorded.
    tape.close()
    assert list(reel.records()) == told()
    assert (reel.birth(), reel.last_ns()) == (BIRTH, 22)
    assert (tape.records, tape.lost) == (6, 0)


def test_a_tape_as_it_is_has_no_records_that_come_later(tmp_path: Path) -> None:
    tape = DiskTape(tmp_path)
    tell(tape)
    (reel,) = reels(tmp_path)
    now = reel.as_it_is()
    tape.append(Input.CHUNK, 2, now_ns=30, status=0, checksum=0, payload=b"later\n")
    assert list(now.records()) == told()
    assert list(reel.records())[:-1] == told()
    tape.close()
    assert list(now.records()) == told()


def test_each_start_begins_a_run(tmp_path: Path) -> None:
    tape = DiskTape(tmp_path)
    for run in (1, 2):
        tell(tape, run=run)
    tape.close()
    again = DiskTape(tmp_path)
    tell(again, run=3)
    again.close()
    assert [(reel.run, reel.birth().incarnation) for reel in reels(tmp_path)] == [(1, 1), (2, 2), (3, 3)]


def test_an_ask_is_told_as_far_as_it_was_kept(tmp_path: Path) -> None:
    tape = DiskTape(tmp_path, whole_asks=True)
    tell(tape, chunks=0)
    tape.close()
    (reel,) = reels(tmp_path)
    kept = next(record for record in reel.records() if record.kind == ASK)
    crc = f"{POST.checksum():08x}"
    assert asked(1, kept.checksum, kept.payload) == TapedRequest(
        1, "POST", POST.target, 7, crc, ("fathom-fence: ns/name/3", "x: y"), '{"a":1}'
    )
    short = told()[1]
    assert asked(1, short.checksum, short.payload) == TapedRequest(1, "POST", POST.target, 7, crc)


def test_a_checksum_is_of_all_that_is_sent() -> None:
    others = [
        msgspec.structs.replace(POST, method="PUT"),
        msgspec.structs.replace(POST, target="/api/v1/pods"),
        msgspec.structs.replace(POST, body=b'{"a":2}'),
        msgspec.structs.replace(POST, headers=(("fathom-fence", "ns/name/4"), ("x", "y"))),
        msgspec.structs.replace(POST, headers=()),
    ]
    assert len({POST.checksum(), *(other.checksum() for other in others)}) == 6
    assert msgspec.structs.replace(POST, body={"a": 1}).checksum() == POST.checksum()


def many(directory: Path, chunks: int) -> None:
    tape = DiskTape(directory, budget_bytes=32 * 1024)
    tell(tape, chunks=chunks)
    tape.close()


def test_a_run_with_a_hole_ends_before_it(tmp_path: Path) -> None:
    many(tmp_path, 500)
    files = sorted(tmp_path.glob("*.seg"))
    assert len(files) > 2
    files[1].unlink()
    (reel,) = reels(tmp_path)
    read = list(reel.records())
    assert read == told(500)[: len(read)]
    assert 10 < len(read) < 400


def test_a_run_whose_beginning_is_gone_is_no_run(tmp_path: Path) -> None:
    many(tmp_path, 500)
    min(tmp_path.glob("*.seg")).unlink()
    assert reels(tmp_path) == []


def test_a_run_is_exported_into_one_file_and_read_from_it(tmp_path: Path) -> None:
    many(directory_of(tmp_path, "scheduler"), 500)
    copy = tmp_path / "x.tape"
    export(tmp_path, copy)
    (reel,) = reels(copy)
    assert list(reel.records()) == told(500)
    with pytest.raises(BadTape, match="exists already"):
        export(tmp_path, copy)
    copy.write_bytes(copy.read_bytes()[:-50])  # A copy that was cut short.
    (reel,) = reels(copy)
    read = list(reel.records())
    assert read == told(500)[: len(read)]
    assert len(read) > 100


def test_an_export_says_what_it_cannot_find(tmp_path: Path) -> None:
    with pytest.raises(BadTape, match="no tapes in"):
        export(tmp_path, tmp_path / "x")
    for name in ("agent", "scheduler"):
        many(directory_of(tmp_path, name), 1)
    with pytest.raises(BadTape, match="choose a process: agent, scheduler"):
        export(tmp_path, tmp_path / "x")
    with pytest.raises(BadTape, match="there is no run 7 of agent"):
        export(tmp_path, tmp_path / "x", process="agent", run=7)


def test_the_shelf_shows_every_tape_and_who_is_recording(tmp_path: Path) -> None:
    assert shelf_of(tmp_path) == []
    many(directory_of(tmp_path, "agent"), 1)
    tape = DiskTape(directory_of(tmp_path, "scheduler"))
    tell(tape)
    agent, scheduler = shelf_of(tmp_path)
    tape.close()
    assert (agent.process, agent.recording, scheduler.process, scheduler.recording) == (
        "agent",
        False,
        "scheduler",
        True,
    )
    (run,) = scheduler.runs
    assert (run.run, run.entry, run.since) == (1, "a.b:c", "2026-01-01T00:00:00.000000Z")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"hello, this is not one of our files at all", "not a fathom recording"),
        (SegmentHeader(JOURNAL, 1, 0, 1).encode(), "does not contain the start of a process"),
    ],
)
def test_a_file_that_is_no_tape_is_said(tmp_path: Path, content: bytes, complaint: str) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    with pytest.raises(BadTape, match=complaint):
        reels(file)


def test_a_tape_from_the_future_is_refused_and_not_guessed_at(tmp_path: Path) -> None:
    from fathom.record.ring import Ring
    from fathom.record.segment import TAPE

    ring = Ring(tmp_path, TAPE, budget_bytes=64 * 1024)
    ring.begin()
    ring.append(bytes([6, 1]) + bytes(22))
    ring.close()
    (reel,) = reels(tmp_path)
    with pytest.raises(BadTape, match="unknown flags \\(0x1\\)"):
        list(reel.records())
