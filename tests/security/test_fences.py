"""A write of the scheduler or of the controllers names the lease that it holds, or is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.api.harness import Answer, Api, pod, tell
from tests.clients.running import running
from tests.security.people import CONTROLLERS, GATEWAY, OWN, SCHEDULER, introduce, lead

from fathom.model.user import MASTERS, User

PODS = "/api/v1/namespaces/default/pods"
MERGE = {"content-type": "application/merge-patch+json"}
HOME = {SCHEDULER: "fathom-system/scheduler", CONTROLLERS: "fathom-system/controllers"}


async def writes(api: Api, who: str, fence: dict[str, str]) -> dict[str, Answer]:
    """One of each sort of write."""
    status, binding = {"status": {"phase": "Running"}}, {"target": {"name": "n1"}}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    batch = {"items": [{"namespace": "default", "name": "p", "node": "n1"}]}
    merge = {**MERGE, **fence}
    return {
        "create": await api.post(PODS, pod("another"), token=who, headers=fence),
        "patch": await api.call(
            "PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, token=who, headers=merge
        ),
        "status": await api.call("PATCH", f"{PODS}/p/status", status, token=who, headers=merge),
        "batch": await api.post(f"{OWN}/bindingbatches", batch, token=who, headers=fence),
        "binding": await api.post(f"{PODS}/p/binding", binding, token=who, headers=fence),
        "eviction": await api.post(f"{PODS}/p/eviction", eviction, token=who, headers=fence),
        "delete": await api.delete(f"{PODS}/p", token=who, headers=fence),
        "collection": await api.delete(f"{PODS}?labelSelector=app", token=who, headers=fence),
    }


def refused(answers: dict[str, Answer]) -> dict[str, str]:
    """What was said to each; a batch is refused item by item."""
    found = {}
    for verb, answer in answers.items():
        if verb == "batch" and answer.status == 200:
            (item,) = answer.obj["results"]
            found[verb] = item["message"] if item["status"] == "Refused" else ""
        else:
            found[verb] = answer.obj["message"] if answer.status in {403, 409} else f"{answer.status}"
    return found


async def stage(api: Api) -> None:
    """Rights are not what is missing: the accounts are administrators here."""
    introduce(api, *(User(name, (MASTERS,)) for name in (SCHEDULER, CONTROLLERS, GATEWAY)))
    await api.post("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}})
    await api.post(PODS, pod("p", labels={"app": "x"}))


@pytest.mark.parametrize("who", [SCHEDULER, CONTROLLERS])
def test_every_write_of_a_leader_without_a_fence_is_refused(who: str, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await stage(api)
        for verb, message in refused(await writes(api, who, {})).items():
            assert f"{who} must hold the lease {HOME[who]}" in message, (verb, message)
        found = (await api.get(PODS)).obj["items"]
        assert [(one["metadata"]["name"], one["spec"].get("nodeName")) for one in found] == [("p", None)]

    tell(story, tmp_path)


@pytest.mark.parametrize("who", [SCHEDULER, CONTROLLERS])
@pytest.mark.parametrize(
    "lease",
    ["default/scheduler", "fathom-system/other", "fathom-system/schedulers", "kube-system/controllers"],
)
def test_the_fence_of_another_lease_is_as_good_as_none(who: str, lease: str, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await stage(api)
        fence = await lead(api, "admin-token", lease)
        for verb, message in refused(await writes(api, who, fence)).items():
            assert f"{who} must hold the lease {HOME[who]}" in message, (verb, message)

    tell(story, tmp_path)


@pytest.mark.parametrize(
    ("who", "lease"),
    [
        (SCHEDULER, "fathom-system/scheduler"),
        (SCHEDULER, "fathom-system/scheduler-mine"),
        (SCHEDULER, "fathom-system/scheduler-0of2"),
        (CONTROLLERS, "fathom-system/controllers"),
    ],
)
def test_with_its_own_fence_a_leader_writes(who: str, lease: str, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await stage(api)
        fence = await lead(api, who, lease)
        made = await api.post(PODS, pod("another"), token=who, headers=fence)
        assert made.status == 201, made.obj

    tell(story, tmp_path)


def test_one_leader_cannot_show_the_fence_of_the_other(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await stage(api)
        fence = await lead(api, SCHEDULER, HOME[SCHEDULER])
        answer = await api.post(PODS, pod("another"), token=CONTROLLERS, headers=fence)
        assert answer.status == 403, answer.obj

    tell(story, tmp_path)


def test_leases_events_and_questions_need_no_fence(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await stage(api)
        await lead(api, SCHEDULER, HOME[SCHEDULER])
        event = {
            "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        }
        told = await api.post("/api/v1/namespaces/default/events", event, token=SCHEDULER)
        assert told.status == 201, told.obj
        asked = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert (await api.post(reviews, asked, token=SCHEDULER)).status == 201

    tell(story, tmp_path)


def test_a_lease_that_is_not_its_own_needs_a_fence_too(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await stage(api)
        spec = {"holderIdentity": "me", "leaseDurationSeconds": 15}
        for namespace, name in (("kube-node-lease", "n1"), ("fathom-system", "controllers")):
            path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
            taken = await api.post(path, {"metadata": {"name": name}, "spec": spec}, token=SCHEDULER)
            assert taken.status == 403, taken.obj

    tell(story, tmp_path)


def test_who_leads_nothing_writes_without_a_fence(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await stage(api)
        status = {"status": {"conditions": [{"type": "fathom.dev/Serving", "status": "True"}]}}
        assert (await api.patch(f"{PODS}/p/status", status, "strategic", token=GATEWAY)).status == 200
        assert (await api.post(PODS, pod("by-admin"))).status == 201

    tell(story, tmp_path)


def test_a_process_with_our_account_and_no_lease_says_at_its_start_what_to_do(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        for part, lease in (("scheduler", ""), ("scheduler", "default/mine"), ("controllers", "")):
            command = [sys.executable, "-m", "fathom.cli", "serve", part, "--lease", lease]
            command += [
                "--kubeconfig",
                str(server.data / "credentials" / part),
                "--data",
                str(tmp_path / part),
            ]
            ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            assert ran.returncode == 2, ran.stderr
            said = f"the API server refuses writes of system:fathom:{part} without the lease"
            assert said in ran.stderr, ran.stderr
            assert "Traceback" not in ran.stderr
