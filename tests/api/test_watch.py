"""Watches: every later change, exactly once and in order."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from tests.api.harness import Api, Watching, config_map, tell

from fathom.api import resource_cache
from fathom.store.memory import MemoryStore
from fathom.store.protocol import Compacted, StoreUnavailable

MAPS = "/api/v1/namespaces/default/configmaps"


async def _revision(api: Api) -> str:
    return str((await api.get(MAPS)).obj["metadata"]["resourceVersion"])


async def _label(api: Api, name: str, **labels: str | None) -> None:
    assert (await api.patch(f"{MAPS}/{name}", {"metadata": {"labels": labels}})).status == 200


def test_changes_after_a_revision_come_in_order(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("before"))
        watching = await api.watch(f"{MAPS}?resourceVersion={await _revision(api)}")
        await api.post(MAPS, config_map("a"))
        await _label(api, "a", x="y")
        await api.delete(f"{MAPS}/a")
        assert await watching.take(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]

    tell(story, tmp_path)


def test_a_deletion_shows_the_last_state_at_the_revision_of_the_deletion(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        created = (await api.post(MAPS, config_map("a", x="1"))).obj
        watching = await api.watch(f"{MAPS}?resourceVersion={await _revision(api)}")
        await api.delete(f"{MAPS}/a")
        event = await watching.next()
        assert event is not None
        assert event["object"]["data"] == {"x": "1"}
        assert int(event["object"]["metadata"]["resourceVersion"]) > int(
            created["metadata"]["resourceVersion"]
        )

    tell(story, tmp_path)


def test_without_a_revision_the_present_comes_first(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a"))
        watching = await api.watch(MAPS)
        await api.post(MAPS, config_map("b"))
        assert await watching.take(2) == [("ADDED", "a"), ("ADDED", "b")]

    tell(story, tmp_path)


def test_the_initial_events_end_with_a_bookmark(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a"))
        options = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        watching = await api.watch(f"{MAPS}?{options}")
        assert await watching.take(1) == [("ADDED", "a")]
        event = await watching.next()
        assert event is not None
        assert event["type"] == "BOOKMARK"
        assert event["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert event["object"]["metadata"]["resourceVersion"] == await _revision(api)

    tell(story, tmp_path)


def test_watch_options_that_contradict_are_refused(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        for query in (
            "sendInitialEvents=true",
            "resourceVersionMatch=NotOlderThan&resourceVersion=1",
            "timeoutSeconds=soon",
            "resourceVersion=new",
        ):
            assert ((await api.get(f"{MAPS}?watch=1&{query}")).status, query) in [(422, query), (400, query)]

    tell(story, tmp_path)


def test_objects_enter_and_leave_a_selection(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        watching = await api.watch(f"{MAPS}?labelSelector=on&resourceVersion={await _revision(api)}")
        await api.post(MAPS, config_map("a"))
        await _label(api, "a", on="1")
        await _label(api, "a", on="2")
        await _label(api, "a", on=None)
        await _label(api, "a", off="1")
        await _label(api, "a", on="3")
        await api.delete(f"{MAPS}/a")
        kinds = [kind for kind, _ in await watching.take(5)]
        assert kinds == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]

    tell(story, tmp_path)


def test_a_watch_of_one_namespace_is_not_woken_by_another(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        watching = await api.watch(f"{MAPS}?resourceVersion={await _revision(api)}")
        await api.post("/api/v1/namespaces/kube-system/configmaps", config_map("x"))
        await api.post(MAPS, config_map("a"))
        assert await watching.take(1) == [("ADDED", "a")]

    tell(story, tmp_path)


def test_bookmarks_come_as_often_as_asked_and_carry_the_newest_revision(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        path = f"{MAPS}?allowWatchBookmarks=true&resourceVersion={await _revision(api)}"
        watching = await api.watch(path, headers={"fathom-bookmark-seconds": "0.1"})
        await api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
        event = await watching.next()
        assert event is not None
        assert event["type"] == "BOOKMARK"
        assert int(event["object"]["metadata"]["resourceVersion"]) >= int(await _revision(api)) - 2

    tell(story, tmp_path)


def test_the_end_of_the_initial_events_says_how_often_bookmarks_come_if_asked(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        query = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        for headers, expected in (({}, None), ({"fathom-bookmark-seconds": "0.5"}, "0.5")):
            watching = await api.watch(f"{MAPS}?{query}", headers=headers)
            event = await watching.next()
            while event is not None and event["type"] != "BOOKMARK":
                event = await watching.next()
            assert event is not None
            annotations = event["object"]["metadata"]["annotations"]
            assert annotations.get("fathom.dev/bookmark-seconds") == expected

    tell(story, tmp_path)


def test_a_bookmark_says_how_long_its_watch_was_open_if_asked(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        path = f"{MAPS}?allowWatchBookmarks=true&resourceVersion={await _revision(api)}"
        watching = await api.watch(path, headers={"fathom-bookmark-seconds": "0.1"})
        ages_s = []
        for _ in range(3):
            event = await watching.next()
            assert event is not None
            assert event["type"] == "BOOKMARK"
            ages_s.append(float(event["object"]["metadata"]["annotations"]["fathom.dev/watch-age-seconds"]))
        assert 0 < ages_s[0] < ages_s[1] < ages_s[2]

    tell(story, tmp_path)


class CutOff(MemoryStore):
    """A store that others write to, and that can be cut off from its reader."""

    is_cut = False

    async def revision(self) -> int:
        if self.is_cut:
            raise StoreUnavailable("the store does not answer")
        return await super().revision()


def test_a_server_that_is_cut_off_from_a_shared_store_does_not_call_itself_current(tmp_path: Path) -> None:
    store = CutOff()

    async def story(api: Api) -> None:
        path = f"{MAPS}?allowWatchBookmarks=true&resourceVersion={await _revision(api)}"
        watching = await api.watch(path, headers={"fathom-bookmark-seconds": "0.1"})

        async def next_age_s() -> float:
            event = await watching.next()
            assert event is not None
            return float(event["object"]["metadata"]["annotations"]["fathom.dev/watch-age-seconds"])

        while await next_age_s() < 0.5:
            pass
        store.is_cut = True
        ages_s = [await next_age_s() for _ in range(12)]
        assert ages_s[-1] == ages_s[-2]
        store.is_cut = False
        while await next_age_s() == ages_s[-1]:
            pass

    tell(story, tmp_path, store=store, shared_store=True)


def test_a_watch_ends_at_its_timeout(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        watching = await api.watch(f"{MAPS}?timeoutSeconds=1&resourceVersion={await _revision(api)}")
        assert await watching.next() is None

    tell(story, tmp_path)


def test_compacted_history_is_answered_with_one_error_event(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a"))
        # A server that has just started knows no history of its own: it asks the store.
        await api.parts.feed.load()
        await api.core.store.compact(await api.core.store.revision())
        watching = await api.watch(f"{MAPS}?resourceVersion=2")
        event = await watching.next()
        assert event is not None
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert event["object"]["reason"] == "Expired"
        assert await watching.next() is None

    tell(story, tmp_path)


def test_a_server_that_has_just_started_still_knows_the_past(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        start = await _revision(api)
        await api.post(MAPS, config_map("a"))
        await _label(api, "a", x="y")
        await api.parts.feed.load()
        watching = await api.watch(f"{MAPS}?resourceVersion={start}")
        await api.delete(f"{MAPS}/a")
        assert await watching.take(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]

    tell(story, tmp_path)


def test_a_reader_that_falls_behind_is_ended_and_resumes_without_loss(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a"))
        watching = await api.watch(f"{MAPS}?resourceVersion={await _revision(api)}")
        cache = api.core.cache.of("configmaps")
        start = cache.end
        while cache.base <= start:  # Until its place has been forgotten.
            await _label(api, "a", n=str(cache.end))
        seen, last = [], ""
        while (event := await watching.next()) is not None:
            seen.append(event)
        assert seen == []
        resumed = await api.watch(f"{MAPS}?resourceVersion={int(await _revision(api)) - 3}")
        for _ in range(3):
            event = await resumed.next()
            assert event is not None
            last = event["object"]["metadata"]["resourceVersion"]
        assert last == await _revision(api)

    original = resource_cache.LOG_EVENTS_MAX
    resource_cache.LOG_EVENTS_MAX = 8
    try:
        tell(story, tmp_path)
    finally:
        resource_cache.LOG_EVENTS_MAX = original


def test_watches_end_when_the_server_stops(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        watching = await api.watch(f"{MAPS}?resourceVersion={await _revision(api)}")
        api.core.stopping = True
        api.core.cache.wake_all()
        assert await watching.next() is None

    tell(story, tmp_path)


def test_a_watch_ends_with_the_server_though_the_store_was_compacted_up_to_its_revision(
    tmp_path: Path,
) -> None:
    """A server that has just started on such a store has the revision neither in its log nor in history."""

    async def story(api: Api) -> None:
        revision = int(await _revision(api))
        with pytest.raises(Compacted):
            await api.core.store.range(MAPS, revision=revision - 1)
        assert api.core.cache.of("configmaps").floor == revision
        watching = await api.watch(f"{MAPS}?resourceVersion={revision}")
        api.core.stopping = True
        api.core.cache.wake_all()
        assert await watching.next() is None

    tell(story, tmp_path)


def test_a_table_is_watched_row_by_row(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        accept = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        watching = await api.watch(f"{MAPS}?resourceVersion={await _revision(api)}", headers=accept)
        await api.post(MAPS, config_map("a", x="1"))
        event = await watching.next()
        assert event is not None
        assert event["object"]["kind"] == "Table"
        assert event["object"]["rows"][0]["cells"][:2] == ["a", 1]

    tell(story, tmp_path)


async def _write_for_a_while(api: Api, rng: random.Random, changes: int) -> None:
    for index in range(changes):
        name = f"m{rng.randrange(6)}"
        answer = await api.post(MAPS, config_map(name))
        if answer.status == 409:
            if rng.random() < 0.5:
                await api.delete(f"{MAPS}/{name}")
            else:
                await _label_if_there(api, name, str(index))
        if rng.random() < 0.1:
            await asyncio.sleep(0)


async def _label_if_there(api: Api, name: str, value: str) -> None:
    await api.patch(f"{MAPS}/{name}", {"metadata": {"labels": {"n": value}}})


async def _follow(
    api: Api, rng: random.Random, start: str, until: asyncio.Event
) -> list[tuple[int, str, str]]:
    """Watch with random disconnects, resuming from the last revision that was seen."""
    seen: list[tuple[int, str, str]] = []
    last = start
    while True:
        finished = until.is_set()
        watching = await api.watch(f"{MAPS}?resourceVersion={last}")
        last = await _read_some(watching, rng, seen, last)
        if finished and last == await _last_change(api):
            return seen


async def _read_some(
    watching: Watching, rng: random.Random, seen: list[tuple[int, str, str]], last: str
) -> str:
    for _ in range(rng.randrange(1, 20)):
        try:
            event = await watching.next(timeout=0.05)
        except TimeoutError:
            break
        if event is None:
            break
        meta = event["object"]["metadata"]
        last = meta["resourceVersion"]
        seen.append((int(last), event["type"], meta["name"]))
    watching.close()
    return last


async def _last_change(api: Api) -> str:
    return str(api.core.cache.of("configmaps").revision)


def test_resumed_watches_see_every_change_once_and_in_order(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        rng, done, start = random.Random(3), asyncio.Event(), await _revision(api)
        whole = await api.watch(f"{MAPS}?resourceVersion={start}")
        followers = [asyncio.create_task(_follow(api, random.Random(i), start, done)) for i in range(4)]
        await _write_for_a_while(api, rng, 300)
        done.set()
        results = await asyncio.gather(*followers)
        expected: list[tuple[int, str, str]] = []
        while not expected or str(expected[-1][0]) != await _last_change(api):
            event = await whole.next()
            assert event is not None
            meta = event["object"]["metadata"]
            expected.append((int(meta["resourceVersion"]), event["type"], meta["name"]))
        assert all(seen == expected for seen in results)
        assert [revision for revision, _, _ in expected] == sorted({r for r, _, _ in expected})

    tell(story, tmp_path)
