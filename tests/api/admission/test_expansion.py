"""A workload whose expansion an override pauses does not grow, whoever writes; a lost pod is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.api.binding.cluster import NODES, OWN, PODS, node, own, pod
from tests.api.harness import Answer, Api, tell
from tests.api.two_servers import two_servers

from fathom.api.admission.expansion import LOCKS
from fathom.model.objects import Key, Obj

APPS, BATCH = "/apis/apps/v1/namespaces/default", "/apis/batch/v1/namespaces/default"
OVERRIDES = f"{OWN}/namespaces/default/scheduleroverrides"
LABELS = {"app": "web"}
REGION = "topology.kubernetes.io/region"


def template(**labels: str) -> Obj:
    return {"metadata": {"labels": {**LABELS, **labels}}, "spec": pod("p")["spec"]}


def workload(kind: str, name: str, replicas: int, **meta: Any) -> Obj:
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template()}
    return {"kind": kind, "apiVersion": "apps/v1", "metadata": {"name": name, **meta}, "spec": spec}


def job(name: str, parallelism: int, **spec: Any) -> Obj:
    wanted = {"parallelism": parallelism, "completions": 9, "template": template(), **spec}
    wanted["template"]["spec"] = {**wanted["template"]["spec"], "restartPolicy": "Never"}
    return {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": name}, "spec": wanted}


def controlled(name: str, owner: Obj, **meta: Any) -> Obj:
    return pod(name, ownerReferences=[reference(owner)], labels=LABELS, **meta)


def reference(owner: Obj) -> Obj:
    meta = owner["metadata"]
    identity = {"kind": owner["kind"], "apiVersion": owner["apiVersion"], "name": meta["name"]}
    return {**identity, "uid": meta["uid"], "controller": True}


async def made(api: Api, path: str, obj: Obj) -> Obj:
    answer = await api.post(path, obj)
    assert answer.status == 201, answer.obj
    return dict(answer.obj)


async def pause(api: Api, target: str = "workload/web", scope: str = "cluster") -> Obj:
    changes = {"pauseExpansion": True}
    spec = {"target": target, "scope": scope, "reason": "calm", "expiresAfter": "10m", "changes": changes}
    return await made(api, OVERRIDES, own("SchedulerOverride", "calm", spec))


def refusal(answer: Answer) -> str:
    causes = (answer.obj.get("details") or {}).get("causes") or [{}]
    assert (answer.status, causes[0].get("reason")) == (403, "ExpansionPaused"), answer.obj
    assert "override default/calm pauses expansion until" in answer.obj["message"]
    return str(answer.obj["message"])


async def _scale(api: Api) -> Answer:
    return await api.patch(f"{APPS}/deployments/web/scale", {"spec": {"replicas": 3}})


async def _patch(api: Api) -> Answer:
    return await api.patch(f"{APPS}/deployments/web", {"spec": {"replicas": 3}})


async def _put(api: Api) -> Answer:
    current = (await api.get(f"{APPS}/deployments/web")).obj
    return await api.put(f"{APPS}/deployments/web", {**current, "spec": {**current["spec"], "replicas": 3}})


@pytest.mark.parametrize("write", [_scale, _patch, _put])
def test_a_paused_target_is_scaled_down_but_not_up(
    write: Callable[[Api], Awaitable[Answer]], tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        await made(api, f"{APPS}/deployments", workload("Deployment", "web", 2))
        await made(api, f"{APPS}/deployments", workload("Deployment", "other", 2))
        await pause(api)
        assert "it would grow from 2 to 3" in refusal(await write(api))
        assert (await api.patch(f"{APPS}/deployments/other", {"spec": {"replicas": 3}})).status == 200
        down = await api.patch(f"{APPS}/deployments/web/scale", {"spec": {"replicas": 1}})
        assert (down.status, down.obj["spec"]) == (200, {"replicas": 1})
        refusal(await write(api))
        await api.delete(f"{OVERRIDES}/calm")
        assert (await write(api)).status == 200

    tell(story, tmp_path)


def test_a_job_gets_no_more_parallelism_and_is_not_resumed(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await made(api, f"{BATCH}/jobs", job("web", 2))
        await made(api, f"{BATCH}/jobs", job("later", 2, suspend=True))
        await pause(api, "job/web")
        assert "from 2 to 4" in refusal(await api.patch(f"{BATCH}/jobs/web", {"spec": {"parallelism": 4}}))
        assert (await api.patch(f"{BATCH}/jobs/web", {"spec": {"parallelism": 1}})).status == 200
        assert (await api.patch(f"{BATCH}/jobs/later", {"spec": {"suspend": False}})).status == 200
        assert (await api.patch(f"{BATCH}/jobs/web", {"spec": {"suspend": True}})).status == 200
        assert "from 0 to 1" in refusal(await api.patch(f"{BATCH}/jobs/web", {"spec": {"suspend": False}}))

    tell(story, tmp_path)


def test_a_target_that_does_not_exist_yet_is_created_without_replicas_only(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await pause(api)
        refusal(await api.post(f"{APPS}/deployments", workload("Deployment", "web", 1)))
        await made(api, f"{APPS}/deployments", workload("Deployment", "web", 0))
        await made(api, PODS, pod("web"))  # It has no controller: it is nobody's growth.

    tell(story, tmp_path)


def test_a_target_of_one_kind_is_not_another_kind_of_that_name(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await made(api, f"{APPS}/deployments", workload("Deployment", "web", 1))
        await pause(api, "job/web")
        assert (await _scale(api)).status == 200

    tell(story, tmp_path)


def test_a_rollout_goes_on_within_its_surge(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        owner = await made(api, f"{APPS}/deployments", workload("Deployment", "web", 4))  # Surge: 25%, so 1.
        owners = [reference(owner)]
        old = workload("ReplicaSet", "web-1", 4, ownerReferences=owners)
        await made(api, f"{APPS}/replicasets", old)
        await pause(api, "deployment/web")
        new = workload("ReplicaSet", "web-2", 2, ownerReferences=owners)
        message = refusal(await api.post(f"{APPS}/replicasets", new))
        assert "its Deployment may have 5 pods, and would have 6" in message
        new["spec"]["replicas"] = 1
        await made(api, f"{APPS}/replicasets", new)
        refusal(await api.patch(f"{APPS}/replicasets/web-2/scale", {"spec": {"replicas": 2}}))
        await api.patch(f"{APPS}/replicasets/web-1", {"spec": {"replicas": 3}})
        assert (await api.patch(f"{APPS}/replicasets/web-2", {"spec": {"replicas": 2}})).status == 200

    tell(story, tmp_path)


def test_a_lost_pod_is_replaced_and_none_is_added(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        owner = await made(api, f"{APPS}/replicasets", workload("ReplicaSet", "web", 2))
        for name in ("a", "b"):
            await made(api, PODS, controlled(name, owner))
        override = await pause(api, "replicaset/web")
        message = refusal(await api.post(PODS, controlled("c", owner)))
        assert "ReplicaSet web asks for 2 pods, and 2 are there" in message
        await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
        await made(api, PODS, controlled("c", owner))
        refusal(await api.post(PODS, controlled("d", owner)))
        await api.patch(f"{PODS}/c/status", {"status": {"phase": "Failed"}})
        await made(api, PODS, controlled("d", owner))
        stranger = {**owner, "metadata": {**owner["metadata"], "uid": "another"}}
        assert "does not exist" in refusal(await api.post(PODS, controlled("e", stranger)))
        lock = Key("", override["metadata"]["uid"])
        assert api.core.cache.get(LOCKS, lock) is not None
        await api.delete(f"{OVERRIDES}/calm")
        await api.patch(f"{OVERRIDES}/calm", {"metadata": {"finalizers": None}})  # Its end is proven.
        assert api.core.cache.get(LOCKS, lock) is None
        await made(api, PODS, controlled("f", owner))

    tell(story, tmp_path)


def test_a_pod_is_known_by_its_controllers_not_by_its_labels(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        deployment = await made(api, f"{APPS}/deployments", workload("Deployment", "web", 0))
        of = workload("ReplicaSet", "web-7f2", 0, ownerReferences=[reference(deployment)])
        owner = await made(api, f"{APPS}/replicasets", of)
        await pause(api, "deployment/web")
        refusal(await api.post(PODS, controlled("p", owner)))

    tell(story, tmp_path)


def test_of_many_creates_at_once_only_as_many_succeed_as_are_missing(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        owner = await made(api, f"{APPS}/replicasets", workload("ReplicaSet", "web", 3))
        await pause(api)
        answers = await asyncio.gather(
            *(api.post(PODS, controlled(f"p-{number}", owner)) for number in range(12))
        )
        assert sorted(answer.status for answer in answers) == [201] * 3 + [403] * 9

    tell(story, tmp_path)


def test_a_pause_holds_only_for_a_workload_in_its_scope(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        for name, region in (("n1", "eu-west"), ("n2", "eu-east")):
            await api.post(NODES, node(name, labels={REGION: region}))
        owner = await made(api, f"{APPS}/replicasets", workload("ReplicaSet", "web", 1))
        path = f"{APPS}/replicasets/web"
        await pause(api, scope="region/eu-west")
        refusal(await api.patch(path, {"spec": {"replicas": 2}}))  # No pod of it has a node: it may go there.
        away = controlled("a", owner)
        away["spec"]["nodeName"] = "n2"
        await made(api, PODS, away)
        assert (await api.patch(path, {"spec": {"replicas": 2}})).status == 200
        there = controlled("b", owner)
        there["spec"]["nodeName"] = "n1"
        await made(api, PODS, there)
        refusal(await api.patch(path, {"spec": {"replicas": 3}}))

    tell(story, tmp_path)


@pytest.mark.parametrize("write", ["scale", "pod"])
def test_no_growth_that_was_judged_before_the_override_is_committed_after_it(
    write: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with two_servers(tmp_path, "/registry/pods/", "/registry/deploy") as (one, other, way):
            await made(one, f"{APPS}/deployments", workload("Deployment", "web", 2))
            owner = await made(one, f"{APPS}/replicasets", workload("ReplicaSet", "api", 0))
            await other.core.catch_up()
            way.first = lambda: pause(one, "workload/web" if write == "scale" else "workload/api")
            answer = await (_scale(other) if write == "scale" else other.post(PODS, controlled("p", owner)))
            assert way.first is None
            refusal(answer)

    asyncio.run(main())
