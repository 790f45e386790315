"""The format of a data directory: which fathom can use what is in it.

`data-format.json` names the format, and the fathom that first wrote it:

    {"format":1,"fathom":"0.1.0"}

Every command that uses a data directory looks there first. A directory with a newer format is refused and
left as it is. One without the file was written before there were formats (format 0), or is new.

Who changes what a directory holds, so that an older fathom would misread it, raises FORMAT and adds a step to
`adopt` that brings older directories up to it. A step must be repeatable: it may be interrupted, and the file
is written last.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from fathom import __version__, private_files

MARKER = "data-format.json"

# 0: before there was a marker; store, journals, tapes, keys and records of pods are the same as in 1.
FORMAT = 1


class UnknownFormat(Exception):
    """A directory that this fathom must not use; the message is one line that says what to do."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}: {advice}")
        self.problem = problem
        self.advice = advice


class Marker(msgspec.Struct, frozen=True):
    """Later formats may add fields, and must keep these two: older fathoms read them."""

    format: int
    fathom: str


def check(data: Path) -> int:
    """The format of the directory, 0 if it names none. Changes nothing. Raises UnknownFormat, OSError."""
    file = data / MARKER
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return 0
    try:
        marker = msgspec.json.decode(content, type=Marker)
    except msgspec.DecodeError as error:
        ours = _marker().decode().strip()
        raise UnknownFormat(
            f"{file} is damaged ({error})", f"restore it; this fathom would write {ours}"
        ) from error
    if marker.format > FORMAT:
        raise UnknownFormat(
            f"{data} was written by fathom {marker.fathom} (format {marker.format}), "
            f"and fathom {__version__} reads only up to format {FORMAT}",
            f"use fathom {marker.fathom} or newer, or another directory",
        )
    return marker.format


def adopt(data: Path) -> None:
    """Bring an existing directory to our format, and mark it. Raises UnknownFormat, OSError."""
    if check(data) == FORMAT:
        return
    # Several processes may do this at once: each writes a file of its own, and the last rename wins.
    beside = data / f".{MARKER}.{os.getpid()}"
    private_files.write_private(beside, _marker())
    beside.replace(data / MARKER)


def _marker() -> bytes:
    return msgspec.json.encode(Marker(FORMAT, __version__)) + b"\n"
