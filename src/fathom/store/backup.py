"""Backup and restore of a SQLite store.

A backup is one consistent file, taken while the server runs, verified before it gets its name. A restored
store raises its revision by a large step and forgets its history: any revision that a client holds from after
the backup is then below the floor, so its watch gets a 410 and lists again, instead of silently missing the
lost changes; and no revision number is ever used twice.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from fathom.store import sqlite_file, sqlite_log
from fathom.store.unusable import StoreDamaged, StoreUnwritable
from fathom.store.verify import Verified, verify

# More commits than can have happened since any backup worth restoring: a day at ten thousand a second.
# etcd's documentation advises the same number.
RESTORE_LEAP = 1_000_000_000


def backup(data_dir: Path, file: Path) -> Verified:
    if file.exists():
        raise StoreUnwritable(f"{file} exists already: choose another name")
    draft = file.with_name(f"{file.name}.partial")
    try:
        _copy(data_dir / sqlite_file.DATABASE, draft)
        verified = _check_sound(draft)
        sqlite_file.put_in_place(draft, file)
    finally:
        draft.unlink(missing_ok=True)
    return msgspec.structs.replace(verified, path=str(file))


def restore(file: Path, data_dir: Path) -> Verified:
    """Refuses a directory that holds a store, or that a server uses."""
    sqlite_file.prepare_directory(data_dir)
    lock = sqlite_file.DirectoryLock(data_dir)
    path = data_dir / sqlite_file.DATABASE
    draft = path.with_suffix(".restored")
    try:
        if path.exists() or sqlite_file.leftover(path):
            raise StoreUnwritable(
                f"{data_dir} holds a store already: move it away, or choose another directory"
            )
        _copy(file, draft)
        _check_sound(draft)
        _raise_revision(draft)
        sqlite_file.adopt_format(data_dir)
        sqlite_file.put_in_place(draft, path)
    finally:
        draft.unlink(missing_ok=True)
        lock.release()
    return verify(data_dir)


def raise_revision(data_dir: Path, above: int) -> int:
    """Raise the revision of a store that no server uses above this one, and forget its history. The newest
    revision."""
    lock = sqlite_file.DirectoryLock(data_dir)
    file = data_dir / sqlite_file.DATABASE
    try:
        with closing(sqlite_file.connect(file)) as connection, sqlite_file.Translated(file):
            newest = max(sqlite_log.bounds(connection)[0], above + 1)
            while sqlite_log.sweep(connection, newest):
                pass
    finally:
        lock.release()
    return newest


def _copy(source: Path, draft: Path) -> None:
    """All of the source as it was at one moment, in one file without a write-ahead log."""
    sqlite_file.create_private(draft)
    with closing(sqlite_file.connect(source, read_only=True)) as reader, sqlite_file.Translated(draft):  # noqa: SIM117
        with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
            reader.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")


def _check_sound(draft: Path) -> Verified:
    verified = verify(draft)
    if not verified.sound:
        raise StoreDamaged(
            f"the copy is damaged ({verified.problems[0]}): check the source with `fathom store verify`"
        )
    return verified


def _raise_revision(draft: Path) -> None:
    with closing(sqlite_file.connect(draft)) as connection, sqlite_file.Translated(draft):
        revision, _ = sqlite_log.bounds(connection)
        while sqlite_log.sweep(connection, revision + RESTORE_LEAP):
            pass
        connection.execute("PRAGMA journal_mode = WAL")
