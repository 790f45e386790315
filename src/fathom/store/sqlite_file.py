"""The SQLite database file: its path, lock and permissions, and how it is created and opened.

A data directory holds `store.db` (with SQLite's -wal and -shm beside it) and `lock`. One process holds an
flock on `lock` for as long as it serves; the kernel releases it however that process ends.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TypeVar
from urllib.parse import quote

from fathom import data_format, private_files
from fathom.store.unusable import (
    StoreDamaged,
    StoreForeign,
    StoreLocked,
    StoreUnusable,
    StoreUnwritable,
)

DATABASE = "store.db"
LOCK = "lock"

APPLICATION_ID = 0x66746D31  # "ftm1", so that another application's database is not taken for ours.
SCHEMA = 1

# Of json_group_array and json_each, which every build has had since.
SQLITE_MIN = (3, 38, 0)

# 16 MB of WAL between checkpoints: rare enough not to slow commits, small enough to recover in milliseconds.
WAL_PAGES_MAX = 4000

# Less than this and the next commits fail: a page of the log for each change, and the objects themselves.
ROOM_BYTES_MIN = 256 << 10

_SCHEMA_SQL = f"""
BEGIN;
CREATE TABLE log (
    id INTEGER PRIMARY KEY,    -- revision * 2^20 + position within the commit
    key TEXT NOT NULL,
    created INTEGER NOT NULL,  -- revision that created the key; 0 marks a deletion
    crc INTEGER NOT NULL,      -- of the body, seeded with the id
    body BLOB                  -- NULL in a deletion
);
CREATE INDEX log_by_key ON log (key, id, created);
CREATE TABLE bounds (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    floor INTEGER NOT NULL,    -- reads before this revision are refused
    swept INTEGER NOT NULL     -- superseded rows are gone up to this id
);
INSERT INTO bounds VALUES (1, 0, 0);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA};
COMMIT;
"""

T = TypeVar("T")


class DirectoryLock:
    """An flock, held until `release`."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / LOCK
        self._file = _try_make(
            self._path, lambda: os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        )
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise StoreLocked(
                f"{data_dir} is in use by process {holder}: stop that process, or choose another directory"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._file)


def prepare_directory(data_dir: Path) -> list[str]:
    """Make the directory readable by its owner only. Returns what had to be changed for that."""
    check_format(data_dir)  # First: a directory of a newer fathom is left as it is.
    try:
        warnings = _try_make(data_dir, lambda: private_files.prepare_directory(data_dir))
    except private_files.NotOurs as error:
        raise StoreUnwritable(str(error)) from None
    if not os.access(data_dir, os.R_OK | os.W_OK | os.X_OK):
        raise StoreUnwritable(
            f"{data_dir} is not writable: change its owner or mode, or choose another directory"
        )
    return warnings


def check_format(data_dir: Path) -> None:
    try:
        _try_make(data_dir, lambda: data_format.check(data_dir))
    except data_format.UnknownFormat as error:
        raise StoreForeign(str(error)) from None


def adopt_format(data_dir: Path) -> None:
    """With the lock held: nobody else may use what is being upgraded."""
    check_format(data_dir)
    _try_make(data_dir, lambda: data_format.adopt(data_dir))


def _try_make(path: Path, make: Callable[[], T]) -> T:
    try:
        return make()
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreUnwritable(f"cannot use {path} ({reason}): choose a directory that is writable") from error


def create_if_absent(path: Path) -> None:
    """Created under another name and moved into place when complete: an empty `store.db` is never a new
    store, it is one that lost its content."""
    _refuse_link(path)
    if path.exists():
        return
    if leftover(path):
        raise StoreDamaged(
            f"{path} is missing, but its write-ahead log exists: put the file back, or restore a backup"
        )
    draft = path.with_suffix(".new")
    create_private(draft)
    with Translated(path):
        connection = sqlite3.connect(draft, isolation_level=None)
        connection.executescript("PRAGMA journal_mode = WAL;" + _SCHEMA_SQL)
        connection.close()
    put_in_place(draft, path)


def create_private(draft: Path) -> None:
    """An empty file for its owner alone. SQLite fills it, and gives its mode to the -wal and -shm beside."""
    os.close(_try_make(draft, lambda: private_files.create(draft)))


def _refuse_link(path: Path) -> None:
    """A link could lead to another cluster's store, and SQLite would put its write-ahead log beside that."""
    if path.is_symlink():
        raise StoreForeign(
            f"{path} is a symbolic link: move the store here, or give the directory of the real store"
        )


def leftover(path: Path) -> bool:
    """Whether a write-ahead log is left: SQLite would apply it to whatever database is beside it."""
    return path.with_name(path.name + "-wal").exists()


def put_in_place(draft: Path, path: Path) -> None:
    """Rename so that after a power cut the file is either complete or absent."""
    for target, move in ((draft, True), (path.parent, False)):
        handle = os.open(target, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        if move:
            draft.rename(path)


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection for any one thread at a time. Raises subclasses of `StoreUnusable`, never sqlite3's."""
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        wanted = ".".join(map(str, SQLITE_MIN))
        raise StoreForeign(
            f"SQLite {sqlite3.sqlite_version} is too old: use a Python built with {wanted} or newer"
        )
    if not path.is_file() or path.stat().st_size == 0:
        raise StoreDamaged(f"{path} is missing or empty: restore it with `fathom store restore`")
    with Translated(path):
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode=rw",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=10.0,  # Only a short recovery by a backup or `verify` can block us.
        )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            _check_ours(connection, path)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(
                "PRAGMA secure_delete = OFF"
            )  # Some builds zero what is deleted: twice the I/O.
            connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES_MAX}")
            connection.execute(f"PRAGMA journal_size_limit = {4 * WAL_PAGES_MAX * 4096}")
            if read_only:
                connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
    return connection


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        raise StoreForeign(f"{path} is not a fathom store: choose another data directory")
    schema = connection.execute("PRAGMA user_version").fetchone()[0]
    if schema != SCHEMA:
        raise StoreForeign(
            f"{path} has schema {schema}, this version of fathom reads {SCHEMA}: use the one that wrote it"
        )
    if difference := _not_in_our_schema(connection):
        raise StoreDamaged(
            f"{path} has a schema that fathom did not create ({difference}): correct it, or restore a backup"
        )


def _not_in_our_schema(connection: sqlite3.Connection) -> str:
    """What differs from the schema that fathom creates, '' if nothing does. A trigger, a view or a generated
    column would run foreign SQL inside our commits; an index could hide rows from us."""
    ours, actual = _our_schema(), _schema_of(connection)
    if extra := sorted(actual - ours):
        kind, name, table, sql = extra[0]
        return f"{kind} {name} on {table}: {sql[:200]}" if kind != "table" else f"table {name}: {sql[:200]}"
    if missing := sorted(ours - actual):
        return f"no {missing[0][0]} {missing[0][1]}"
    return ""


@cache
def _our_schema() -> set[tuple[str, str, str, str]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        fresh.executescript(_SCHEMA_SQL)
        return _schema_of(fresh)


def _schema_of(connection: sqlite3.Connection) -> set[tuple[str, str, str, str]]:
    """(type, name, table, SQL); comments and spaces are ignored."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    return {
        (str(kind), str(name), str(table), _without_comments(str(sql))) for kind, name, table, sql in rows
    }


def _without_comments(sql: str) -> str:
    return " ".join(re.sub(r"--[^\n]*", " ", sql).split())


def no_room(path: Path) -> str:
    """Why nothing more can be written there; '' if there is room for some commits."""
    try:
        disk = os.statvfs(path.parent)
    except OSError as error:
        return f"its directory cannot be used: {error.strerror}"
    free = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail  # Some space is reserved for root.
    return "no space left on its disk" if free * disk.f_frsize < ROOM_BYTES_MIN else ""


class Translated:
    """Around any use of a connection: sqlite3's errors become one clear line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, sqlite3.Error):
            raise explained(error, self._path) from error


_DAMAGE = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT"})


def explained(error: sqlite3.Error, path: Path) -> StoreUnusable:
    name = error_name(error)
    if any(name.startswith(damage) for damage in _DAMAGE):
        return damaged(path, str(error))
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN")):
        return StoreUnwritable(f"cannot write {path} ({error}): change its owner or mode")
    if name.startswith("SQLITE_FULL"):
        return StoreUnwritable(f"no space left to write {path}: free some disk space")
    return StoreUnwritable(f"cannot use {path} ({name}: {error}): check the disk")


def damaged(path: Path, problem: str) -> StoreDamaged:
    return StoreDamaged(
        f"{path} is damaged ({problem}): check it with `fathom store verify`, then restore a backup"
    )


def error_name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", None) or type(error).__name__
