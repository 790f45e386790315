"""The copy of a foreign cluster: equal to it, following it, and read-only."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import Api
from tests.attach.foreign import NODES, PODS, Foreign, copied, foreign, without_versions
from tests.cli.asking import node, pod

from fathom.attach.mirror import WRITES_MAX, Failing, ObservedChange, first_changes, next_commit
from fathom.attach.rights import observing, scheduling
from fathom.attach.survey import survey
from fathom.cache.observer import CacheFailed, Resumed
from fathom.client.once import api_of
from fathom.model.body import Body, canonical
from fathom.model.times import micro_timestamp
from fathom.seams.log import NoLog
from fathom.store.protocol import Entry


def told(story: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with foreign(tmp_path / "foreign") as cluster, copied(cluster, tmp_path / "copy") as copy:
            await story(cluster, copy)

    asyncio.run(main())


async def listed(api: Api, path: str) -> list[Any]:
    return [without_versions(item) for item in (await api.get(path)).obj["items"]]


async def until_equal(cluster: Foreign, copy: Api, path: str) -> None:
    async def equal() -> bool:
        return await listed(cluster.api, path) == await listed(copy, path)

    await copy.eventually(equal, timeout_s=20)


def test_objects_are_copied_followed_and_removed_with_those_of_the_cluster(tmp_path: Path) -> None:
    async def story(cluster: Foreign, copy: Api) -> None:
        assert await listed(cluster.api, "/api/v1/namespaces") == await listed(copy, "/api/v1/namespaces")
        for made, path in ((node("node-1", "4"), NODES), (pod("web", "1"), PODS), (pod("db", "1"), PODS)):
            assert (await cluster.api.post(path, made)).status == 201
        await until_equal(cluster, copy, PODS)
        await cluster.api.patch(f"{NODES}/node-1", {"spec": {"unschedulable": True}})
        await cluster.api.delete(f"{PODS}/db", {"gracePeriodSeconds": 0})
        await until_equal(cluster, copy, NODES)
        await until_equal(cluster, copy, PODS)
        assert [item["metadata"]["name"] for item in await listed(copy, PODS)] == ["web"]

    told(story, tmp_path)


def test_a_copy_takes_no_changes_but_answers_questions(tmp_path: Path) -> None:
    async def story(cluster: Foreign, copy: Api) -> None:
        await cluster.api.post(NODES, node("node-1", "4"))
        await cluster.api.post(PODS, pod("web", "1"))
        await until_equal(cluster, copy, PODS)
        for refused in (
            await copy.post(PODS, pod("mine", "1")),
            await copy.patch(f"{PODS}/web", {"metadata": {"labels": {"a": "b"}}}),
            await copy.delete(f"{PODS}/web"),
            await copy.post(f"{PODS}/web/binding", {"target": {"kind": "Node", "name": "node-1"}}),
            await copy.post(f"{PODS}/web/eviction", {"metadata": {"name": "web"}}),
        ):
            assert (refused.status, refused.reason, refused.obj["message"]) == (
                405,
                "MethodNotAllowed",
                "a copy",
            )
        answer = await copy.get("/apis/fathom.dev/v1alpha1/namespaces/default/explanations/pod.web")
        assert answer.obj["status"]["summary"].startswith("pod default/web waits for a node: no scheduler")

    told(story, tmp_path)


def test_who_changed_what_is_told_by_the_copys_audit_log(tmp_path: Path) -> None:
    async def story(cluster: Foreign, copy: Api) -> None:
        managed = [{"manager": "kubectl-cordon", "operation": "Update", "time": "2026-01-01T00:00:00Z"}]
        await cluster.api.post(NODES, node("node-1", "4"))
        await until_equal(cluster, copy, NODES)
        patch = {"metadata": {"managedFields": managed}, "spec": {"unschedulable": True}}
        await cluster.api.patch(f"{NODES}/node-1", patch)
        await until_equal(cluster, copy, NODES)
        copy.audit.flush()
        path = "/apis/fathom.dev/v1alpha1/namespaces/fathom-system/timelines/node.node-1"
        answer = await copy.get(path)
        texts = [str(entry) for entry in answer.obj["status"]["entries"]]
        assert any("unschedulable" in text for text in texts), texts

    told(story, tmp_path)


def test_an_answer_says_that_the_cluster_is_out_of_reach(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(foreign(tmp_path / "foreign"))
            await cluster.api.post(PODS, pod("web", "1"))
            async with copied(cluster, tmp_path / "copy") as copy:
                await stack.aclose()  # The cluster goes away.

                async def told_so() -> bool:
                    answer = await copy.get(
                        "/apis/fathom.dev/v1alpha1/namespaces/default/explanations/pod.web"
                    )
                    gaps = answer.obj["status"].get("gaps") or ()
                    return any(
                        gap["source"] == "cluster" and "Pod has not been" in gap["why"] for gap in gaps
                    )

                await copy.eventually(told_so, timeout_s=20)

    asyncio.run(main())


@pytest.mark.slow
def test_an_observer_leaves_no_write_in_the_clusters_audit_log(tmp_path: Path) -> None:
    async def main() -> None:
        async with foreign(tmp_path / "foreign") as cluster, api_of(cluster.address()) as api:
            await survey(api, cluster.url, [*observing(), *scheduling()])
            async with copied(cluster, tmp_path / "copy") as copy:
                await cluster.api.post(PODS, pod("web", "1"))
                await until_equal(cluster, copy, PODS)
            cluster.api.audit.flush()
            lines = (tmp_path / "foreign" / "audit" / "audit.jsonl").read_text().splitlines()
            assert {json.loads(line)["user"] for line in lines} == {"system:fathom:housekeeping", "admin"}
            ours = [line for line in lines if json.loads(line)["user"] == "admin"]
            assert [json.loads(line)["name"] for line in ours] == ["web"]  # What the test itself wrote.

    asyncio.run(main())


def test_a_question_about_the_past_finds_the_first_copy(tmp_path: Path) -> None:
    async def main() -> None:
        async with foreign(tmp_path / "foreign") as cluster:
            await cluster.api.post(PODS, pod("web", "1"))
            async with copied(cluster, tmp_path / "copy") as copy:
                copy.audit.flush()
                asked = {"subject": {"kind": "pod", "name": "web"}, "at": micro_timestamp(time.time_ns())}
                question = {"apiVersion": "fathom.dev/v1alpha1", "kind": "Explanation", "spec": asked}
                path = "/apis/fathom.dev/v1alpha1/namespaces/default/explanations"
                answer = await copy.post(path, question)
                assert answer.obj["status"]["asOf"]["source"] == "store"
                assert answer.obj["status"]["verdict"] == "is not scheduled"

    asyncio.run(main())


class Stopped:
    """A clock at so many seconds."""

    def __init__(self) -> None:
        self.seconds = 0

    def now_ns(self) -> int:
        return self.seconds * 1_000_000_000

    monotonic_ns = now_ns


def test_a_copy_that_cannot_follow_says_since_when() -> None:
    clock = Stopped()
    failing = Failing(NoLog(), clock)
    assert failing.behind() == ""
    for clock.seconds, error in ((5, "503 down"), (20, "0 refused")):
        failing.note(CacheFailed("Pod", error, 1.0))
    clock.seconds = 35
    assert failing.behind() == "Pod has not been followed for 30 s: 0 refused"
    failing.note(Resumed("Pod", "failed", 7))
    assert failing.behind() == ""


def change(key: str) -> ObservedChange:
    return ObservedChange("pods", key, None, {"metadata": {"name": key}})


def test_a_commit_has_each_object_once_and_keeps_the_order() -> None:
    waiting = deque(map(change, ("a", "b", "a", "c")))
    assert [[one.key for one in next_commit(waiting)] for _ in range(3)] == [["a", "b"], ["a", "c"], []]


def test_a_commit_is_no_larger_than_stores_take() -> None:
    waiting = deque(change(f"pod-{number}") for number in range(WRITES_MAX + 1))
    assert (len(next_commit(waiting)), len(next_commit(waiting))) == (WRITES_MAX, 1)


def stored(*objs: Any) -> dict[str, Entry]:
    keys = [f"/registry/nodes/{obj['metadata']['name']}" for obj in objs]
    return {key: Entry(key, Body(canonical(obj)), 5, 5) for key, obj in zip(keys, objs, strict=True)}


def test_a_first_list_writes_what_differs_and_removes_what_is_gone() -> None:
    same, old, new, gone, fresh = (node(*name_and_cpu) for name_and_cpu in ("a1", "b1", "b2", "c1", "d1"))
    found = first_changes("nodes", [same, new, fresh], stored(same, old, gone), copied_before=True)
    place = "/registry/nodes/"
    assert found == [
        ObservedChange("nodes", f"{place}b", canonical(old), new, told=True),
        ObservedChange("nodes", f"{place}d", None, fresh, told=False),
        ObservedChange("nodes", f"{place}c", canonical(gone), None, told=True),
    ]
