"""What holds without fathom's own server: the table of docs/attaching.md."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.attach.foreign import NODES, PODS, Foreign, foreign
from tests.cli.asking import node, pod

from fathom.client.api import Api, Resource
from fathom.client.once import api_of
from fathom.client.outcomes import Committed, Conflict
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
