"""Pods whose claims wait for their first consumer, scheduled beside a server that is not fathom's. The test
plays the cluster's volume controller and the provisioner of the storage class."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.attach.foreign import PODS, Foreign
from tests.attach.scheduled import placed, scheduling, verdicts, waiting

from fathom.schedule.decide.delayed_claims import SELECTED_NODE
from fathom.schedule.loop.volume_binding import VolumeBinding

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ZONE = "topology.kubernetes.io/zone"


def storage_class(provisioner: str = "example.com/disks", *zones: str) -> dict[str, Any]:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}] if zones else None
    return {
        "metadata": {"name": "slow"},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **({"allowedTopologies": allowed} if allowed else {}),
    }


def claim(name: str = "data") -> dict[str, Any]:
    needs = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": {"storageClassName": "slow", **needs}}


def volume(name: str, zone: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    spec = {
        "storageClassName": "slow",
        "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/disks/1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def consumer(name: str, claim_name: str = "data") -> dict[str, Any]:
    made = waiting(name)
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": claim_name}}]
    return {**made, "spec": {**made["spec"], "volumes": volumes}}


async def created(cluster: Foreign, *objects: tuple[str, dict[str, Any]]) -> None:
    for path, obj in objects:
        answer = await cluster.api.post(path, obj)
        assert answer.status == 201, answer.obj


async def selected(cluster: Foreign, name: str = "data") -> str:
    """The node that the scheduler has selected for the claim."""

    async def is_selected() -> bool:
        return bool(await node_of(cluster, name))

    await cluster.api.eventually(is_selected, timeout_s=30)
    return await node_of(cluster, name)


async def node_of(cluster: Foreign, name: str) -> str:
    notes = (await cluster.api.get(f"{CLAIMS}/{name}")).obj["metadata"].get("annotations") or {}
    return str(notes.get(SELECTED_NODE) or "")


async def bind_claim(cluster: Foreign, volume_name: str, name: str = "data") -> None:
    """As the volume controller does it."""
    answer = await cluster.api.patch(f"{CLAIMS}/{name}", {"spec": {"volumeName": volume_name}})
    assert answer.status == 200, answer.obj
    await cluster.api.patch(f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound"}})


def told(story: Callable[[Foreign], Awaitable[None]], tmp_path: Path) -> None:
    async def main() -> None:
        async with scheduling(tmp_path) as cluster:
            await story(cluster)

    asyncio.run(main())


async def has_node(cluster: Foreign, name: str) -> bool:
    return bool((await cluster.api.get(f"{PODS}/{name}")).obj["spec"].get("nodeName"))


def test_a_claim_is_provisioned_for_the_node_of_its_pod_which_is_bound_after_it(tmp_path: Path) -> None:
    async def story(cluster: Foreign) -> None:
        # Zone b has more room, and may not have the volume.
        await created(cluster, (CLASSES, storage_class("example.com/disks", "a")), (CLAIMS, claim()))
        await created(cluster, (PODS, consumer("db")))
        assert await selected(cluster) == "node-1"
        await created(cluster, (PODS, waiting("web")))
        await placed(cluster, "web")  # Others do not wait for the volume,
        assert not await has_node(cluster, "db")  # and the pod does.
        await created(cluster, (VOLUMES, volume("made", "a")))
        await bind_claim(cluster, "made")
        assert await placed(cluster, "db") == "node-1"

    told(story, tmp_path)
    assert verdicts(tmp_path, "db") == ["bind"]
    assert verdicts(tmp_path, "data") == ["patch"]


def test_a_volume_that_is_there_is_given_to_the_claim_and_decides_the_node(tmp_path: Path) -> None:
    async def story(cluster: Foreign) -> None:
        await created(cluster, (CLASSES, storage_class("kubernetes.io/no-provisioner")))
        await created(cluster, (VOLUMES, volume("disk-a", "a")), (CLAIMS, claim()))
        await cluster.api.patch(f"{VOLUMES}/disk-a/status", {"status": {"phase": "Available"}})
        await created(cluster, (PODS, consumer("db")))

        async def is_given() -> bool:
            given = (await cluster.api.get(f"{VOLUMES}/disk-a")).obj["spec"].get("claimRef") or {}
            return bool(given.get("name") == "data")

        await cluster.api.eventually(is_given, timeout_s=30)
        assert not await has_node(cluster, "db")
        await bind_claim(cluster, "disk-a")
        assert await placed(cluster, "db") == "node-1"
        assert not await node_of(cluster, "data")

    told(story, tmp_path)


def test_a_pod_whose_volume_can_be_had_nowhere_says_so(tmp_path: Path) -> None:
    async def story(cluster: Foreign) -> None:
        await created(cluster, (CLASSES, storage_class("kubernetes.io/no-provisioner")), (CLAIMS, claim()))
        await created(cluster, (PODS, consumer("db")))

        async def message() -> str:
            conditions = (await cluster.api.get(f"{PODS}/db")).obj["status"].get("conditions") or ()
            return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")

        async def is_told() -> bool:
            return bool(await message())

        await cluster.api.eventually(is_told, timeout_s=30)
        text = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind"
        assert (await message()).startswith(text)
        await created(cluster, (VOLUMES, volume("disk-b", "b")))
        await cluster.api.patch(f"{VOLUMES}/disk-b/status", {"status": {"phase": "Available"}})
        await cluster.api.eventually(lambda: _is_given(cluster, "disk-b"), timeout_s=30)

    told(story, tmp_path)


async def _is_given(cluster: Foreign, name: str) -> bool:
    return "claimRef" in (await cluster.api.get(f"{VOLUMES}/{name}")).obj["spec"]


def test_when_the_provisioner_gives_a_node_up_another_is_selected(tmp_path: Path) -> None:
    async def story(cluster: Foreign) -> None:
        await created(cluster, (CLASSES, storage_class()), (CLAIMS, claim()), (PODS, consumer("db")))
        assert await selected(cluster) == "node-2"  # It has more room.
        await cluster.api.patch("/api/v1/nodes/node-2", {"spec": {"unschedulable": True}})
        gives_up = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        await cluster.api.patch(f"{CLAIMS}/data", gives_up)
        assert await selected(cluster) == "node-1"
        await created(cluster, (VOLUMES, volume("made", "a")))
        await bind_claim(cluster, "made")
        assert await placed(cluster, "db") == "node-1"

    told(story, tmp_path)


def test_a_provisioner_that_gives_up_before_the_scheduler_looks_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. The scheduler writes the node to the claim. 2. The provisioner removes it. 3. The scheduler looks
    at the claim."""
    given_up, look = asyncio.Event(), VolumeBinding._until_bound

    async def late(*args: Any) -> str | None:
        await given_up.wait()
        return await look(*args)

    monkeypatch.setattr(VolumeBinding, "_until_bound", late)

    async def story(cluster: Foreign) -> None:
        await created(cluster, (CLASSES, storage_class()), (CLAIMS, claim()), (PODS, consumer("db")))
        assert await selected(cluster) == "node-2"
        await cluster.api.patch("/api/v1/nodes/node-2", {"spec": {"unschedulable": True}})
        await cluster.api.patch(f"{CLAIMS}/data", {"metadata": {"annotations": {SELECTED_NODE: None}}})
        await asyncio.sleep(1)  # The scheduler's cache follows.
        given_up.set()
        assert await selected(cluster) == "node-1"

    told(story, tmp_path)


def test_a_scheduler_that_takes_over_goes_on_with_the_node_that_was_selected(tmp_path: Path) -> None:
    async def story(cluster: Foreign) -> None:
        chosen = {**claim(), "metadata": {"name": "data", "annotations": {SELECTED_NODE: "node-1"}}}
        await created(cluster, (CLASSES, storage_class()), (CLAIMS, chosen), (PODS, consumer("db")))
        await created(cluster, (VOLUMES, volume("made", "a")))
        await bind_claim(cluster, "made")
        assert await placed(cluster, "db") == "node-1"

    told(story, tmp_path)


def test_a_pod_that_is_deleted_while_it_waits_leaves_its_room_to_others(tmp_path: Path) -> None:
    async def story(cluster: Foreign) -> None:
        await created(cluster, (CLASSES, storage_class()), (CLAIMS, claim()))
        large = consumer("db")
        large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "15"}}
        await created(cluster, (PODS, large))
        assert await selected(cluster) == "node-2"
        await cluster.api.delete(f"{PODS}/db", {"gracePeriodSeconds": 0})
        await created(cluster, (PODS, waiting("web", "15")))
        assert await placed(cluster, "web") == "node-2"

    told(story, tmp_path)


def test_a_pod_that_claims_devices_is_refused_with_that_reason(tmp_path: Path) -> None:
    async def story(cluster: Foreign) -> None:
        made = waiting("gpu")
        claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
        await created(cluster, (PODS, {**made, "spec": {**made["spec"], "resourceClaims": claims}}))

        async def is_told() -> bool:
            conditions = (await cluster.api.get(f"{PODS}/gpu")).obj["status"].get("conditions") or ()
            text = "which this scheduler does not allocate"
            return any(text in each.get("message", "") for each in conditions)

        await cluster.api.eventually(is_told, timeout_s=30)
        assert not await has_node(cluster, "gpu")

    told(story, tmp_path)
