"""Copies taken while the server runs, stores made from them, and what a verifier finds."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.engines import body, put, writes

from fathom.store import sqlite_file
from fathom.store.backup import RESTORE_LEAP, backup, restore
from fathom.store.protocol import Committed, Compacted, Delete, Entry, Expect
from fathom.store.sqlite import SqliteStore
from fathom.store.sqlite_log import POSITION_BITS
from fathom.store.unusable import StoreDamaged, StoreLocked, StoreUnusable, StoreUnwritable
from fathom.store.verify import Row, Verified, gaps, row_problems, verify


async def filled(data_dir: Path) -> SqliteStore:
    store = SqliteStore.open(data_dir)
    await store.commit((), writes(a=1, b=1))
    await store.commit((), writes(a=2))
    await store.commit((), writes(b=None, c=1))
    return store


@pytest.mark.slow
async def test_a_backup_is_one_moment_of_a_store_that_goes_on(tmp_path: Path) -> None:
    store = await filled(tmp_path / "data")
    states: dict[int, dict[str, object]] = {}

    async def write() -> None:
        for number in range(400):
            # Both or neither: a copy between them would show.
            outcome = await store.commit((), [put("/left", number), put("/right", number)])
            assert isinstance(outcome, Committed)
            states[outcome.revision] = {"/left": number, "/right": number}

    writing = asyncio.ensure_future(write())
    copies: list[Verified] = []
    while not writing.done():
        file = tmp_path / f"copy{len(copies)}"
        copies.append(await asyncio.to_thread(backup, tmp_path / "data", file))
        await asyncio.sleep(0.01)
    await writing
    await store.close()
    assert len(copies) > 2
    for copy in copies:
        assert (copy.problems, verify(Path(copy.path))) == ((), copy)
        restored = SqliteStore.open(await asyncio.to_thread(restored_at, Path(copy.path)))
        found = {e.key: e.body.obj["value"] for e in (await restored.range("")).entries}
        assert found == {"/a": 2, "/c": 1} | states.get(copy.revision, {})
        await restored.close()
    assert sorted(path.name for path in tmp_path.glob("copy*") if path.is_file()) == sorted(
        Path(copy.path).name for copy in copies
    )


def restored_at(file: Path) -> Path:
    target = file.with_suffix(".restored")
    restore(file, target)
    return target


async def test_a_restored_store_holds_all_and_leaps_beyond_any_revision_handed_out(tmp_path: Path) -> None:
    store = await filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    before = await store.range("")
    lost = await store.commit((), writes(lost=1))
    assert lost == Committed(5)
    await store.close()
    report = restore(tmp_path / "copy", tmp_path / "new")
    leapt = 4 + RESTORE_LEAP
    assert report == Verified(str(tmp_path / "new" / "store.db"), leapt, leapt, 2, 2, ())
    store = SqliteStore.open(tmp_path / "new")
    assert await store.revision() == leapt
    assert (await store.range("")).entries == before.entries
    for known in (2, 4, 5, leapt - 1):  # From before the backup, and from the time that was lost.
        with pytest.raises(Compacted):
            await anext(store.watch("", after=known))
    # What clients know of objects that were not lost still counts.
    assert await store.commit([Expect("/a", 3)], writes(a=3)) == Committed(leapt + 1)
    assert await store.get("/a") == Entry("/a", body(3), leapt + 1, 2)
    batch = await anext(store.watch("", after=leapt))
    assert [(change.key, change.revision) for change in batch.changes] == [("/a", leapt + 1)]
    await store.compact(leapt + 1)
    await store.close()
    assert verify(tmp_path / "new").problems == ()


async def test_a_restore_never_touches_a_store_that_is_there(tmp_path: Path) -> None:
    store = await filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    with pytest.raises(StoreLocked):
        restore(tmp_path / "copy", tmp_path / "data")
    page = await store.range("")
    await store.close()
    with pytest.raises(StoreUnwritable, match="holds a store already"):
        restore(tmp_path / "copy", tmp_path / "data")
    store = SqliteStore.open(tmp_path / "data")
    assert await store.range("") == page
    await store.close()


async def test_a_backup_never_replaces_a_file_and_leaves_no_half_one(tmp_path: Path) -> None:
    store = await filled(tmp_path / "data")
    (tmp_path / "copy").write_text("precious")
    with pytest.raises(StoreUnwritable, match="exists already"):
        backup(tmp_path / "data", tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "precious"
    with pytest.raises(StoreUnusable):
        backup(tmp_path / "data", tmp_path / "no such directory" / "copy")
    await store.close()
    tamper(tmp_path / "data", "UPDATE log SET crc = 0 WHERE created > 0")
    with pytest.raises(StoreDamaged, match="the copy is damaged"):
        backup(tmp_path / "data", tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data"]


async def test_a_damaged_backup_is_not_restored(tmp_path: Path) -> None:
    store = await filled(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "copy")
    await store.close()
    content = (tmp_path / "copy").read_bytes()
    (tmp_path / "copy").write_bytes(content.replace(b'"value":2', b'"value":3'))
    with pytest.raises(StoreDamaged, match="fails its checksum"):
        restore(tmp_path / "copy", tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["lock"]


@pytest.mark.parametrize("path", ["nothing", "empty"])
def test_where_there_is_no_store_there_is_nothing_to_copy(tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreUnusable):
        backup(tmp_path / path, tmp_path / "copy")
    with pytest.raises(StoreUnusable):
        restore(tmp_path / path, tmp_path / "new")


async def test_a_running_store_can_be_verified(tmp_path: Path) -> None:
    store = await filled(tmp_path / "data")
    assert verify(tmp_path / "data") == Verified(str(tmp_path / "data" / "store.db"), 4, 0, 2, 5, ())
    await store.compact(3)
    assert verify(tmp_path / "data") == Verified(str(tmp_path / "data" / "store.db"), 4, 3, 2, 4, ())
    await store.commit((), [Delete("/a"), Delete("/c")])
    await store.compact(5)
    assert verify(tmp_path / "data") == Verified(str(tmp_path / "data" / "store.db"), 5, 5, 0, 0, ())
    await store.close()


def tamper(data_dir: Path, sql: str) -> None:
    with closing(sqlite3.connect(data_dir / sqlite_file.DATABASE, isolation_level=None)) as connection:
        connection.execute(sql)


@pytest.mark.parametrize(
    ("sql", "finding"),
    [
        ("DELETE FROM log WHERE id >> 20 = 3", "rows are missing between revisions 2 and 4"),
        ("DELETE FROM log WHERE id = 2 << 20", "rows are missing between revisions 1 and 2"),
        (
            "UPDATE log SET created = 3 WHERE id >> 20 = 3",
            "/a at revision 3: claims to be created at revision 3, not at 2",
        ),
        (
            "UPDATE log SET created = 2 WHERE key = '/c'",
            "/c at revision 4: claims to be created at revision 2, which has no such row",
        ),
        ("UPDATE log SET created = 0 WHERE id = 2 << 20", "/a at revision 2: a deletion has a body"),
        ("UPDATE log SET key = '/z' WHERE created = 0", "/z at revision 4: deletes a key that did not exist"),
        ("UPDATE log SET body = x'7b7d' WHERE key = '/c'", "/c at revision 4: the body fails its checksum"),
        ("UPDATE log SET body = 'x' WHERE key = '/c'", "row 4194305: "),
        ("UPDATE bounds SET swept = 9 << 20", "rows are compacted up to revision 9, beyond the floor 0"),
        ("UPDATE bounds SET floor = 3, swept = 4 << 20", "the row that it superseded was not compacted"),
    ],
)
async def test_a_verifier_finds_what_no_writer_leaves(tmp_path: Path, sql: str, finding: str) -> None:
    await (await filled(tmp_path / "data")).close()
    tamper(tmp_path / "data", sql)
    found = verify(tmp_path / "data")
    assert not found.sound
    assert any(finding in problem for problem in found.problems), found.problems


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"junk" * 5000),
        lambda path: path.write_bytes(path.read_bytes()[:9000]),
        lambda path: path.write_bytes(path.read_bytes()[:4096] + b"\xff" * (path.stat().st_size - 4096)),
    ],
)
async def test_a_verifier_reports_damage_and_does_not_fail_on_it(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    await (await filled(tmp_path / "data")).close()
    damage(tmp_path / "data" / sqlite_file.DATABASE)
    assert not verify(tmp_path / "data").sound


def ids(*positions: tuple[int, int]) -> list[int]:
    return [(revision << POSITION_BITS) + position for revision, position in positions]


@pytest.mark.parametrize(
    ("found", "swept", "holes"),
    [
        (ids(), 0, 0),
        (ids((2, 0), (2, 1), (3, 0)), 0, 0),
        (ids((3, 0)), 0, 1),
        (ids((2, 1)), 0, 1),
        (ids((2, 0), (2, 2)), 0, 1),
        (ids((2, 0), (4, 0), (6, 0)), 0, 2),
        (ids((7, 0)), (7 << POSITION_BITS) - 1, 0),
        (ids((7, 3)), (7 << POSITION_BITS) + 2, 0),
        (ids((8, 0)), (7 << POSITION_BITS) - 1, 1),
    ],
)
def test_holes_between_revisions(found: list[int], swept: int, holes: int) -> None:
    assert len(list(gaps(iter(found), swept))) == holes


def test_the_first_row_of_a_key_may_be_older_than_its_creation_is_known_only_if_swept() -> None:
    row = Row(5 << POSITION_BITS, "/a", 3, 0, None)
    complaints = [problem for problem in row_problems(row, None, 0) if "created" in problem]
    assert len(complaints) == 1
    assert [problem for problem in row_problems(row, None, row.id) if "created" in problem] == []
