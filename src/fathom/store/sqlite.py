"""The store on SQLite: one process, one data directory, durable at every acknowledged commit.

    commit() ──decide──> queued group ──one INSERT, one fsync──> published ──> committers, watches
     (event loop)                       (writer thread)           (event loop)

Commits are decided on the event loop, against a map of every key's newest row; the writer thread only appends
their rows. While it writes one group the next one gathers, so that concurrent commits share an fsync. Until a
group is durable its effects are tentative: later commits are decided on top of them, reads and watches do not
see them, and if the write fails they are dropped together with all commits that were decided on top of them.
"""

from __future__ import annotations

import asyncio
import sqlite3
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from fathom.model.body import Body
from fathom.store import sqlite_file, sqlite_log
from fathom.store.feed import StoreFeed, Watch
from fathom.store.keys import check_commit
from fathom.store.protocol import (
    BadCommit,
    Batch,
    Change,
    Committed,
    Compacted,
    Conflict,
    Entry,
    Expect,
    FutureRevision,
    Outcome,
    Page,
    Put,
    StoreUnavailable,
    Unknown,
    Write,
)
from fathom.store.sqlite_log import POSITION_BITS, checksum, revision_of

T = TypeVar("T")

READERS = 2  # History is read rarely: the API serves current objects from its own memory.
BODY_BYTES_MAX = 64 << 20  # Far above the API's limit, far below SQLite's.
QUEUED_COMMITS_MAX = 20_000  # Two seconds of the fastest load measured: a disk further behind is faulty.


class _Head(msgspec.Struct, gc=False):
    """A key's newest row. Bodies are not kept: those that are still in use elsewhere are found again."""

    id: int
    created: int  # 0: the key was deleted (only among tentative heads).
    body: weakref.ref[Body] | None

    def entry(self, key: str) -> Entry | None:
        body = self.body() if self.body is not None else None
        return None if body is None else Entry(key, body, revision_of(self.id), self.created)


class _Group:
    """Commits that share a transaction, in revision order."""

    __slots__ = ("changes", "committers", "heads", "missing", "others", "revision", "size_bytes", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []  # Rows for the log, flat.
        self.changes: list[Change] = []
        self.heads: list[tuple[str, _Head]] = []  # The heads after the group, one per change.
        self.missing: list[tuple[int, int]] = []  # (index of a change, row id of its previous body).
        self.committers: list[tuple[asyncio.Future[Outcome], int]] = []
        self.others: list[asyncio.Future[None]] = []  # Answers that depend on this group.
        self.size_bytes = 0
        self.revision = 0  # Of its last commit.


class SqliteStore:
    @classmethod
    def open(cls, data_dir: Path) -> Self:
        """Raises subclasses of `StoreUnusable`."""
        sqlite_file.prepare_directory(data_dir)
        lock = sqlite_file.DirectoryLock(data_dir)
        try:
            sqlite_file.adopt_format(data_dir)
            path = data_dir / sqlite_file.DATABASE
            sqlite_file.create_if_absent(path)
            return cls(path, sqlite_file.connect(path), lock)
        except BaseException:
            lock.release()
            raise

    def __init__(self, path: Path, writer: sqlite3.Connection, lock: sqlite_file.DirectoryLock) -> None:
        self._path = path
        self._lock = lock
        self._writer = writer
        self._writer_thread = ThreadPoolExecutor(1, "fathom-store-writer")
        self._reader_threads = ThreadPoolExecutor(READERS, "fathom-store-reader")
        self._idle_readers: list[sqlite3.Connection] = []
        with sqlite_file.Translated(path):
            revision, floor = sqlite_log.bounds(writer)
            self._heads = {key: _Head(row, created, None) for key, row, created in sqlite_log.heads(writer)}
        self._feed = StoreFeed(revision=revision, floor=floor, bounded=True)
        self._assigned = revision  # The newest revision decided; tentative while above the feed's.
        self._tentative: dict[str, _Head] = {}  # Changes to `_heads` by groups not yet durable.
        self._queued = _Group()
        self._writing = _Group()
        self._flush_task: asyncio.Task[None] | None = None
        self._closed = False

    # Reading

    async def revision(self) -> int:
        self._check_open()
        return self._feed.revision

    async def get(self, key: str) -> Entry | None:
        while True:
            self._check_open()
            head = self._heads.get(key)
            if head is None:
                return None
            entry = head.entry(key) or (await self._read(sqlite_log.rows_by_id, (head.id,))).get(head.id)
            if entry is not None:
                return self._shared(entry)
            # Superseded and swept since the head was read: read it again.

    async def range(
        self, prefix: str, *, revision: int | None = None, limit: int = 0, after: str = ""
    ) -> Page:
        while True:
            self._check_open()
            at = self._feed.revision if revision is None else revision
            self._check_retained(at)
            page = await self._read(sqlite_log.page, prefix, at, limit, after)
            if at >= self._feed.floor:
                return msgspec.structs.replace(page, entries=tuple(map(self._shared, page.entries)))
            # 1. we read the floor; 2. compaction raised it above `at`; 3. we read a state with holes.

    def watch(self, prefix: str, *, after: int) -> AsyncIterator[Batch]:
        return Watch(self._feed, prefix, after, self._history)

    def problem(self) -> str:
        return sqlite_file.no_room(self._path)

    def accept_past(self) -> None:
        pass  # It never goes back while it is open.

    async def request_progress(self) -> bool:
        self._check_open()
        return True  # Watches get every commit at once.

    async def _history(self, prefix: str, after: int, upto: int) -> Batch:
        return await self._read(sqlite_log.history, prefix, after, upto)

    def _check_retained(self, revision: int) -> None:
        if revision > self._feed.revision:
            raise FutureRevision(self._feed.revision)
        if revision < self._feed.floor:
            raise Compacted(self._feed.floor)

    def _shared(self, entry: Entry) -> Entry:
        """The entry with the body that is in memory already; else this body is remembered."""
        head = self._heads.get(entry.key)
        if head is None or revision_of(head.id) != entry.revision:
            return entry
        in_memory = head.entry(entry.key)
        if in_memory is None:
            head.body = weakref.ref(entry.body)
        return in_memory or entry

    async def _read(self, work: Callable[..., T], *args: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reader_threads, self._read_now, work, args)

    def _read_now(self, work: Callable[..., T], args: tuple[Any, ...]) -> T:
        """On a reader thread."""
        if self._idle_readers:
            connection = self._idle_readers.pop()
        else:
            connection = sqlite_file.connect(self._path, read_only=True)
        try:
            with sqlite_file.Translated(self._path):
                return work(connection, *args)
        except (sqlite_log.Damage, msgspec.DecodeError) as error:
            raise sqlite_file.damaged(self._path, str(error)) from error
        finally:
            self._idle_readers.append(connection)

    # Writing

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        check_commit(preconditions, writes)
        while True:
            self._check_open()
            if self._unmet(preconditions):
                conflict = await self._conflict(preconditions)
                if conflict is not None:
                    return conflict
            else:
                return await self._commit_decided(writes)

    def _head(self, key: str) -> _Head | None:
        head = self._tentative.get(key)
        if head is None:
            return self._heads.get(key)
        return head if head.created else None

    def _unmet(self, preconditions: Sequence[Expect]) -> bool:
        for expect in preconditions:
            head = self._head(expect.key)
            if (head.id >> POSITION_BITS if head is not None else 0) != expect.revision:
                return True
        return False

    async def _conflict(self, preconditions: Sequence[Expect]) -> Conflict | None:
        """None if a row that is needed was swept meanwhile: the commit is then decided again."""
        revision = self._assigned
        heads = {expect.key: self._head(expect.key) for expect in preconditions}
        current = {key: head.entry(key) if head else None for key, head in heads.items()}
        await self._all_durable()
        absent = {key: head.id for key, head in heads.items() if head and current[key] is None}
        if absent:
            rows = await self._read(sqlite_log.rows_by_id, absent.values())
            if len(rows) < len(absent):
                return None
            current.update((key, rows[row_id]) for key, row_id in absent.items())
        return Conflict(current, revision)

    async def _commit_decided(self, writes: Sequence[Write]) -> Outcome:
        """The preconditions hold; from here to the queue nothing else may run."""
        loop = asyncio.get_running_loop()
        rows = self._rows(writes)
        if not rows:
            revision = self._assigned
            await self._all_durable()
            return Committed(revision)
        if len(self._queued.committers) >= QUEUED_COMMITS_MAX:
            raise StoreUnavailable(f"{QUEUED_COMMITS_MAX} commits wait for the disk: try again later")
        committer: asyncio.Future[Outcome] = loop.create_future()
        self._enqueue(rows, committer)
        if self._flush_task is None:
            self._flush_task = loop.create_task(self._flush())
        return await committer

    def _rows(self, writes: Sequence[Write]) -> list[tuple[Write, _Head | None, bytes | None]]:
        """The writes that change something, encoded. Errors of a single commit are raised here, before it
        joins a group."""
        if len(writes) > sqlite_log.WRITES_MAX:
            raise BadCommit(f"a commit may have at most {sqlite_log.WRITES_MAX} writes, not {len(writes)}")
        rows: list[tuple[Write, _Head | None, bytes | None]] = []
        for write in writes:
            head = self._head(write.key)
            if isinstance(write, Put):
                encoded = write.body.encoded
                if len(encoded) > BODY_BYTES_MAX:
                    raise BadCommit(f"{write.key} has {len(encoded)} bytes, the maximum is {BODY_BYTES_MAX}")
                rows.append((write, head, encoded))
            elif head is not None:
                rows.append((write, head, None))
        return rows

    def _enqueue(
        self, rows: list[tuple[Write, _Head | None, bytes | None]], committer: asyncio.Future[Outcome]
    ) -> None:
        group = self._queued
        group.revision = self._assigned = revision = self._assigned + 1
        row_id = revision << POSITION_BITS
        for write, old, encoded in rows:
            key = write.key
            entry = None
            if isinstance(write, Put):
                created = old.created if old is not None else revision
                entry = Entry(key, write.body, revision, created)
                head = _Head(row_id, created, weakref.ref(write.body))
            else:
                head = _Head(row_id, 0, None)
            previous = None
            if old is not None:
                previous = old.entry(key)
                if previous is None:
                    group.missing.append((len(group.changes), old.id))
            if encoded is None:
                group.values += (row_id, key, 0, 0, None)
            else:
                group.values += (row_id, key, head.created, checksum(row_id, encoded), encoded)
                group.size_bytes += len(encoded)
            group.changes.append(Change(key, revision, entry, previous))
            group.heads.append((key, head))
            self._tentative[key] = head
            row_id += 1
        group.committers.append((committer, revision))

    async def _all_durable(self) -> None:
        """Wait until all commits decided so far are durable: an answer must not depend on one that may still
        be dropped."""
        if self._assigned == self._feed.revision:
            return
        newest = self._queued if self._queued.committers else self._writing
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        newest.others.append(done)
        await done

    async def _flush(self) -> None:
        """Started at the end of the loop's round, so that all commits of that round are in the group."""
        loop = asyncio.get_running_loop()
        while self._queued.committers:
            self._writing, self._queued = self._queued, _Group()
            try:
                previous_entries = await loop.run_in_executor(
                    self._writer_thread, self._append, self._writing
                )
            except Exception as error:  # Whatever it was, every committer must get an answer.
                self._refuse(error)
            else:
                self._publish(self._writing, previous_entries)
        self._flush_task = None

    def _append(self, group: _Group) -> dict[int, Entry]:
        """On the writer thread. The bodies of previous entries are optional: once the rows are durable, no
        error may make the commit look failed."""
        sqlite_log.append(self._writer, group.values)
        if not group.missing:
            return {}
        try:
            return sqlite_log.rows_by_id(self._writer, {row_id for _, row_id in group.missing})
        except (sqlite3.Error, sqlite_log.Damage, msgspec.DecodeError):
            return {}

    def _publish(self, group: _Group, previous_entries: dict[int, Entry]) -> None:
        for index, row_id in group.missing:
            change = group.changes[index]
            group.changes[index] = msgspec.structs.replace(change, previous=previous_entries.get(row_id))
        for key, head in group.heads:
            if head.created:
                self._heads[key] = head
            else:
                del self._heads[key]
            if self._tentative[key] is head:
                del self._tentative[key]
        # Watches first: a cache has a commit before its committer continues.
        self._feed.publish(tuple(group.changes), group.revision, group.size_bytes)
        for committer, revision in group.committers:
            if not committer.done():
                committer.set_result(Committed(revision))
        for waiter in group.others:
            if not waiter.done():
                waiter.set_result(None)

    def _refuse(self, error: Exception) -> None:
        """Nothing of the group was written. Drop all commits that were decided on top of it, too."""
        why = f"nothing was written: {_explained(error, self._path)}"
        failed, self._queued = (self._writing, self._queued), _Group()
        self._tentative.clear()
        self._assigned = self._feed.revision
        if _may_be_on_disk(error):
            for committer, _ in self._writing.committers:
                if not committer.done():
                    committer.set_result(Unknown(f"the disk failed while syncing: {error}"))
        for group in failed:
            waiting: list[asyncio.Future[Any]] = [committer for committer, _ in group.committers]
            for future in waiting + group.others:
                if not future.done():
                    future.set_exception(StoreUnavailable(why))

    # Housekeeping

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self._feed.revision:
            raise FutureRevision(self._feed.revision)
        if revision <= self._feed.floor:
            return
        self._feed.forget(revision)
        more = True
        while more:
            self._check_open()
            more = await self._on_writer(sqlite_log.sweep, self._writer, revision)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._flush_task is not None:
            await asyncio.wait([self._flush_task])
        self._feed.close("the store is closed")
        await self._on_writer(self._close_files)
        self._writer_thread.shutdown(wait=False)

    def _close_files(self) -> None:
        """On the writer thread, when the readers are done."""
        self._reader_threads.shutdown(wait=True)
        for connection in (*self._idle_readers, self._writer):
            connection.close()
        self._lock.release()

    async def _on_writer(self, work: Callable[..., T], *args: Any) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._writer_thread, work, *args)
        except sqlite3.Error as error:
            raise StoreUnavailable(str(sqlite_file.explained(error, self._path))) from error

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")


def _explained(error: Exception, path: Path) -> str:
    return str(sqlite_file.explained(error, path) if isinstance(error, sqlite3.Error) else repr(error))


def _may_be_on_disk(error: Exception) -> bool:
    """Whether a failed commit may still be on disk: after a failed fsync SQLite has dropped the transaction,
    and the next commit overwrites it; but its bytes may have reached the disk, and a crash before that commit
    would bring it back. Every other error comes before the commit's last frame was written whole."""
    return isinstance(error, sqlite3.Error) and "FSYNC" in sqlite_file.error_name(error)
