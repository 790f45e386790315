"""What holds without fathom's own server: the table of docs/attaching.md.

The server that stands in for a Kubernetes would refuse some of what is tested here: the scheduler's records
show that it was not asked to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.attach.foreign import NODES, PODS, Foreign, foreign
from tests.attach.scheduled import OVERRIDES, override, placed, scheduling, verdicts, waiting
from tests.cli.asking import node, pod

from fathom.attach.installed import objects_to_install
from fathom.attach.installing import install
from fathom.client.api import Api, Resource
from fathom.client.once import api_of
from fathom.client.outcomes import Committed, Conflict
from fathom.kinds import override_policy
from fathom.schedule.loop import bind_requests
from fathom.schedule.loop.bind_requests import BindAnswer, BindRequest, BindSender

POD = Resource("", "v1", "pods")


def told(story: Callable[[Foreign, Api, str], Awaitable[None]], tmp_path: Path) -> None:
    """A story about the pod `web`, with its UID, and two nodes."""

    async def main() -> None:
        async with foreign(tmp_path) as cluster, api_of(cluster.address()) as api:
            for name in ("node-1", "node-2"):
                await cluster.api.post(NODES, node(name, "4"))
            made = await cluster.api.post(PODS, pod("web", "1"))
            await story(cluster, api, made.obj["metadata"]["uid"])

    asyncio.run(main())


async def bind(api: Api, uid: str, to: str) -> BindAnswer:
    request = BindRequest(
        namespace="default", name="web", uid=uid, node=to, annotations={"fathom.dev/decision": "d-1"}
    )
    (answer,) = await BindSender(api).send([request])
    return answer


def test_a_pod_is_bound_once_and_says_by_which_decision(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api, uid: str) -> None:
        assert await bind(api, uid, "node-1") == BindAnswer("Bound")
        second = await bind(api, uid, "node-2")
        assert (second.status, second.check) == ("Refused", "PodBound")
        bound = (await cluster.api.get(f"{PODS}/web")).obj
        assert bound["spec"]["nodeName"] == "node-1"
        assert bound["metadata"]["annotations"]["fathom.dev/decision"] == "d-1"

    told(story, tmp_path)


def test_a_decision_about_a_pod_that_was_replaced_binds_no_other(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api, uid: str) -> None:
        await cluster.api.delete(f"{PODS}/web", {"gracePeriodSeconds": 0})
        assert (await cluster.api.post(PODS, pod("web", "1"))).status == 201
        answer = await bind(api, uid, "node-1")
        assert (answer.status, answer.check) == ("Refused", "PodUidChanged")
        assert not (await cluster.api.get(f"{PODS}/web")).obj["spec"].get("nodeName")

    told(story, tmp_path)


def test_only_the_victim_that_was_chosen_is_deleted(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api, uid: str) -> None:
        await cluster.api.delete(f"{PODS}/web", {"gracePeriodSeconds": 0})
        later = (await cluster.api.post(PODS, pod("web", "1"))).obj["metadata"]["uid"]
        assert isinstance(await api.delete(POD, "default", "web", uid=uid), Conflict)
        assert (await cluster.api.get(f"{PODS}/web")).obj["metadata"]["uid"] == later
        assert isinstance(await api.delete(POD, "default", "web", uid=later), Committed)

    told(story, tmp_path)


ONE_NODE = (("node-1", "a", "4"),)


def test_one_scheduler_does_not_give_the_same_room_to_two_pods(tmp_path: Path) -> None:
    async def main() -> None:
        async with scheduling(tmp_path, nodes=ONE_NODE) as cluster:
            for name in ("a", "b"):
                await cluster.api.post(PODS, waiting(name, "3"))

            async def told() -> bool:
                pods = [(await cluster.api.get(f"{PODS}/{name}")).obj for name in ("a", "b")]
                bound = [pod for pod in pods if pod["spec"].get("nodeName")]
                refused = [
                    pod
                    for pod in pods
                    if any(
                        (each["type"], each["status"]) == ("PodScheduled", "False")
                        for each in pod["status"].get("conditions") or ()
                    )
                ]
                return (len(bound), len(refused)) == (1, 1)

            await cluster.api.eventually(told, timeout_s=30)

    asyncio.run(main())
    # Neither was sent and refused: the room was counted as soon as it was decided.
    first, second = sorted((verdicts(tmp_path, "a"), verdicts(tmp_path, "b")))
    assert first == ["bind"]
    assert set(second) == {"unschedulable"}


def test_room_made_by_preemption_is_claimed_by_the_nominated_node(tmp_path: Path) -> None:
    async def main() -> None:
        async with scheduling(tmp_path, nodes=ONE_NODE) as cluster:
            urgent = {"metadata": {"name": "urgent"}, "value": 1000}
            await cluster.api.post("/apis/scheduling.k8s.io/v1/priorityclasses", urgent)
            await cluster.api.post(PODS, waiting("low", "3"))
            await placed(cluster, "low")
            made = waiting("high", "3")
            await cluster.api.post(PODS, {**made, "spec": {**made["spec"], "priorityClassName": "urgent"}})

            async def nominated() -> bool:
                pod = (await cluster.api.get(f"{PODS}/high")).obj
                return str(pod["status"].get("nominatedNodeName")) == "node-1"

            async def evicted() -> bool:
                low = await cluster.api.get(f"{PODS}/low")
                return low.status == 404 or "deletionTimestamp" in low.obj["metadata"]

            await cluster.api.eventually(nominated, timeout_s=30)
            await cluster.api.eventually(evicted, timeout_s=30)

    asyncio.run(main())


@pytest.mark.slow
def test_an_override_is_acknowledged_when_no_older_binding_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(override_policy, "SETTLES_S", 0)
    sent, release = asyncio.Event(), asyncio.Event()
    send = bind_requests.send_one

    async def held(api: Api, request: BindRequest) -> BindAnswer:
        sent.set()
        await release.wait()
        return await send(api, request)

    monkeypatch.setattr(bind_requests, "send_one", held)

    async def main() -> None:
        async with scheduling(tmp_path) as cluster:
            await cluster.api.post(PODS, waiting("web"))
            async with asyncio.timeout(30):
                await sent.wait()
            await cluster.api.post(OVERRIDES, override("avoid-b", avoidZones=["b"], pauseRollout=True))

            async def acknowledged() -> set[str]:
                status = (await cluster.api.get(f"{OVERRIDES}/avoid-b")).obj.get("status") or {}
                return {each["controller"] for each in status.get("acknowledgements") or ()}

            async def by_nobody_else() -> bool:
                return "deployment-controller" in await acknowledged()

            async def by_scheduler() -> bool:
                return "scheduler-fathom" in await acknowledged()

            await cluster.api.eventually(by_nobody_else, timeout_s=30)
            assert not await by_scheduler()
            release.set()
            assert await placed(cluster, "web") == "node-2"  # As it was decided, before.
            await cluster.api.eventually(by_scheduler, timeout_s=30)
            await cluster.api.delete(f"{PODS}/web", {"gracePeriodSeconds": 0})
            await cluster.api.post(PODS, waiting("web"))
            assert await placed(cluster, "web") == "node-1"

    asyncio.run(main())


def test_a_status_that_rests_on_an_older_version_of_an_override_is_not_written(tmp_path: Path) -> None:
    async def story(cluster: Foreign, api: Api, _: str) -> None:
        await install(api, objects_to_install(observe_only=False))
        seen = (await cluster.api.post(OVERRIDES, override("o", avoidZones=["a"]))).obj
        await cluster.api.patch(f"{OVERRIDES}/o/status", {"status": {"active": True}})
        stale = {"metadata": {"resourceVersion": seen["metadata"]["resourceVersion"]}}
        resource = Resource("fathom.dev", "v1alpha1", "scheduleroverrides")
        patch = {**stale, "status": {"author": "jane"}}
        assert isinstance(await api.patch(resource, "default", "o", patch, subresource="status"), Conflict)
        assert (await cluster.api.get(f"{OVERRIDES}/o")).obj["status"] == {"active": True}

    told(story, tmp_path)


def test_each_guarantee_of_the_table_names_a_test_that_exists() -> None:
    root = Path(__file__).parents[2]
    lines = (root / "docs" / "attaching.md").read_text().split("### Which guarantee rests on what")[1]
    rows = [line for line in re.split(r"\n##", lines)[0].splitlines() if line.startswith("| ")][2:]
    named = {row.split(" | ")[0]: re.findall(r"`(tests/[^`]+)`", row) for row in rows}
    assert len(named) == len(rows) > 10
    assert {row: files for row, files in named.items() if not files} == {}
    assert [file for files in named.values() for file in files if not (root / file).exists()] == []
