"""A commit that binds many pods is many events of one revision. A client that breaks off between two of them
resumes from that revision, the only one it has seen; it must not miss the rest."""

from __future__ import annotations

from pathlib import Path

from tests.api.binding.cluster import NODES, PODS, batch, item, node, pod
from tests.api.harness import Api, tell

COUNT = 5


async def _bound(api: Api) -> int:
    """The revision of one commit that bound all pods."""
    await api.post(NODES, node("n1"))
    for number in range(COUNT):
        await api.post(PODS, pod(f"p{number}"))
    results = await batch(api, *(item(f"p{number}", "n1") for number in range(COUNT)))
    [revision] = {int(one["revision"]) for one in results}
    return revision


ALL = [("MODIFIED", f"p{number}") for number in range(COUNT)]


def test_who_breaks_off_within_a_commit_is_told_all_of_it_again(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        revision = await _bound(api)
        watching = await api.watch(f"{PODS}?resourceVersion={revision}")
        assert await watching.take(COUNT) == ALL
        watching.close()

    tell(story, tmp_path)


def test_so_does_who_resumes_from_history(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        revision = await _bound(api)
        await api.post(PODS, pod("late"))
        api.core.cache.of("pods").floor = api.core.cache.reached  # The log has forgotten.
        watching = await api.watch(f"{PODS}?resourceVersion={revision}")
        assert await watching.take(COUNT + 1) == [*ALL, ("ADDED", "late")]
        watching.close()

    tell(story, tmp_path)


def test_so_does_who_resumes_where_the_log_begins(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        revision = await _bound(api)
        await api.parts.feed.load()  # As after a restart: the log is empty, and begins here.
        watching = await api.watch(f"{PODS}?resourceVersion={revision}")
        assert await watching.take(COUNT) == ALL
        watching.close()

    tell(story, tmp_path)


def test_a_commit_of_one_object_is_told_once(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        revision = (await api.post(PODS, pod("a"))).obj["metadata"]["resourceVersion"]
        await api.post(PODS, pod("b"))
        for floor in (0, api.core.cache.reached):
            api.core.cache.of("pods").floor = floor
            watching = await api.watch(f"{PODS}?resourceVersion={revision}")
            assert await watching.take(1) == [("ADDED", "b")]
            watching.close()

    tell(story, tmp_path)


def test_history_that_begins_there_is_still_told(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        revision = await _bound(api)
        await api.post(PODS, pod("late"))
        await api.core.store.compact(revision)
        api.core.cache.of("pods").floor = api.core.cache.reached
        watching = await api.watch(f"{PODS}?resourceVersion={revision}")
        assert await watching.take(1) == [("ADDED", "late")]
        watching.close()

    tell(story, tmp_path)
