"""All objects of one store in another: complete, compared, resumed; and what is refused."""

from __future__ import annotations

from asyncio import to_thread
from pathlib import Path

import pytest
from tests.store.engines import EtcdServer, body, put, writes

from fathom.cli.main import run
from fathom.store.memory import MemoryStore
from fathom.store.migrate import (
    COMMIT_KEYS_MAX,
    MIGRATION_KEY,
    Migrated,
    MigrationRefused,
    check_finished,
    compare,
    finish,
    groups,
    migrate,
    raise_revision,
)
from fathom.store.open import open_store
from fathom.store.protocol import BadCommit, Committed, Compacted, Entry, Put, Store
from fathom.store.retention import MARKS_KEY


def quiet(_: str) -> None:
    pass


async def filled(store: Store, count: int = 1203) -> Store:
    for start in range(0, count, 100):
        await store.commit((), [put(f"/registry/x/{n:05}", n) for n in range(start, min(start + 100, count))])
    await store.commit((), [put(MARKS_KEY, "of this store")])
    return store


async def objects(store: Store) -> dict[str, object]:
    entries = (await store.range("/registry/")).entries
    return {entry.key: entry.body.obj["value"] for entry in entries}


async def test_all_objects_are_copied_and_what_a_store_keeps_about_itself_is_not() -> None:
    source, target = await filled(MemoryStore()), MemoryStore()
    migrated = await migrate(source, target, progress=quiet)
    assert migrated == Migrated(1203, 1203, await source.revision(), await target.revision())
    assert await objects(target) == await objects(source)
    assert await target.get(MARKS_KEY) is None
    with pytest.raises(MigrationRefused, match="run the same `fathom store migrate` again"):
        await check_finished(target)
    await finish(target)
    await check_finished(target)


async def test_a_target_with_objects_is_refused_and_stays_as_it_is() -> None:
    source, target = await filled(MemoryStore(), 3), MemoryStore()
    await target.commit((), writes(registry=1))
    with pytest.raises(MigrationRefused, match="the target holds objects already: choose an empty"):
        await migrate(source, target, progress=quiet)
    assert [entry.key for entry in (await target.range("")).entries] == ["/registry"]


class BreaksOff(MemoryStore):
    """Fails at the third commit, as if the machine had gone away."""

    commits = 0

    async def commit(self, preconditions, writes):  # type: ignore[no-untyped-def]
        self.commits += 1
        if self.commits == 3:
            raise ConnectionError
        return await super().commit(preconditions, writes)


async def test_an_interrupted_migration_goes_on_where_it_was() -> None:
    source, target = await filled(MemoryStore()), BreaksOff()
    with pytest.raises(ConnectionError):
        await migrate(source, target, progress=quiet)
    assert len(await objects(target)) == COMMIT_KEYS_MAX
    migrated = await migrate(source, target, progress=quiet)
    assert (migrated.objects, migrated.copied) == (1203, 1203 - COMMIT_KEYS_MAX)
    assert await objects(target) == await objects(source)


async def test_a_source_that_changed_after_an_interruption_is_noticed() -> None:
    source, target = await filled(MemoryStore()), BreaksOff()
    with pytest.raises(ConnectionError):
        await migrate(source, target, progress=quiet)
    await source.commit((), [put("/registry/x/00002", "changed")])
    with pytest.raises(MigrationRefused, match="the target has another /registry/x/00002"):
        await migrate(source, target, progress=quiet)


@pytest.mark.parametrize("change", [put("/registry/x/00001", "changed"), put("/registry/y", 1)])
async def test_stores_that_differ_are_told_with_the_first_difference(change: Put) -> None:
    source, target = await filled(MemoryStore(), 3), await filled(MemoryStore(), 3)
    await compare(source, target)
    await target.commit((), [change])
    with pytest.raises(MigrationRefused, match=f"differ at {change.key}: somebody writes to one of them"):
        await compare(source, target)


async def test_the_targets_revision_ends_above_the_sources() -> None:
    store = MemoryStore()
    assert await raise_revision(store, 1000, progress=quiet) == 1001
    assert await raise_revision(store, 1000, progress=quiet) == 1001


def test_a_commit_takes_as_many_objects_as_etcd_takes() -> None:
    small = [Entry(f"/{n}", body(n), 1, 1) for n in range(250)]
    large = [Entry(f"/{n}", body("x" * 400_000), 1, 1) for n in range(5)]
    assert [len(group) for group in groups(small)] == [100, 100, 50]
    assert [len(group) for group in groups(large)] == [2, 2, 1]
    assert list(groups([])) == []


class TakesLittle(MemoryStore):
    async def commit(self, preconditions, writes):  # type: ignore[no-untyped-def]
        if any(write.key == "/registry/x/00002" for write in writes):
            raise BadCommit("etcd refuses the commit: request is too large")
        return await super().commit(preconditions, writes)


async def test_an_object_that_the_target_does_not_take_is_named() -> None:
    with pytest.raises(MigrationRefused, match="the target does not take /registry/x/00000 and 2 more"):
        await migrate(await filled(MemoryStore(), 3), TakesLittle(), progress=quiet)


# The command


async def migrate_and_check(source: str, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All objects are there, above all revisions of the source, and a watch from the source is told so."""
    opened = await open_store(source)
    expected, before = await objects(opened), await opened.revision()
    await opened.close()
    assert await to_thread(run, ["store", "migrate", source, target]) == 0
    opened = await open_store(target)
    revision = await opened.revision()
    assert capsys.readouterr().out == (
        f"migrated 1,203 objects from {source} to {target}: revision {revision}\n"
        f"start API servers with --store {target}; {source} is unchanged\n"
    )
    assert revision > before
    assert (await objects(opened), await opened.get(MIGRATION_KEY)) == (expected, None)
    with pytest.raises(Compacted):
        await anext(opened.watch("", after=before))
    assert isinstance(await opened.commit((), writes(a=1)), Committed)
    await opened.commit((), writes(a=None))
    await opened.close()


async def test_from_one_data_directory_to_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = f"sqlite:{tmp_path / 'first'}", f"sqlite:{tmp_path / 'second'}"
    await (await filled(await open_store(source))).close()
    await migrate_and_check(source, target, capsys)
    assert await to_thread(run, ["store", "migrate", source, target]) != 0
    assert capsys.readouterr().err == (
        "fathom: error: the target holds objects already: choose an empty data directory, or another etcd or"
        " prefix (etcd://HOST:PORT/PREFIX)\n"
    )


async def test_a_store_in_use_is_not_migrated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = await filled(await open_store(f"sqlite:{tmp_path / 'first'}"), 3)
    words = ["store", "migrate", f"sqlite:{tmp_path / 'first'}", f"sqlite:{tmp_path / 'second'}"]
    assert await to_thread(run, words) != 0
    assert "in use" in capsys.readouterr().err
    await source.close()


@pytest.mark.live
async def test_to_etcd_and_back(
    etcd_server: EtcdServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, there = f"sqlite:{tmp_path / 'first'}", f"etcd://{etcd_server.endpoint}/migrated"
    await (await filled(await open_store(first))).close()
    await migrate_and_check(first, there, capsys)
    await migrate_and_check(there, f"sqlite:{tmp_path / 'back'}", capsys)


@pytest.fixture
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("empty_directory")
@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("sqlite:nothing", "sqlite:b", "nothing holds no store: give the data directory of an API server"),
        ("memory:", "sqlite:b", "a store in memory cannot be migrated: give sqlite:DIR or etcd://HOST:PORT"),
        ("sqlite:a", "sqlite:a", "source and target are the same store"),
    ],
)
def test_what_cannot_be_migrated_is_one_clear_line(
    source: str, target: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["store", "migrate", source, target]) != 0
    assert capsys.readouterr().err == f"fathom: error: {message}\n"
