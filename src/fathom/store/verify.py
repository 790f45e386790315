"""Checks a store for damage: SQLite's own integrity check, then the rules of the revision log.

Works on a data directory, also while a server uses it, and on a backup file.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fathom.store import sqlite_file, sqlite_log
from fathom.store.sqlite_log import POSITION_BITS, last_id, revision_of
from fathom.store.unusable import StoreDamaged

PROBLEMS_MAX = 20  # A damaged file may have a million; the first ones are enough.


class Verified(msgspec.Struct, frozen=True):
    path: str
    revision: int
    floor: int
    keys: int
    rows: int
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        return not self.problems


class Row(msgspec.Struct, frozen=True, array_like=True):
    id: int
    key: str
    created: int  # 0: a deletion.
    crc: int
    body: bytes | None


def verify(path: Path) -> Verified:
    """Raises `StoreUnusable` only where there is nothing to check."""
    file = path / sqlite_file.DATABASE if path.is_dir() else path
    try:
        connection = sqlite_file.connect(file, read_only=True)
    except StoreDamaged as error:
        return Verified(str(file), 0, 0, 0, 0, (str(error),))
    try:
        return _verified(connection, file)
    except (sqlite3.Error, msgspec.DecodeError) as error:
        return Verified(str(file), 0, 0, 0, 0, (str(error),))
    finally:
        connection.close()


def _verified(connection: sqlite3.Connection, file: Path) -> Verified:
    with sqlite_log.snapshot(connection):
        revision, floor = sqlite_log.bounds(connection)
        rows = connection.execute("SELECT count(*) FROM log").fetchone()[0]
        keys = sum(1 for _ in sqlite_log.heads(connection))
        problems = tuple(itertools.islice(_problems(connection, floor), PROBLEMS_MAX))
    return Verified(str(file), revision, floor, keys, rows, problems)


def _problems(connection: sqlite3.Connection, floor: int) -> Iterator[str]:
    for (finding,) in connection.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})"):
        if finding != "ok":
            yield f"SQLite: {finding}"
    swept = connection.execute("SELECT swept FROM bounds").fetchone()[0]
    if swept > last_id(floor):
        yield f"rows are compacted up to revision {revision_of(swept)}, beyond the floor {floor}"
    ids = connection.execute("SELECT id FROM log WHERE id > ? ORDER BY id", (swept,))
    yield from gaps((row_id for (row_id,) in ids), swept)
    before: Row | None = None
    for values in connection.execute("SELECT id, key, created, crc, body FROM log ORDER BY key, id"):
        try:
            row = msgspec.convert(values, Row)
        except msgspec.ValidationError as error:
            yield f"row {values[0]}: {error}"
            continue
        previous = before if before is not None and before.key == row.key else None
        yield from row_problems(row, previous, swept)
        before = row


def gaps(ids: Iterator[int], swept: int) -> Iterator[str]:
    """After the swept rows, every revision must be there with all its writes, numbered from 0."""
    last = swept if swept else last_id(1)  # An empty store is at revision 1.
    for row_id in ids:
        starts_next = row_id == (revision_of(last) + 1) << POSITION_BITS
        if row_id != last + 1 and not starts_next:
            yield f"rows are missing between revisions {revision_of(last)} and {revision_of(row_id)}"
        last = row_id


def row_problems(row: Row, previous: Row | None, swept: int) -> Iterator[str]:
    """What is wrong with a row, given the one before it of the same key."""
    where = f"{row.key} at revision {revision_of(row.id)}"
    if (row.created == 0) != (row.body is None):
        yield f"{where}: a deletion has a body, or a write has none"
    if row.body is not None:
        yield from _body_problems(row, row.body, where)
    alive = previous is not None and previous.created > 0
    if row.created == 0:
        if not alive:
            yield f"{where}: deletes a key that did not exist"
    elif previous is not None and alive:
        if row.created != previous.created:
            yield f"{where}: claims to be created at revision {row.created}, not at {previous.created}"
    elif row.created != revision_of(row.id) and (row.id > swept or row.created > revision_of(row.id)):
        yield f"{where}: claims to be created at revision {row.created}, which has no such row"
    if previous is not None and row.id <= swept:
        yield f"{where}: the row that it superseded was not compacted"


def _body_problems(row: Row, body: bytes, where: str) -> Iterator[str]:
    if sqlite_log.checksum(row.id, body) != row.crc:
        yield f"{where}: the body fails its checksum"
        return
    try:
        msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        yield f"{where}: the body is not JSON ({error})"
