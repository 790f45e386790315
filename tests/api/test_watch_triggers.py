"""A watch is woken only by what may concern it, and what it slept through does not count against it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.api.harness import Api, config_map, pod, tell

from fathom.api import resource_cache, watch_events

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
OTHER = "/api/v1/namespaces/kube-public/configmaps"


def bound(name: str, node: str) -> dict[str, object]:
    made = pod(name)
    return {**made, "spec": {**made["spec"], "nodeName": node}}


async def nodes(api: Api, *names: str) -> None:
    for name in names:
        room = {"cpu": "9", "memory": "9Gi", "pods": "50"}
        made = await api.post(
            "/api/v1/nodes", {"metadata": {"name": name}, "status": {"allocatable": room, "capacity": room}}
        )
        assert made.status == 201


def test_a_nodes_watch_hears_of_its_own_pods_and_sleeps_through_the_others(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await nodes(api, "here", "there")
        watching = await api.watch("/api/v1/pods?fieldSelector=spec.nodeName%3Dhere&resourceVersion=0")
        cache = api.core.cache.of("pods")
        watcher = next(iter(cache._watchers[watch_events.node_trigger("here")]))
        reading = asyncio.create_task(watching.take(1))
        await asyncio.sleep(0.01)
        for number in range(5):
            assert (await api.post(PODS, bound(f"t{number}", "there"))).status == 201
        assert watcher.cursor == 0
        assert (await api.post(PODS, bound("h", "here"))).status == 201
        assert await reading == [("ADDED", "h")]
        assert watcher.cursor == 6
        await api.delete(f"{PODS}/h?gracePeriodSeconds=0")
        assert await watching.take(1) == [("DELETED", "h")]
        watching.close()
        assert cache._by_node == 0

    tell(story, tmp_path)


def test_a_pod_that_comes_to_a_node_by_binding_is_heard_of(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await nodes(api, "here")
        watching = await api.watch("/api/v1/pods?fieldSelector=spec.nodeName%3Dhere&resourceVersion=0")
        assert (await api.post(PODS, pod("p"))).status == 201
        binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "here"}}
        assert (await api.post(f"{PODS}/p/binding", binding)).status == 201
        assert await watching.take(1) == [("ADDED", "p")]

    tell(story, tmp_path)


@pytest.mark.parametrize("bookmarks", ["", "&allowWatchBookmarks=true"])
def test_a_watch_is_not_dropped_for_what_others_wrote_while_it_slept(
    bookmarks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_cache, "LOG_EVENTS_MAX", 8)

    async def story(api: Api) -> None:
        watching = await api.watch(f"{MAPS}?resourceVersion=0{bookmarks}")
        reading = asyncio.create_task(watching.take(1))
        await asyncio.sleep(0.01)
        for number in range(40):
            assert (await api.post(OTHER, config_map(f"o{number}"))).status == 201
        assert (await api.post(MAPS, config_map("mine"))).status == 201
        assert await reading == [("ADDED", "mine")]
        assert api.core.counts.watches_dropped == 0

    tell(story, tmp_path)


def test_a_list_of_a_nodes_pods_is_of_those_and_looks_at_no_others(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        async def here(path: str = PODS) -> list[str]:
            answer = await api.get(f"{path}?fieldSelector=spec.nodeName%3Dhere")
            return [item["metadata"]["name"] for item in answer.obj["items"]]

        await nodes(api, "here", "there")
        cache = api.core.cache.of("pods")
        assert (await api.post(PODS, bound("b", "here"))).status == 201
        assert await here() == ["b"]
        for name, node in (("a", "here"), ("c", "there")):
            assert (await api.post(PODS, bound(name, node))).status == 201
        assert (await api.post(PODS, pod("d"))).status == 201
        assert await here() == ["a", "b"]
        binding = {"metadata": {"name": "d"}, "target": {"kind": "Node", "name": "here"}}
        assert (await api.post(f"{PODS}/d/binding", binding)).status == 201
        await api.delete(f"{PODS}/a?gracePeriodSeconds=0")
        await api.patch(f"{PODS}/b/status", {"status": {"phase": "Running"}})
        assert await here() == await here("/api/v1/pods") == ["b", "d"]
        assert await here("/api/v1/namespaces/kube-public/pods") == []
        assert cache.keys_on("here", None) == [f"{cache.prefix}default/{name}" for name in "bd"]
        await api.delete(f"{PODS}/c?gracePeriodSeconds=0")
        assert sorted(cache._on_nodes or {}) == ["here"]

    tell(story, tmp_path)
