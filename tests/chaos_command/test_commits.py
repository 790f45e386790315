"""What was written: from the store's file, and the audit log of a server that may be killed at any time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from fathom.chaos.commits import Commits
from fathom.model.audit import AuditEntry
from fathom.model.body import Body
from fathom.model.objects import Key, Obj
from fathom.sim.world.invariants import NOBODY_KNOWS
from fathom.store.protocol import Committed, Delete, Put, Write
from fathom.store.sqlite import SqliteStore

CARD: Obj = {"kind": "ConfigMap", "metadata": {"name": "hello-0", "namespace": "default", "uid": "1"}}
PLACE = "/registry/configmaps/default/hello-0"


def logged(data: Path, revision: int, user: str, *, code: int = 201, half: bool = False) -> None:
    (data / "audit").mkdir(exist_ok=True)
    entry = AuditEntry(
        id="1",
        time="2026-01-01T00:00:00.000000Z",
        user=user,
        verb="create",
        resource="configmaps",
        code=code,
        revision=revision,
    )
    line = msgspec.json.encode(entry)
    with (data / "audit" / "audit.jsonl").open("ab") as file:
        file.write(line[:30] if half else line + b"\n")


def test_every_commit_is_read_once_with_who_made_it(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore.open(tmp_path)
        commits = Commits(tmp_path)
        created = await written(store, Put(PLACE, Body(obj=CARD)))
        logged(tmp_path, created, "operator")
        ((seen, entry),) = commits.new(1.0)
        assert (seen.path, seen.by, seen.old, seen.new) == (
            "configmaps/default/hello-0",
            "operator",
            None,
            CARD,
        )
        assert (seen.key, seen.revision) == (Key("default", "hello-0"), created)
        assert entry is not None
        assert commits.objects() == {"configmaps/default/hello-0": CARD}
        deleted = await written(store, Delete(PLACE))
        logged(tmp_path, deleted, "jane", code=200)
        ((seen, _),) = commits.new(2.0)
        assert (seen.by, seen.old, seen.new) == ("jane", CARD, None)
        assert (commits.new(3.0), commits.objects()) == ([], {})
        commits.close()
        await store.close()

    asyncio.run(story())


def test_a_commit_waits_for_its_audit_entry_but_not_for_ever(tmp_path: Path) -> None:
    """The server was killed before it wrote the line, or in the middle of it."""

    async def story() -> None:
        store = SqliteStore.open(tmp_path)
        commits = Commits(tmp_path)
        revision = await written(store, Put(PLACE, Body(obj=CARD)))
        logged(tmp_path, revision, "operator", half=True)
        assert commits.new(1.0) == []
        ((seen, entry),) = commits.new(1.6)
        assert (seen.by, entry, seen.at_s) == (NOBODY_KNOWS, None, 1.0)
        commits.close()
        await store.close()

    asyncio.run(story())


def test_records_of_the_server_are_no_objects(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore.open(tmp_path)
        commits = Commits(tmp_path)
        await written(store, Put("/registry/fences.fathom.dev/leader", Body(obj={"token": 1})))
        assert (commits.new(1.0), commits.new(2.0), commits.objects()) == ([], [], {})
        commits.close()
        await store.close()

    asyncio.run(story())


async def written(store: SqliteStore, write: Write) -> int:
    outcome = await store.commit((), (write,))
    assert isinstance(outcome, Committed)
    return outcome.revision
