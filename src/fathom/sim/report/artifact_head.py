"""The head of a kept run's file, read before any code is loaded that a patch might change."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

FORMAT = "fathom.dev/sim-run/1"

# Far above what a run takes (`artifact.BYTES_MAX`, and its timeline), far below what a memory holds.
FILE_BYTES_MAX = 64 << 20
UNPACKED_BYTES_MAX = 256 << 20

# A longer patch is named, and not kept: the file is for the run.
PATCH_BYTES_MAX = 64 << 10


class PatchHead(msgspec.Struct, frozen=True):
    """The patch that was active. Its text is here for readers who do not have the file: to read, and to run
    if they ask for it. Code from a received file is never run unasked."""

    file: str
    sha256: str
    text: str = ""  # '' where it was too long.


class PlanHead(msgspec.Struct, frozen=True):
    scenario: str = ""  # A built-in one's name, or FILE.py:NAME.


class Head(msgspec.Struct, frozen=True):
    """The fields that decide which code is loaded for a run."""

    format: str
    plan: PlanHead = PlanHead()
    patch: PatchHead | None = None

    @property
    def scenario_file(self) -> str:
        """The source file of the scenario; '' where it is one of fathom's own."""
        file, colon, _ = self.plan.scenario.rpartition(":")
        return file if colon and file.endswith(".py") else ""


class NotAnArtifact(Exception):
    """The message is one line: what is wrong with the file."""


def is_artifact(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return FORMAT.rpartition("/")[0].encode() in opened.read(200)
    except OSError:
        return False


def content_of(file: Path) -> bytes:
    """Raises NotAnArtifact."""
    try:
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise NotAnArtifact(f"cannot read {file}: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise NotAnArtifact(f"{file} is too long for a recorded run: more than {FILE_BYTES_MAX >> 20} MiB")
    return content


def head_of(file: Path) -> Head:
    try:
        head = msgspec.json.decode(content_of(file), type=Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotAnArtifact(f"{file} is not a recorded run: {error}") from None
    if head.format != FORMAT:
        raise NotAnArtifact(f"{file} has format {head.format!r}; this fathom reads {FORMAT!r}")
    return head


def patch_of(file: Path) -> PatchHead:
    raw = file.read_bytes()
    text = raw.decode(errors="replace") if len(raw) <= PATCH_BYTES_MAX else ""
    return PatchHead(str(file), hashlib.sha256(raw).hexdigest(), text)
