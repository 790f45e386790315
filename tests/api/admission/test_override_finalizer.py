"""An override has its finalizer from its first commit on, and its end is proven when it has ended; an
eviction names the override that asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.api.harness import Api, tell
from tests.security.people import introduce, lead

from fathom.model.accounts import CONTROLLERS
from fathom.model.conditions import EVICTED_FOR
from fathom.model.objects import Obj
from fathom.model.user import User

OVERRIDES = "/apis/fathom.dev/v1alpha1/namespaces/default/scheduleroverrides"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"


def override(name: str, **meta: Any) -> Obj:
    spec = {
        "target": "workload/web",
        "scope": "cluster",
        "reason": "a test",
        "expiresAfter": "10m",
        "changes": {"pauseRollout": True},
    }
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": name, **meta},
        "spec": spec,
    }


def test_an_override_is_created_with_its_finalizer_and_stays_when_it_is_deleted(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        made = await api.post(OVERRIDES, override("calm", finalizers=["example.com/mine"]))
        assert made.obj["metadata"]["finalizers"] == ["example.com/mine", "fathom.dev/override"]
        await api.delete(f"{OVERRIDES}/calm")
        kept = await api.get(f"{OVERRIDES}/calm")
        assert kept.status == 200
        assert kept.obj["metadata"]["deletionTimestamp"]

    tell(story, tmp_path)


def test_the_end_of_an_override_is_not_proven_before_it_has_ended(tmp_path: Path) -> None:
    """A controller whose clock is ahead would: the override goes on acting, and the proof is false."""

    def said(generation: int) -> Obj:
        proven = {"type": "RepairComplete", "status": "True", "reason": "NothingLeft"}
        conditions = [{**proven, "observedGeneration": generation}]
        return {"status": {"active": False, "conditions": conditions}}

    async def story(api: Api) -> None:
        await api.post(OVERRIDES, override("calm"))
        early = await api.patch(f"{OVERRIDES}/calm/status", said(1))
        assert (early.status, early.obj["reason"]) == (409, "Conflict")
        assert "has not ended by the API server's clock" in early.obj["message"]
        seen = await api.patch(f"{OVERRIDES}/calm/status", {"status": {"observedGeneration": 1}})
        assert seen.status == 200, "other reports are written"
        deleted = (await api.delete(f"{OVERRIDES}/calm")).obj
        proven = said(deleted["metadata"]["generation"])
        assert (await api.patch(f"{OVERRIDES}/calm/status", proven)).status == 200

    tell(story, tmp_path)


async def draining(api: Api) -> tuple[str, Obj]:
    """Three pods on a node that an override drains: what evictions for it name, and who may say so."""
    introduce(api, User(CONTROLLERS))
    fence = await lead(api, CONTROLLERS, "fathom-system/controllers")
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    await api.post(NODES, {"metadata": {"name": "n1"}, "status": {"capacity": room, "allocatable": room}})
    for name in ("p", "q", "r"):
        held = {"name": name, "finalizers": ["example.com/held"]}
        spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
        assert (await api.post(PODS, {"metadata": held, "spec": spec})).status == 201
    drain = override("drain")
    drain["spec"] |= {"target": "node/n1", "changes": {"drain": True}}
    made = await api.post(OVERRIDES.replace("default", "fathom-system"), drain)
    assert made.status == 201, made.obj
    return f"fathom-system/drain@{made.obj['metadata']['uid']}", {"token": CONTROLLERS, "headers": fence}


async def evicted(api: Api, name: str, by: str, **how: Any) -> tuple[int, list[str]]:
    """The status of the answer, and what the pod says about its eviction."""
    eviction = {"metadata": {"name": name, "annotations": {"fathom.dev/override": by}}}
    answer = await api.post(f"{PODS}/{name}/eviction", eviction, **how)
    conditions = (await api.get(f"{PODS}/{name}")).obj["status"].get("conditions") or ()
    told = [each["message"] for each in conditions if each["type"] == "DisruptionTarget"]
    return answer.status, told + [each["reason"] for each in conditions if each["type"] == EVICTED_FOR]


def test_only_the_controllers_name_an_override_in_an_eviction(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        by, how = await draining(api)
        assert await evicted(api, "p", by) == (201, ["Eviction API: evicting"])
        why = f"Eviction API: evicting, as override {by} asks"
        assert await evicted(api, "q", by, **how) == (201, [why, by])

    tell(story, tmp_path)


def test_an_eviction_that_its_override_does_not_ask_for_any_more_is_refused(tmp_path: Path) -> None:
    """1. The controllers decide to evict a pod. 2. The override ends. 3. The eviction arrives."""

    async def story(api: Api) -> None:
        by, how = await draining(api)
        assert await evicted(api, "p", f"{by}-of-another", **how) == (409, [])
        await api.delete(f"{OVERRIDES.replace('default', 'fathom-system')}/drain")
        assert await evicted(api, "q", by, **how) == (409, [])

    tell(story, tmp_path)
