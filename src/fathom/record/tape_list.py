"""Lists and exports the tapes of a data directory.

DATA/tapes/PROCESS/    one ring each            DATA/tape/    that of a process which records by itself
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec

from fathom.model.times import micro_timestamp
from fathom.record.segment import NotASegment, packed, segments
from fathom.record.tape import BadTape, Reel, reels

FOLDER, ALONE = "tapes", "tape"


class RunSummary(msgspec.Struct, frozen=True):
    run: int
    entry: str
    incarnation: int
    since: str
    until: str
    stored_bytes: int
    fathom: str
    python: str


class TapeSummary(msgspec.Struct, frozen=True):
    process: str
    recording: bool  # A process is recording to it now.
    stored_bytes: int
    runs: tuple[RunSummary, ...]


class Exported(msgspec.Struct, frozen=True):
    process: str
    run: int


def directory_of(data: Path, process: str) -> Path:
    return data / FOLDER / process


def directories(data: Path) -> dict[str, Path]:
    """Process -> the directory of its tape."""
    alone = {ALONE: data / ALONE} if (data / ALONE).is_dir() else {}
    return alone | {path.name: path for path in sorted((data / FOLDER).glob("*")) if path.is_dir()}


def shelf_of(data: Path) -> list[TapeSummary]:
    return [_tape(path) for path in directories(data).values()]


def _tape(directory: Path) -> TapeSummary:
    run_list = []
    for reel in reels(directory):
        try:
            run_list.append(_run(reel))
        except (BadTape, NotASegment, FileNotFoundError):
            continue  # Killed before its first record was written, or dropped meanwhile.
    stored = sum(run.stored_bytes for run in run_list)
    return TapeSummary(directory.name, _is_held(directory / "lock"), stored, tuple(run_list))


def _run(reel: Reel) -> RunSummary:
    birth = reel.birth()
    return RunSummary(
        run=reel.run,
        entry=birth.entry,
        incarnation=birth.incarnation,
        since=micro_timestamp(birth.epoch_ns),
        until=micro_timestamp(birth.epoch_ns + reel.last_ns()),
        stored_bytes=reel.size_bytes,
        fathom=birth.fathom,
        python=birth.python,
    )


def _is_held(lock: Path) -> bool:
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def export(data: Path, file: Path, *, process: str = "", run: int | None = None) -> Exported:
    """Write one run to one file, every segment packed. Refuses to replace an existing file."""
    tapes = directories(data)
    if not process and len(tapes) != 1:
        raise BadTape(f"choose a process: {', '.join(tapes)}" if tapes else f"no tapes in {data}")
    process = process or next(iter(tapes))
    all_reels = reels(tapes[process]) if process in tapes else []
    matching = [reel for reel in all_reels if run in {None, reel.run}]
    if not matching:
        raise BadTape(f"there is no {'run' if run is None else f'run {run}'} of {process} in {data}")
    write_reel(matching[-1], file)
    return Exported(process, matching[-1].run)


def write_reel(reel: Reel, file: Path) -> None:
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise BadTape(f"{file} exists already") from error
    with os.fdopen(handle, "wb") as copy:
        for path in reel.files:
            for segment in segments(path):
                copy.write(packed(segment))
