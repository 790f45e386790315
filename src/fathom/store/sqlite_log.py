"""The revision log's SQL. Plain functions over a connection; they run on the store's threads.

Python's sqlite3 releases the GIL at every step of a statement, and beside a busy event loop each return to
Python may wait milliseconds for it. So no statement here yields many rows: a group of commits is one INSERT
with as many VALUES, an answer is one row with a JSON array of the matching rows, and bodies come as one
joined blob that is cut by their lengths. Each body's checksum, seeded with its row's id, proves the cut.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import msgspec

from fathom.model.body import Body
from fathom.store.keys import prefix_end, range_start
from fathom.store.protocol import Batch, Change, Entry, Page

POSITION_BITS = 20
WRITES_MAX = 1 << POSITION_BITS  # A commit's writes are numbered within its revision.

COLUMNS = 5
ROWS_PER_INSERT_MAX = 256  # Longer statements gain nothing more.
BODIES_BYTES_MAX = 4 << 20  # One blob of joined bodies.
HISTORY_CHANGES_MAX = 512  # One batch of a watch that catches up.
HISTORY_BYTES_MAX = 8 << 20  # Of bodies, old and new, unless one commit has more.
SWEEP_ROWS_MAX = 1000  # One step of compaction, a few milliseconds; commits run in between.
HEADS_MAX = 50_000  # One answer of `heads`.


class Damage(Exception):
    """A row differs from what was written."""


class Stub(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A row without its body."""

    key: str
    id: int
    created: int
    crc: int
    size: int


class _PastStub(msgspec.Struct, frozen=True, array_like=True, gc=False):
    row: Stub
    previous: Stub | None


_decode_stubs = msgspec.json.Decoder(list[Stub]).decode
_decode_past = msgspec.json.Decoder(list[_PastStub]).decode
_decode_heads = msgspec.json.Decoder(list[tuple[str, int, int]]).decode
_encode = msgspec.json.Encoder().encode


def revision_of(row_id: int) -> int:
    return row_id >> POSITION_BITS


def last_id(revision: int) -> int:
    return ((revision + 1) << POSITION_BITS) - 1


def checksum(row_id: int, body: bytes) -> int:
    return zlib.crc32(body, row_id & 0xFFFFFFFF)


# Writing


def append(connection: sqlite3.Connection, values: Sequence[Any]) -> None:
    """Rows as one flat sequence of COLUMNS values each; durable on return. All or nothing."""
    step = ROWS_PER_INSERT_MAX * COLUMNS
    if len(values) <= step:
        _insert(connection, values)  # One statement is its own transaction.
        return
    with _transaction(connection):
        for start in range(0, len(values), step):
            _insert(connection, values[start : start + step])


def _insert(connection: sqlite3.Connection, values: Sequence[Any]) -> None:
    rows = len(values) // COLUMNS
    width = 1 << (rows - 1).bit_length()  # Few distinct statements, so that all stay prepared.
    padding = (None,) * ((width - rows) * COLUMNS)
    connection.execute(_insert_sql(width), (*values, *padding))


@lru_cache
def _insert_sql(rows: int) -> str:
    values = ",".join(["(?,?,?,?,?)"] * rows)
    return f"INSERT INTO log SELECT * FROM (VALUES {values}) WHERE column1 IS NOT NULL"


def sweep(connection: sqlite3.Connection, floor: int) -> bool:
    """One step of compaction: delete rows superseded at or before the floor. True while more are left. The
    new floor is written with the first step, so that no reader ever sees a hole."""
    with _transaction(connection):
        swept = connection.execute("SELECT swept FROM bounds").fetchone()[0]
        window = (swept, last_id(floor), SWEEP_ROWS_MAX)
        count, reached = connection.execute(_SWEEP_WINDOW, window).fetchone()
        more = bool(count == SWEEP_ROWS_MAX)
        upto = reached if more else last_id(floor)
        connection.execute(_SWEEP, {"after": swept, "upto": upto})
        connection.execute("UPDATE bounds SET floor = max(floor, ?), swept = max(swept, ?)", (floor, upto))
    return more


_SWEEP_WINDOW = """
SELECT count(*), max(id) FROM (SELECT id FROM log WHERE id > ? AND id <= ? ORDER BY id LIMIT ?)
"""

# Every row in the window supersedes the one before it of the same key; a deletion's own row is deleted too.
_SWEEP = """
DELETE FROM log WHERE id IN (
    SELECT (SELECT max(older.id) FROM log older WHERE older.key = newer.key AND older.id < newer.id)
    FROM log newer NOT INDEXED WHERE newer.id > :after AND newer.id <= :upto
    UNION ALL
    SELECT id FROM log NOT INDEXED WHERE id > :after AND id <= :upto AND created = 0
)
"""


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:  # Some errors have ended it already.
            connection.execute("ROLLBACK")


# Reading


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """All statements within see one state, although compaction may run."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def bounds(connection: sqlite3.Connection) -> tuple[int, int]:
    """(newest revision, floor). The floor counts too: compaction may have removed the newest row itself, if
    it was a deletion."""
    floor = connection.execute("SELECT floor FROM bounds").fetchone()[0]
    newest = connection.execute("SELECT max(id) FROM log").fetchone()[0] or 0
    return max(revision_of(newest), floor, 1), floor


def heads(connection: sqlite3.Connection) -> Iterator[tuple[str, int, int]]:
    """(key, row id, created) of all keys that exist now."""
    after = ""
    while True:
        chunk = _decode_heads(connection.execute(_HEADS, (after, HEADS_MAX)).fetchone()[0])
        yield from chunk
        if len(chunk) < HEADS_MAX:
            return
        after = chunk[-1][0]


_HEADS = """
SELECT json_group_array(json_array(key, id, created)) FROM (
    SELECT key, max(id) AS id, created FROM log INDEXED BY log_by_key
    WHERE key > ? GROUP BY key HAVING created > 0 ORDER BY key LIMIT ?)
"""


def page(connection: sqlite3.Connection, prefix: str, revision: int, limit: int, after: str) -> Page:
    low, high = range_start(prefix, after), prefix_end(prefix)
    where, bound = _key_range(low, high)
    with snapshot(connection):
        sql = _AT.format(where=where)
        unsorted = _stubs(connection, sql, (*bound, last_id(revision), limit + 1 if limit else -1))
        stubs = sorted(unsorted, key=lambda stub: stub.key)  # SQLite does not guarantee an aggregate's order.
        more = bool(limit) and len(stubs) > limit
        stubs = stubs[:limit] if more else stubs
        entries = fetch(connection, stubs)
        remaining = 0
        if more:
            where, bound = _key_range(range_start(prefix, stubs[-1].key), high)
            counted = connection.execute(_COUNT.format(where=where), (*bound, last_id(revision)))
            remaining = counted.fetchone()[0]
    return Page(tuple([entries[stub.id] for stub in stubs]), revision, more, remaining)


# SQLite guarantees that `created`, a bare column beside max(id), comes from the row that has the maximum.
_NEWEST = """
SELECT key, max(id) AS id, created FROM log INDEXED BY log_by_key
WHERE {where} AND id <= ? GROUP BY key HAVING created > 0
"""
_AT = f"""
SELECT json_group_array(json_array(found.key, found.id, found.created, row.crc, length(row.body)))
FROM ({_NEWEST} ORDER BY key LIMIT ?) found CROSS JOIN log row ON row.id = found.id
"""
_COUNT = f"SELECT count(*) FROM ({_NEWEST})"


def history(connection: sqlite3.Connection, prefix: str, after: int, upto: int) -> Batch:
    """The next changes under the prefix, whole commits, each with the entry before it."""
    where, bound = _key_range(prefix, prefix_end(prefix))
    window = (last_id(after), last_id(upto), *bound)
    with snapshot(connection):
        count, reached = connection.execute(
            _WINDOW.format(where=where), (*window, HISTORY_CHANGES_MAX)
        ).fetchone()
        revision = revision_of(reached) if count == HISTORY_CHANGES_MAX else upto
        stubs = _past(connection, where, (last_id(after), last_id(revision), *bound))
        fitting = _fitting(stubs)
        if len(fitting) < len(stubs):
            stubs, revision = fitting, revision_of(fitting[-1].row.id)
        rows = [stub for past in stubs for stub in (past.row, past.previous) if stub and stub.created]
        entries = fetch(connection, rows)
    return Batch(tuple(_changes(stubs, entries)), revision)


_WINDOW = """
SELECT count(*), max(id) FROM (
    SELECT id FROM log NOT INDEXED WHERE id > ? AND id <= ? AND {where} ORDER BY id LIMIT ?)
"""
_PAST = """
SELECT json_group_array(json_array(
    json_array(now.key, now.id, now.created, now.crc, coalesce(length(now.body), 0)),
    CASE WHEN old.created > 0 THEN json_array(old.key, old.id, old.created, old.crc, length(old.body)) END))
FROM (SELECT * FROM log NOT INDEXED WHERE id > ? AND id <= ? AND {where}) now
LEFT JOIN log old ON old.id = (
    SELECT max(id) FROM log INDEXED BY log_by_key WHERE key = now.key AND id < now.id)
"""


def _past(connection: sqlite3.Connection, where: str, window: tuple[Any, ...]) -> list[_PastStub]:
    stubs = _decode_past(connection.execute(_PAST.format(where=where), window).fetchone()[0])
    return sorted(stubs, key=lambda past: past.row.id)


def _fitting(stubs: list[_PastStub]) -> list[_PastStub]:
    """As many whole commits as fit into a batch, and at least one."""
    total = 0
    commit_start = 0  # Where the current commit begins.
    for at, past in enumerate(stubs):
        if revision_of(past.row.id) != revision_of(stubs[commit_start].row.id):
            commit_start = at
        total += past.row.size + (past.previous.size if past.previous else 0)
        if total > HISTORY_BYTES_MAX and commit_start > 0:
            return stubs[:commit_start]
    return stubs


def _changes(stubs: list[_PastStub], entries: dict[int, Entry]) -> Iterator[Change]:
    for past in stubs:
        previous = entries[past.previous.id] if past.previous else None
        yield Change(past.row.key, revision_of(past.row.id), entries.get(past.row.id), previous)


def rows_by_id(connection: sqlite3.Connection, ids: Iterable[int]) -> dict[int, Entry]:
    """Those of the rows that still exist."""
    with snapshot(connection):
        return fetch(connection, _stubs(connection, _BY_ID, (_encode(list(ids)).decode(),)))


_BY_ID = """
SELECT json_group_array(json_array(row.key, row.id, row.created, row.crc, length(row.body)))
FROM json_each(?) wanted CROSS JOIN log row ON row.id = wanted.value
"""


def fetch(connection: sqlite3.Connection, stubs: Iterable[Stub]) -> dict[int, Entry]:
    """The rows with their bodies, by id. Call it within the snapshot of the stubs."""
    entries: dict[int, Entry] = {}
    unique = {stub.id: stub for stub in stubs}
    for chunk in _chunks(unique[row_id] for row_id in sorted(unique)):  # In the order they lie on disk.
        wanted = _encode([stub.id for stub in chunk]).decode()
        joined: bytes = connection.execute(_BODIES, (wanted,)).fetchone()[0] or b""
        start = 0
        for stub in chunk:
            end = start + stub.size
            entries[stub.id] = _entry(stub, joined[start:end])
            start = end
    return entries


_BODIES = """
SELECT CAST(group_concat(row.body, '') AS BLOB)
FROM json_each(?) wanted CROSS JOIN log row ON row.id = wanted.value
"""


def _entry(stub: Stub, body: bytes) -> Entry:
    if checksum(stub.id, body) != stub.crc:
        raise Damage(f"the body of {stub.key} at revision {revision_of(stub.id)} fails its checksum")
    return Entry(stub.key, Body(encoded=body), revision_of(stub.id), stub.created)


def _chunks(stubs: Iterable[Stub]) -> Iterator[list[Stub]]:
    chunk: list[Stub] = []
    size = 0
    for stub in stubs:
        if chunk and size + stub.size > BODIES_BYTES_MAX:
            yield chunk
            chunk, size = [], 0
        chunk.append(stub)
        size += stub.size
    if chunk:
        yield chunk


def _stubs(connection: sqlite3.Connection, sql: str, values: tuple[Any, ...]) -> list[Stub]:
    return _decode_stubs(connection.execute(sql, values).fetchone()[0])


def _key_range(low: str, high: str | None) -> tuple[str, tuple[str, ...]]:
    return ("key >= ?", (low,)) if high is None else ("key >= ? AND key < ?", (low, high))
