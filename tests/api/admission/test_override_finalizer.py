"""An override has its finalizer from its first commit on; an eviction names the override that asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.api.harness import Api, tell
from tests.security.people import introduce, lead

from fathom.model.accounts import CONTROLLERS
from fathom.model.objects import Obj
from fathom.model.user import User

OVERRIDES = "/apis/fathom.dev/v1alpha1/namespaces/default/scheduleroverrides"
PODS = "/api/v1/namespaces/default/pods"
REF = "default/drain@uid-1"


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


def test_only_the_controllers_name_an_override_in_an_eviction(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        introduce(api, User(CONTROLLERS))
        fence = await lead(api, CONTROLLERS, "fathom-system/controllers")
        told: list[str] = []
        reasons: list[str] = []
        for name, how in (("p", {}), ("q", {"token": CONTROLLERS, "headers": fence})):
            held = {"name": name, "finalizers": ["example.com/held"]}
            await api.post(PODS, {"metadata": held, "spec": {"containers": [{"name": "c", "image": "i"}]}})
            eviction = {"metadata": {"name": name, "annotations": {"fathom.dev/override": REF}}}
            assert (await api.post(f"{PODS}/{name}/eviction", eviction, **how)).status == 201
            conditions = (await api.get(f"{PODS}/{name}")).obj["status"]["conditions"]
            told += [each["message"] for each in conditions if each["type"] == "DisruptionTarget"]
            reasons += [each["reason"] for each in conditions if each["type"] == "fathom.dev/EvictedFor"]
        assert told == ["Eviction API: evicting", f"Eviction API: evicting, as override {REF} asks"]
        assert reasons == [REF]

    tell(story, tmp_path)
