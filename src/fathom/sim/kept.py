"""What can be said of a kept run at a glance, before any code is loaded that a patch might want to change."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

FORMAT = "fathom.dev/sim-run/1"


# A longer patch is named, and not kept: the file has other things to hold.
PATCH_BYTES_MAX = 64 << 10


class Patch(msgspec.Struct, frozen=True):
    """The patch that was in force. Its text is here for whoever does not have the file: to read, and to run
    where that is asked for. What is sent around is not run unasked."""

    file: str
    sha256: str
    text: str = ""  # '' where it was too long.


class Head(msgspec.Struct, frozen=True):
    format: str
    patch: Patch | None = None


class NotAnArtifact(Exception):
    """One line: what is wrong with the file."""


def is_artifact(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return FORMAT.rpartition("/")[0].encode() in opened.read(200)
    except OSError:
        return False


def head_of(file: Path) -> Head:
    try:
        head = msgspec.json.decode(file.read_bytes(), type=Head)
    except OSError as error:
        raise NotAnArtifact(f"cannot read {file}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAnArtifact(f"{file} is not a recorded run: {error}") from None
    if head.format != FORMAT:
        raise NotAnArtifact(f"{file} has format {head.format!r}; this fathom reads {FORMAT!r}")
    return head


def patch_of(file: Path) -> Patch:
    raw = file.read_bytes()
    text = raw.decode(errors="replace") if len(raw) <= PATCH_BYTES_MAX else ""
    return Patch(str(file), hashlib.sha256(raw).hexdigest(), text)
