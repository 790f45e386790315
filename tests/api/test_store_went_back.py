"""A store that answers at an older revision than before: the server says so, waits, and reads all anew."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.api.harness import Api, config_map, tell

from fathom.api import watch_cache_feed
from fathom.store.memory import MemoryStore
from fathom.store.protocol import Entry

MAPS = "/api/v1/namespaces/default/configmaps"


class ReplaceableStore(MemoryStore):
    """As an etcd whose members disagree: its clients are cut off, and find another state."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def revision(self) -> int:
        self.asked += 1
        return await super().revision()

    async def all_entries(self) -> tuple[Entry, ...]:
        return (await self.range("")).entries

    def replace(self, entries: tuple[Entry, ...], revision: int) -> None:
        old = self._feed
        self.load(entries, revision)
        old.close("the connection is lost")


async def readiness(api: Api) -> tuple[int, str]:
    answer = await api.get("/readyz?verbose")
    return answer.status, answer.obj.decode().splitlines()[1]


async def is_ready(api: Api) -> bool:
    return (await api.get("/readyz")).status == 200


async def lists(api: Api, *names: str) -> bool:
    items = (await api.get(MAPS)).obj.get("items") or ()
    return [item["metadata"]["name"] for item in items] == list(names)


async def is_unready(api: Api) -> bool:
    return not await is_ready(api)


def test_a_server_says_that_the_store_went_back_and_returns_with_it(tmp_path: Path) -> None:
    store = ReplaceableStore()

    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a"))
        older, older_revision = await store.all_entries(), await store.revision()
        await api.post(MAPS, config_map("b"))
        newer, revision = await store.all_entries(), await store.revision()
        watch = await api.watch(f"{MAPS}?resourceVersion={revision}")
        store.replace(older, older_revision)
        await api.eventually(lambda: is_unready(api))
        problem = (
            f"the store answers at revision {older_revision}, but this server has read revision {revision}:"
            " its members disagree, or it was replaced by an older copy"
        )
        assert await readiness(api) == (500, f"[-]store failed: {problem}")
        assert (await api.get("/livez")).status == 200
        for answer in (await api.get(MAPS), await api.post(MAPS, config_map("c"))):
            assert (answer.status, answer.obj["message"]) == (503, problem)
        store.replace(newer, revision)
        await api.eventually(lambda: is_ready(api))
        assert await watch.next() is None  # It ended, cleanly: its client lists again.
        assert [item["metadata"]["name"] for item in (await api.get(MAPS)).obj["items"]] == ["a", "b"]

    tell(story, tmp_path, store=store, shared_store=True)


def test_an_older_copy_of_the_same_cluster_is_raised_above_all_revisions_that_were_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_cache_feed, "SURPASS_AFTER", 1)
    store = ReplaceableStore()

    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a"))
        older, older_revision = await store.all_entries(), await store.revision()
        for number in range(5):
            await api.post(MAPS, config_map(f"b{number}"))
        revision = await store.revision()
        store.replace(older, older_revision)
        await api.eventually(lambda: lists(api, "a"))
        listed = (await api.get(MAPS)).obj
        assert int(listed["metadata"]["resourceVersion"]) > revision
        stale = await api.watch(f"{MAPS}?resourceVersion={revision}")
        event = await stale.next()
        assert event is not None
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)

    tell(story, tmp_path, store=store, shared_store=True)


def test_another_or_an_empty_store_is_never_taken_for_the_clusters_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_cache_feed, "SURPASS_AFTER", 1)
    monkeypatch.setattr(watch_cache_feed, "RETRY_S", 0.01)
    store = ReplaceableStore()

    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a"))
        entries, revision = await store.all_entries(), await store.revision()
        store.replace((), 1)
        await api.eventually(lambda: is_unready(api))
        before = store.asked
        async with asyncio.timeout(20):  # Several tries.
            while store.asked < before + 5:
                await asyncio.sleep(0.01)
        assert await store.revision() == 1
        assert await is_unready(api)
        store.replace(entries, revision)
        await api.eventually(lambda: is_ready(api))
        assert [item["metadata"]["name"] for item in (await api.get(MAPS)).obj["items"]] == ["a"]

    tell(story, tmp_path, store=store, shared_store=True)
