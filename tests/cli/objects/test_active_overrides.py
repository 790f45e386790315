"""What commands about objects say of overrides that are active for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.api.harness import ADMIN, JANE, Api
from tests.cli.steering import OWN, Person, acknowledge, steered
from tests.security.people import grant_rule

from fathom.cli.objects.describe import why_lines
from fathom.cli.objects.override_notes import Shown, note_lines
from fathom.cli.objects.rollout import Rollout, rollout_of
from fathom.model.times import moment_ns

CREATED = "2026-01-01T12:00:00Z"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PAUSED = {
    "type": "Progressing",
    "status": "Unknown",
    "reason": "DeploymentPaused",
    "message": "Deployment is paused by the override calm",
}


def deployment(*conditions: dict[str, Any], updated: int) -> dict[str, Any]:
    status = {"observedGeneration": 1, "updatedReplicas": updated, "replicas": 2, "availableReplicas": 2}
    meta = {"name": "web", "generation": 1}
    return {"metadata": meta, "spec": {"replicas": 2}, "status": {**status, "conditions": list(conditions)}}


def test_a_rollout_that_an_override_pauses_says_so() -> None:
    waits = 'Waiting for deployment "web" rollout to finish: 0 out of 2 new replicas have been updated...'
    assert rollout_of(deployment(PAUSED, updated=0)) == Rollout(
        waits, paused="Deployment is paused by the override calm"
    )
    assert rollout_of(deployment(updated=0)) == Rollout(waits)
    done = Rollout('deployment "web" successfully rolled out', done=True)
    assert rollout_of(deployment(PAUSED, updated=2)) == done


def test_a_description_names_the_overrides_that_are_active() -> None:
    calm = {"name": "calm", "author": "ann", "endsIn": "9m", "changes": ["cordon"]}
    answer = {"summary": "Node n is as wanted", "subject": {"resource": "nodes"}, "activeOverrides": [calm]}
    assert why_lines(answer) == [
        "Why:",
        "  Node n is as wanted",
        "  override calm (by ann, ends in 9m) is active for this node: cordon",
    ]
    assert why_lines({"summary": "all is well"}) == ["Why:", "  all is well"]


def test_an_override_that_everybody_declined_is_not_called_active() -> None:
    entry = {"controller": "autoscaler", "state": "Declined", "reason": "NoEnforcer", "observedGeneration": 1}
    meta = {"name": "calm", "namespace": "default", "generation": 1, "creationTimestamp": CREATED}
    obj = {"metadata": meta, "spec": {**CALM, "changes": {"pauseAutoscaler": True}}, "status": {}}
    held = [Shown("Deployment", "deployment.apps/web", {"metadata": {"name": "web", "namespace": "default"}})]
    now_ns = moment_ns(CREATED) or 0
    (line,) = note_lines([obj], held, now_ns=now_ns)
    assert line.startswith(
        "Note: the override default/calm of somebody is active for deployment.apps/web until"
    )
    assert note_lines([{**obj, "status": {"acknowledgements": [entry]}}], held, now_ns=now_ns) == []


# On a real API server.

CALM = {
    "target": "deployment/web",
    "scope": "cluster",
    "reason": "no more pods for now",
    "expiresAfter": "45m",
    "changes": {"pauseExpansion": True},
}
DRAINED = {**CALM, "target": "node/node-1", "changes": {"cordon": True}}
SYSTEM = OWN.replace("default", "fathom-system")


def calm(spec: dict[str, Any]) -> dict[str, Any]:
    kind = {"apiVersion": "fathom.dev/v1alpha1", "kind": "SchedulerOverride"}
    return {**kind, "metadata": {"name": "calm"}, "spec": spec}


def calm_note(api_obj: dict[str, Any], what: str, changes: str, enforced: str) -> str:
    meta, status = api_obj["metadata"], api_obj["status"]
    return (
        f"Note: the override {meta['namespace']}/{meta['name']} of admin is active for {what} until"
        f" {status['expiresAt']}: {changes}; {enforced}\n"
    )


async def deployed(api: Api) -> None:
    pods = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": pods}
    made = await api.post(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    assert made.status == 201, made.obj


async def web_and_its_override(api: Api) -> dict[str, Any]:
    await deployed(api)
    made = await api.post(f"{OWN}/scheduleroverrides", calm(CALM))
    assert made.status == 201, made.obj
    override: dict[str, Any] = made.obj
    return override


def test_commands_about_a_workload_name_the_override_that_holds_it(tmp_path: Path) -> None:
    async def story(api: Api, people: Callable[[str], Person]) -> None:
        override, admin = await web_and_its_override(api), people(ADMIN)
        waits = "enforced by autoscaler and quota-controller, of which autoscaler has not acknowledged it"
        note = calm_note(override, "deployment.apps/web", "pauseExpansion", waits)
        assert await admin.fathom("scale", "deploy/web", "--replicas=1") == (
            0,
            "deployment.apps/web scaled\n",
            note,
        )
        assert (await admin.fathom("rollout", "restart", "deploy/web"))[2] == note
        await acknowledge(api, "calm", "autoscaler", "quota-controller")
        note = calm_note(
            override, "deployment.apps/web", "pauseExpansion", "enforced by autoscaler and quota-controller"
        )
        assert (await admin.fathom("get", "deploy/web"))[2] == note
        assert (await admin.fathom("get", "deploy", "-A"))[2] == note
        assert (await admin.fathom("get", "deploy/web", "-o", "yaml"))[2] == ""
        assert (await admin.fathom("get", "namespaces"))[2] == ""
        assert (await admin.fathom("set", "image", "deploy/web", "c=other"))[2] == note

    steered(story, tmp_path)


def test_commands_about_a_node_name_the_override_that_cordons_it(tmp_path: Path) -> None:
    async def story(api: Api, people: Callable[[str], Person]) -> None:
        await api.post("/api/v1/nodes", {"metadata": {"name": "node-1"}})
        await api.post("/api/v1/nodes", {"metadata": {"name": "node-2"}})
        made = await api.post(f"{SYSTEM}/scheduleroverrides", calm(DRAINED))
        waits = "enforced by scheduler, which has not acknowledged it"
        note = calm_note(made.obj, "node/node-1", "cordon", waits)
        admin = people(ADMIN)
        assert (await admin.fathom("get", "nodes"))[2] == note
        assert (await admin.fathom("uncordon", "node-1"))[1:] == ("node/node-1 already uncordoned\n", note)
        assert (await admin.fathom("cordon", "node-2"))[1:] == ("node/node-2 cordoned\n", "")

    steered(story, tmp_path)


def test_who_may_not_read_overrides_is_told_nothing_of_them(tmp_path: Path) -> None:
    async def story(api: Api, people: Callable[[str], Person]) -> None:
        await web_and_its_override(api)
        every = {"apiGroups": ["apps"], "resources": ["deployments", "deployments/scale"], "verbs": ["*"]}
        await grant_rule(api, "jane", "deployments", every)
        jane = people(JANE)
        assert await jane.fathom("scale", "deploy/web", "--replicas=1") == (
            0,
            "deployment.apps/web scaled\n",
            "",
        )
        assert (await jane.fathom("get", "deploy/web"))[2] == ""

    steered(story, tmp_path)
