"""What only the SQLite engine has: a disk that fills up, files that rot, a second process, groups."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sqlite3
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from tests.store.engines import body, bounds_of, put, writes

from fathom.model.body import Body
from fathom.store import sqlite_file
from fathom.store.protocol import (
    BadCommit,
    Batch,
    Committed,
    Compacted,
    Conflict,
    Delete,
    Entry,
    Expect,
    Page,
    Put,
    StoreUnavailable,
    Unknown,
)
from fathom.store.sqlite import BODY_BYTES_MAX, QUEUED_COMMITS_MAX, SqliteStore
from fathom.store.unusable import StoreDamaged, StoreForeign, StoreLocked, StoreUnusable, StoreUnwritable
from fathom.store.verify import verify

T = TypeVar("T")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(data_dir: Path) -> SqliteStore:
    return SqliteStore.open(data_dir)


async def committed(store: SqliteStore, **values: object) -> int:
    outcome = await store.commit((), writes(**values))
    assert isinstance(outcome, Committed)
    return outcome.revision


@contextmanager
def held(data_dir: Path) -> Iterator[None]:
    """The disk stands still: nothing can be written, everything can be read."""
    with closing(sqlite3.connect(data_dir / sqlite_file.DATABASE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def until_writing(store: SqliteStore) -> None:
    """The first commit is with the writer, so that those that come now are another group."""
    async with asyncio.timeout(20):
        while not store._writing.committers:
            await asyncio.sleep(0)


async def until_queued(store: SqliteStore, count: int) -> None:
    async with asyncio.timeout(20):
        while len(store._queued.committers) < count:
            await asyncio.sleep(0)


# Groups


async def test_commits_that_come_together_share_a_transaction(store: SqliteStore) -> None:
    statements: list[str] = []
    store._writer.set_trace_callback(statements.append)
    outcomes = await asyncio.gather(*(store.commit((), [put(f"/k{n}")]) for n in range(200)))
    assert [outcome for outcome in outcomes if not isinstance(outcome, Committed)] == []
    assert [statement[:15] for statement in statements] == ["INSERT INTO log"]


async def test_while_a_group_is_written_the_next_one_gathers(store: SqliteStore, data_dir: Path) -> None:
    statements: list[str] = []
    store._writer.set_trace_callback(statements.append)
    with held(data_dir):
        first = asyncio.ensure_future(store.commit((), writes(a=1)))
        await until_writing(store)
        others = [asyncio.ensure_future(store.commit((), [put(f"/k{n}")])) for n in range(50)]
        await until_queued(store, 50)
        assert not first.done()
    await asyncio.gather(first, *others)
    assert len(statements) == 2


async def test_what_is_not_durable_yet_cannot_be_seen(store: SqliteStore, data_dir: Path) -> None:
    revision = await committed(store, a=1)
    a1 = Entry("/a", body(1), revision, revision)
    watch = store.watch("", after=revision)
    seen = asyncio.ensure_future(anext(watch))
    with held(data_dir):
        pending = asyncio.ensure_future(store.commit((), writes(a=2, b=1)))
        await until_writing(store)
        assert await store.revision() == revision
        assert await store.get("/a") == a1
        assert await store.get("/b") is None
        assert await store.range("") == Page((a1,), revision, more=False)
        assert not seen.done()
    assert await pending == Committed(revision + 1)
    assert len((await seen).changes) == 2


async def test_answers_wait_for_what_they_rest_on(store: SqliteStore, data_dir: Path) -> None:
    """A conflict with a commit that may yet fail would name something that never was."""
    revision = await committed(store, a=1)
    with held(data_dir):
        first = asyncio.ensure_future(store.commit([Expect("/a", revision)], writes(a=2)))
        await until_writing(store)
        conflict = asyncio.ensure_future(store.commit([Expect("/a", revision)], writes(a=3)))
        nothing = asyncio.ensure_future(store.commit([Expect("/a", revision + 1)], [Delete("/gone")]))
        onward = asyncio.ensure_future(store.commit([Expect("/a", revision + 1)], writes(a=4)))
        await until_queued(store, 1)  # The last of the three.
        assert not any(answer.done() for answer in (first, conflict, nothing, onward))
    assert await first == Committed(revision + 1)
    assert await conflict == Conflict({"/a": Entry("/a", body(2), revision + 1, revision)}, revision + 1)
    assert await nothing == Committed(revision + 1)
    assert await onward == Committed(revision + 2)


async def test_a_committer_that_is_cancelled_does_not_disturb_the_others(store: SqliteStore) -> None:
    tasks = [asyncio.ensure_future(store.commit((), [put(f"/k{n}")])) for n in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Committed, asyncio.CancelledError, Committed]
    assert await store.revision() == 4


@pytest.mark.parametrize("tight", ["sqlite", "sqlite-tight"])
async def test_a_cache_that_watches_has_a_commit_before_its_committer_goes_on(
    store: SqliteStore, tight: str
) -> None:
    seen: dict[str, int] = {}

    async def follow() -> None:
        async for batch in store.watch("", after=1):
            seen.update((change.key, change.revision) for change in batch.changes)

    following = asyncio.ensure_future(follow())
    await asyncio.sleep(0)

    async def write(number: int) -> None:
        outcome = await store.commit((), [put(f"/k{number}")])
        assert outcome == Committed(seen[f"/k{number}"])

    with bounds_of(tight):
        for _ in range(5):
            await asyncio.gather(*(write(number) for number in range(20)))
    following.cancel()


@pytest.mark.slow
async def test_a_queue_that_outgrows_the_disk_is_refused(store: SqliteStore, data_dir: Path) -> None:
    with held(data_dir):
        first = asyncio.ensure_future(store.commit((), writes(a=1)))
        await until_writing(store)
        full = [asyncio.ensure_future(store.commit((), [put("/b")])) for _ in range(QUEUED_COMMITS_MAX)]
        await until_queued(store, QUEUED_COMMITS_MAX)
        with pytest.raises(StoreUnavailable, match="wait for the disk"):
            await store.commit((), writes(c=1))
    assert await first == Committed(2)
    assert await full[-1] == Committed(2 + QUEUED_COMMITS_MAX)


async def test_a_huge_body_is_refused_alone(store: SqliteStore) -> None:
    huge = Body(encoded=b" " * (BODY_BYTES_MAX + 1))
    with pytest.raises(BadCommit, match="/huge has 67108865 bytes"):
        await store.commit((), [Put("/huge", huge)])
    assert await committed(store, a=1) == 2


# Memory


@pytest.mark.slow
async def test_bodies_are_shared_with_those_who_hold_them_and_else_not_kept(data_dir: Path) -> None:
    with bounds_of("sqlite-tight"):
        store = SqliteStore.open(data_dir)
        kept, dropped = body("kept"), body("dropped")
        await store.commit((), [Put("/kept", kept), Put("/dropped", dropped)])
        gone = weakref.ref(dropped)
        del dropped
        for number in range(5):  # Push both out of the tail for watches.
            await store.commit((), [put("/x", number), put("/y", number)])
        gc.collect()
        entry = await store.get("/kept")
        assert entry is not None
        assert entry.body is kept
        assert gone() is None
        again = await store.get("/dropped")
        assert again == Entry("/dropped", body("dropped"), 2, 2)
        found = (await store.range("/")).entries
        assert found[0].body is again.body
        assert found[1].body is kept
        await store.close()


async def test_a_conflict_and_a_watch_read_from_disk_what_nobody_holds(data_dir: Path) -> None:
    store = SqliteStore.open(data_dir)
    await committed(store, a=1, b=1)
    await store.close()
    store = SqliteStore.open(data_dir)
    watch = store.watch("", after=2)
    old = Entry("/a", body(1), 2, 2)
    assert await store.commit([Expect("/a", 9), Expect("/c", 0)], writes(a=2)) == Conflict(
        {"/a": old, "/c": None}, 2
    )
    await committed(store, a=2, b=None)
    batch: Batch = await anext(watch)
    assert [change.previous for change in batch.changes] == [old, Entry("/b", body(1), 2, 2)]
    await store.close()


# A disk that does not take it


async def test_a_full_disk_refuses_commits_and_they_work_again_when_there_is_room(
    store: SqliteStore, data_dir: Path
) -> None:
    await committed(store, a=1)
    store._writer.execute("PRAGMA max_page_count = 10")
    filling = [store.commit((), [put(f"/fill/{n}", "x" * 3000)]) for n in range(20)]
    filled = [await asyncio.gather(commit, return_exceptions=True) for commit in filling]
    refused = [outcome for (outcome,) in filled if not isinstance(outcome, Committed)]
    assert 0 < len(refused) < 20
    assert {type(outcome) for outcome in refused} == {StoreUnavailable}
    assert str(refused[0]).startswith("nothing was written: no space left to write ")
    revision = await store.revision()
    assert revision == 2 + 20 - len(refused)
    outcomes = await asyncio.gather(
        *(store.commit((), [put(f"/more/{n}", "x" * 9000)]) for n in range(5)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 5
    assert (await store.range("/more")).entries == ()
    assert await store.get("/a") == Entry("/a", body(1), 2, 2)
    store._writer.execute("PRAGMA max_page_count = 100000")
    assert await store.commit([Expect("/a", 2), Expect("/more/0", 0)], writes(a=2)) == Committed(revision + 1)
    assert verify(data_dir).problems == ()


async def test_a_large_commit_that_does_not_fit_leaves_nothing(data_dir: Path) -> None:
    with bounds_of("sqlite-tight"):  # Several statements to a group.
        store = SqliteStore.open(data_dir)
        await committed(store, a=1)
        store._writer.execute("PRAGMA max_page_count = 20")
        large = [put(f"/large/{n}", "x" * 3000) for n in range(30)]
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await store.commit((), large)
        assert verify(data_dir).rows == 1
        assert await store.commit((), large[:3]) == Committed(3)
        assert verify(data_dir).problems == ()
        await store.close()


async def test_what_was_decided_on_top_of_a_refused_commit_is_refused_too(
    store: SqliteStore, data_dir: Path
) -> None:
    await committed(store, a=1)
    store._writer.execute("PRAGMA max_page_count = 20")
    with held(data_dir):
        large = asyncio.ensure_future(store.commit([Expect("/a", 2)], [put("/a", "x" * 200_000)]))
        await until_writing(store)
        on_top = [
            asyncio.ensure_future(store.commit([Expect("/a", 3)], writes(a=3))),
            asyncio.ensure_future(store.commit([Expect("/a", 2)], writes(a=3))),  # Would conflict.
            asyncio.ensure_future(store.commit([Expect("/a", 4)], [Delete("/gone")])),  # Changes nothing.
        ]
        await until_queued(store, 1)  # The first of them; the others wait for it, or for what was before.
    outcomes = await asyncio.gather(large, *on_top, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 4
    assert await store.get("/a") == Entry("/a", body(1), 2, 2)
    assert await store.commit([Expect("/a", 2)], writes(a=3)) == Committed(3)
    assert verify(data_dir).problems == ()


LIMITED_DISK = """
import asyncio, json, resource, sys
from pathlib import Path
from fathom.model.body import Body
from fathom.store.protocol import Committed, Put, StoreUnavailable
from fathom.store.sqlite import SqliteStore

async def fill(store, name):
    done = []
    for number in range(3000):
        try:
            body = Body(obj={"n": number, "x": "x" * 2000})
            outcome = await store.commit((), [Put(f"/{name}/{number}", body)])
        except StoreUnavailable as error:
            return done, str(error)
        assert isinstance(outcome, Committed)
        done.append(outcome.revision)
    return done, ""

async def main():
    store = SqliteStore.open(Path(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    first, refused = await fill(store, "first")
    again, refused_again = await fill(store, "again")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    later, fine = await fill(store, "later")
    found = len((await store.range("/")).entries)
    await store.close()
    print(json.dumps([first, refused, len(again), refused_again, later, fine, found]))

asyncio.run(main())
"""


@pytest.mark.live
def test_writes_that_the_system_refuses_are_refused_and_later_ones_work(data_dir: Path) -> None:
    """The real thing, by a limit on file sizes: write(2) fails in the middle of a transaction."""
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED_DISK, str(data_dir)], capture_output=True, text=True, check=True
    )
    first, refused, again, refused_again, later, fine, found = json.loads(ran.stdout)
    assert len(first) > 50
    assert "nothing was written: cannot use" in refused
    assert "nothing was written: cannot use" in refused_again
    assert fine == ""
    assert found == len(first) + again + len(later)
    assert later == list(range(first[-1] + again + 1, first[-1] + again + len(later) + 1))
    report = verify(data_dir)
    assert (report.keys, report.problems) == (found, ())


async def test_a_sync_that_fails_leaves_the_outcome_unknown(store: SqliteStore) -> None:
    """SQLite has no switch for it, so the writer is made to fail as it would."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
    working = store._append

    def failing(group: object) -> dict[int, Entry]:
        raise error

    store._append = failing  # type: ignore[method-assign]  # see above
    outcomes = await asyncio.gather(
        store.commit((), writes(a=1)), store.commit([Expect("/b", 0)], writes(b=1))
    )
    assert [type(outcome) for outcome in outcomes] == [Unknown, Unknown]
    store._append = working  # type: ignore[method-assign]  # see above
    assert await committed(store, a=2) == 2


async def test_a_writer_that_is_locked_out_refuses_in_the_end(store: SqliteStore, data_dir: Path) -> None:
    store._writer.execute("PRAGMA busy_timeout = 50")
    with held(data_dir):
        first = asyncio.ensure_future(store.commit((), writes(a=1)))
        await until_writing(store)
        queued = asyncio.ensure_future(store.commit((), writes(b=1)))
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await first
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await queued
    assert await committed(store, b=1) == 2
    assert await store.get("/a") is None


# Files


def fill(data_dir: Path) -> Path:
    async def story() -> None:
        store = SqliteStore.open(data_dir)
        for number in range(300):
            await store.commit((), [put(f"/k/{number:03}", "x" * 500)])
        await store.close()

    asyncio.run(story())
    return data_dir / sqlite_file.DATABASE


def read_all(data_dir: Path) -> int:
    async def story() -> int:
        store = SqliteStore.open(data_dir)
        try:
            return len((await store.range("")).entries)
        finally:
            await store.close()

    return asyncio.run(story())


def overwrite(path: Path, start: int, junk: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(junk)


def other_application(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE t (a)")


def newer_schema(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {sqlite_file.SCHEMA + 1}")


def vanish_beside_its_log(path: Path) -> None:
    path.rename(path.with_name("store.db-wal"))


DAMAGES: list[tuple[str, Callable[[Path], object], type[StoreUnusable]]] = [
    ("is missing or empty", lambda path: path.write_bytes(b""), StoreDamaged),
    ("is damaged", lambda path: path.write_bytes(b"no database at all " * 1000), StoreDamaged),
    ("is damaged", lambda path: overwrite(path, 0, b"\0" * 100), StoreDamaged),
    ("is damaged", lambda path: os.truncate(path, path.stat().st_size // 2), StoreDamaged),
    ("is damaged", lambda path: overwrite(path, 40_960, os.urandom(40_960)), StoreDamaged),
    ("is not a fathom store", other_application, StoreForeign),
    (f"has schema {sqlite_file.SCHEMA + 1}", newer_schema, StoreForeign),
    ("is missing, but its write-ahead log exists", vanish_beside_its_log, StoreDamaged),
]


@pytest.mark.parametrize(("message", "damage", "kind"), DAMAGES)
def test_a_database_that_is_not_what_was_written_is_one_clear_line(
    data_dir: Path, message: str, damage: Callable[[Path], object], kind: type[StoreUnusable]
) -> None:
    damage(fill(data_dir))
    with pytest.raises(kind) as raised:
        read_all(data_dir)
    text = str(raised.value)
    assert message in text
    assert "\n" not in text
    assert str(data_dir) in text
    with pytest.raises(kind):  # The lock was let go of: not "in use".
        read_all(data_dir)


def test_one_changed_byte_in_a_body_is_noticed(data_dir: Path) -> None:
    path = fill(data_dir)
    assert read_all(data_dir) == 300
    content = path.read_bytes()
    overwrite(path, content.rindex(b"xxxx"), b"y")
    with pytest.raises(StoreDamaged, match=r"the body of /k/\d+ at revision \d+ fails its checksum"):
        read_all(data_dir)


def test_a_directory_that_cannot_be_made_or_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnwritable, match=r"cannot use .*Not a directory"):
        SqliteStore.open(tmp_path / "file" / "data")
    with pytest.raises(StoreUnwritable, match="cannot use"):
        SqliteStore.open(Path("/proc/fathom"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    with pytest.raises(StoreUnwritable, match="is not writable"):
        SqliteStore.open(tmp_path / "data")


@pytest.mark.live
async def test_a_second_process_is_told_who_has_the_directory(store: SqliteStore, data_dir: Path) -> None:
    with pytest.raises(StoreLocked, match=f"is in use by process {os.getpid()}: stop that process"):
        SqliteStore.open(data_dir)
    attempt = "import sys; from pathlib import Path; from fathom.store.sqlite import SqliteStore as S; "
    attempt += "S.open(Path(sys.argv[1]))"
    ran = subprocess.run(
        [sys.executable, "-c", attempt, str(data_dir)], capture_output=True, text=True, check=False
    )
    assert f"StoreLocked: {data_dir} is in use by process {os.getpid()}" in ran.stderr
    assert await committed(store, a=1) == 2


@pytest.mark.live
def test_a_lock_left_by_a_dead_process_does_not_hold(data_dir: Path) -> None:
    die = "import os, sys; from pathlib import Path; from fathom.store.sqlite import SqliteStore as S; "
    die += "S.open(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", die, str(data_dir)], check=False)
    assert (data_dir / "lock").exists()
    assert read_all(data_dir) == 0


async def test_a_watch_that_catches_up_gets_bounded_batches(store: SqliteStore, data_dir: Path) -> None:
    for number in range(3):
        await asyncio.gather(*(store.commit((), [put(f"/k{n}", number)]) for n in range(400)))
    await store.close()
    store = SqliteStore.open(data_dir)
    sizes = []
    async for batch in store.watch("", after=1):
        sizes.append(len(batch.changes))
        if batch.revision == 1201:
            break
    assert sizes == [512, 512, 176]
    await store.close()


async def test_the_database_is_private_durable_and_write_ahead(store: SqliteStore, data_dir: Path) -> None:
    pragmas = {
        name: store._writer.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous")
    }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2}
    assert data_dir.stat().st_mode & 0o777 == 0o700


# Compaction on disk


class Overtaken(SqliteStore):
    """Between deciding to read and reading, compaction passes by."""

    overtaking = False

    async def _read(self, work: Callable[..., T], *args: object) -> T:
        if self.overtaking:
            self.overtaking = False
            await self.compact(await self.revision())
        return await super()._read(work, *args)


async def test_a_read_that_compaction_overtakes_is_refused_or_done_again(data_dir: Path) -> None:
    """Never answered with the holes that compaction left."""
    store = Overtaken.open(data_dir)
    await committed(store, a=1, b=1)
    await committed(store, a=2, b=None)
    store.overtaking = True
    with pytest.raises(Compacted):
        await store.range("", revision=2)
    await committed(store, a=3)
    await committed(store, a=4, c=1)
    store.overtaking = True
    found = await store.range("")
    assert [(entry.key, entry.revision) for entry in found.entries] == [("/a", 5), ("/c", 5)]
    await store.close()


async def test_a_watch_that_compaction_overtakes_is_refused(data_dir: Path) -> None:
    with bounds_of("sqlite-tight"):
        store = Overtaken.open(data_dir)
        for number in range(6):
            await committed(store, a=number, b=None if number % 2 else number)
        watch = store.watch("", after=2)
        store.overtaking = True
        with pytest.raises(Compacted):
            await anext(watch)
        await store.close()


async def test_compaction_gives_rows_back_and_survives_being_interrupted(data_dir: Path) -> None:
    with bounds_of("sqlite-tight"):
        store = SqliteStore.open(data_dir)
        for number in range(20):
            await committed(store, a=number, b=number)
        end = await committed(store, a=None)
        compaction = asyncio.ensure_future(store.compact(end))
        await asyncio.sleep(0)
        compaction.cancel()  # After the first bite or so.
        await asyncio.gather(compaction, return_exceptions=True)
        await store.close()
        store = SqliteStore.open(data_dir)
        assert verify(data_dir).problems == ()
        last = await committed(store, c=1)
        await store.compact(last)
        report = verify(data_dir)
        assert (report.rows, report.keys, report.floor, report.revision) == (2, 2, last, last)
        assert report.problems == ()
        await store.close()
