"""Files and directories that only their owner may read, whatever the umask is.

A file gets its mode when it is created, not afterwards: in between another user could open it. Every file
that holds objects, keys or tokens is written through this module or with the same flags.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

OTHERS = 0o077  # Every right of group and world.


# Our files directly in a data directory. Other files there may be the user's: `--data .` is allowed.
OURS = (
    "store.db",
    "store.db-wal",
    "store.db-shm",
    "tokens.csv",
    "kubeconfig",
    "gateway.json",
    "data-format.json",
)


class NotOurs(Exception):
    """A directory that another user controls; the message is one line that says what to do."""


def create(path: Path) -> int:
    """Open a new file for writing. An existing file of that name is removed, never followed or kept."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def open_to_append(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def write(path: Path, content: bytes) -> None:
    """Write the file atomically: a reader sees the old content or the new one, always whole."""
    beside = path.with_name(f".{path.name}.new")
    with os.fdopen(create(beside), "wb") as out:
        out.write(content)
    beside.replace(path)


def write_private(path: Path, content: bytes) -> None:
    """Like `write`, and durable: after a power cut the old file or the new one is there."""
    beside = path.with_name(f".{path.name}.new")
    with os.fdopen(create(beside), "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def prepare_directory(path: Path) -> list[str]:
    """Make the directory if it is missing; remove the rights of group and world to it and to our files
    directly in it. Returns warnings about what it changed. Raises NotOurs, OSError."""
    make_directory(path)
    warnings = []
    before = stat.S_IMODE(path.stat().st_mode)
    if before & OTHERS:
        path.chmod(0o700)
        warnings.append(
            f"other users could access {path} (mode {before:04o}): mode set to 0700, of its files to 0600"
        )
    for name in OURS:
        with contextlib.suppress(FileNotFoundError):
            _tighten(path / name)
    return warnings


def make_directories(path: Path) -> None:
    """Make the directory and its missing parents with mode 0700; `Path.mkdir` leaves parents to the umask."""
    for directory in reversed([directory for directory in (path, *path.parents) if not directory.exists()]):
        directory.mkdir(mode=0o700, exist_ok=True)


def make_directory(path: Path) -> None:
    """Make it if it is missing. Raises NotOurs if another user owns it: an owner can restore every right that
    we remove, and exchange the content."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    mine, link, directory = os.geteuid(), path.lstat(), path.stat()
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in {mine, 0}:
        raise NotOurs(
            f"{path} is a link of user {link.st_uid}, who could change it: choose another directory"
        )
    if directory.st_uid != mine:
        raise NotOurs(
            f"{path} belongs to user {directory.st_uid}, not to user {mine}: "
            "change its owner, or choose another data directory"
        )


def _tighten(file: Path) -> None:
    status = file.lstat()
    if stat.S_ISREG(status.st_mode) and status.st_mode & OTHERS and status.st_uid == os.geteuid():
        file.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS)
