"""Previews through the API: from a fork for who may fork the cluster, a pure what-if for others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.api.harness import JANE, Api
from tests.ask.processes import OWN, asked_server
from tests.ask.test_explanations import node
from tests.security.people import grant, grant_rule, namespaces

from fathom.ask.preview_child import entries_for_fork
from fathom.kinds.runbook import RunbookSpec, spec_hash
from fathom.model.body import Body
from fathom.model.objects import Obj
from fathom.store.protocol import Entry

WHERE = f"{OWN}/namespaces/shop/overridepreviews"
FORK = {"apiGroups": ["fathom.dev"], "resources": ["clusterstates"], "verbs": ["fork"]}
STEER = {"apiGroups": ["fathom.dev"], "resources": ["scheduleroverrides"], "verbs": ["*"]}


def override(**changes: Any) -> Obj:
    spec = {
        "target": "workload/web",
        "scope": "cluster",
        "reason": "zone a is stale",
        "expiresAfter": "30m",
        "changes": changes or {"avoidZones": ["a"]},
    }
    return {"kind": "SchedulerOverride", "metadata": {"name": "tried"}, "spec": spec}


def question(obj: Obj | None = None, **fields: Any) -> Obj:
    spec = {"override": obj or override(), "minutes": 1, "seeds": 1, **fields}
    return {"kind": "OverridePreview", "apiVersion": "fathom.dev/v1alpha1", "spec": spec}


def node_in(name: str, zone: str) -> Obj:
    labels = {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}
    return {**node(name), "metadata": {"name": name, "labels": labels}}


def web() -> Obj:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "web:1"}]},
    }
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": selector, "template": template},
    }


def told(story: Callable[[Api], Awaitable[None]], data: Path) -> None:
    async def main() -> None:
        async with asked_server(data) as (api, _):
            await namespaces(api, "shop")
            for name, zone in (("node-1", "a"), ("node-2", "b")):
                assert (await api.post("/api/v1/nodes", node_in(name, zone))).status == 201
            made = await api.post("/apis/apps/v1/namespaces/shop/deployments", web())
            assert made.status == 201, made.obj
            await story(api)

    asyncio.run(main())


async def asked(api: Api, body: Obj, **options: str) -> Obj:
    answer = await api.post(WHERE, body, **options)
    assert answer.status == 201, answer.obj
    status: Obj = answer.obj["status"]
    return status


@pytest.mark.live
def test_a_preview_is_answered_from_a_fork_and_the_cluster_does_not_move(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        before = api.core.cache.reached
        status = await asked(api, question())
        assert api.core.cache.reached == before
        assert await api.core.store.revision() == before
        assert (status["method"], status["revision"], status["seeds"]) == ("fork", before, ["1"])
        assert status["now"]["target"] == {"bound": {}, "ready": 0, "pending": 0, "evicted": 0}
        (with_,) = status["with"]
        assert with_["target"] == {"bound": {"b": 2}, "ready": 2, "pending": 0, "evicted": 0}
        (without,) = status["without"]
        assert without["target"]["bound"] == {"a": 1, "b": 1}
        rows = [(row["what"], row["zone"], row["change"]) for row in status["difference"]]
        assert rows[:2] == [("bound", "a", {"min": -1, "max": -1}), ("bound", "b", {"min": 1, "max": 1})]
        assert ("Deployment", "web", 1) in [
            (each["kind"], each["name"], each["generation"]) for each in status["touched"]
        ]
        assert (await asked(api, question())) == status, "the same question is answered from memory"
        assert (await api.get(f"{OWN}/namespaces/shop/scheduleroverrides")).obj["items"] == []

    told(story, tmp_path)


@pytest.mark.live
def test_a_preview_is_found_by_its_token_and_says_what_has_moved(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        status = await asked(api, question())
        again = await api.get(f"{WHERE}/{status['token']}")
        assert (again.status, again.obj["status"]) == (200, status)
        assert again.obj["spec"]["override"]["spec"] == override()["spec"]
        await api.patch("/apis/apps/v1/namespaces/shop/deployments/web", {"spec": {"replicas": 3}})
        later = await api.get(f"{WHERE}/{status['token']}")
        message = "its generation was 1 and is 2"
        moved = {"kind": "Deployment", "namespace": "shop", "name": "web", "message": message}
        assert later.obj["status"]["moved"] == [moved]
        assert (await api.get(f"{WHERE}/1-nothing")).status == 404
        assert (await api.get(f"{WHERE}/{status['token']}", token=JANE)).status == 404

    told(story, tmp_path)


def test_who_may_not_fork_gets_the_pure_what_if_and_is_told_so(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        assert (await api.post(WHERE, question(), token=JANE)).status == 403
        await grant(api, "jane", "view", "shop")
        waiting = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}}
        await api.post("/api/v1/namespaces/shop/pods", waiting)
        status = await asked(api, question(override(avoidZones=["a", "b"])), token=JANE)
        assert (status["method"], status["with"], status["without"]) == ("what-if", [], [])
        assert 'needs the verb "fork" on clusterstates.fathom.dev' in status["reason"]
        (about,) = status["whatIf"]
        assert about["pod"] == "shop/web"
        assert about["now"].startswith("it fits")
        assert "override" in about["with"]
        assert "node-1" not in str(status)
        kept = await api.get(f"{WHERE}/{status['token']}", token=JANE)
        assert (kept.status, kept.obj["status"]) == (200, status)

    told(story, tmp_path)


@pytest.mark.live
@pytest.mark.full
def test_the_verb_is_enough_for_the_fork_and_the_author_needs_his_own_rights_there(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await grant_rule(api, "jane", "may-fork", FORK)
        refused = await asked(api, question(), token=JANE)
        assert refused["method"] == "fork"
        assert refused["refused"]["code"] == 403
        assert (await asked(api, question()))["refused"] is None, "it is jane who may not"
        await grant_rule(api, "jane", "may-steer", STEER)
        status = await asked(api, question(), token=JANE)
        assert status["refused"] is None
        assert status["with"][0]["target"]["bound"] == {"b": 2}

    told(story, tmp_path)


def grown_run() -> Obj:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    step = {"id": "grow", "action": {"scale": {"target": target, "replicas": 4}}}
    content = msgspec.convert({"steps": [step]}, RunbookSpec)
    runbook = {"name": "grow", "source": "cluster", "version": 1, "hash": spec_hash(content)}
    spec = {"runbook": runbook, "content": msgspec.to_builtins(content)}
    return {"kind": "RunbookRun", "metadata": {"name": "tried"}, "spec": spec}


def question_of_run() -> Obj:
    asked = question(run=grown_run())
    del asked["spec"]["override"]
    return asked


@pytest.mark.live
def test_all_steps_of_a_run_are_tried_in_the_fork_and_none_in_the_cluster(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        before = api.core.cache.reached
        status = await asked(api, question_of_run())
        assert api.core.cache.reached == before
        (run,) = status["runs"]
        assert (run["phase"], [step["state"] for step in run["steps"]]) == ("Succeeded", ["Done"])
        assert [status[future][0]["cluster"]["ready"] for future in ("without", "with")] == [2, 4]
        kept = await api.get(f"{WHERE}/{status['token']}")
        assert kept.obj["spec"]["run"]["metadata"] == {"name": "tried", "namespace": "shop"}

    told(story, tmp_path)


def test_a_run_is_not_tried_for_who_may_not_fork(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await grant(api, "jane", "view", "shop")
        answer = await api.post(WHERE, question_of_run(), token=JANE)
        assert answer.status == 403
        assert 'needs the verb "fork" on clusterstates.fathom.dev' in answer.obj["message"]

    told(story, tmp_path)


def test_a_question_that_is_none_is_refused(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        nameless = {**override(), "metadata": {}}
        elsewhere = {**override(), "metadata": {"name": "tried", "namespace": "other"}}
        for body, message in (
            (question(nameless), "spec.override.metadata.name is missing"),
            (question(elsewhere), "spec.override is in another namespace than the question, 'shop'"),
            (question({**override(), "kind": "Pod"}), "spec.override must be a SchedulerOverride, not a Pod"),
            (question(run=grown_run()), "spec has both an override and a run; set one of them"),
            (question(minutes=0), "spec.minutes must be from 1 to 60, not 0"),
            (question(seeds=11), "spec.seeds must be from 1 to 10, not 11"),
        ):
            answer = await api.post(WHERE, body)
            assert (answer.status, answer.obj["message"]) == (400, message)
        nothing = {**override(), "spec": {**override()["spec"], "changes": {}}}
        assert (await api.post(WHERE, question(nothing))).causes == [("spec.changes", "FieldValueRequired")]
        assert (await api.delete(f"{WHERE}/x")).status == 405

    told(story, tmp_path)


def test_a_fork_has_no_contents_of_secrets_and_no_events() -> None:
    secret = {
        "kind": "Secret",
        "apiVersion": "v1",
        "metadata": {"name": "key", "annotations": {"last-applied": "hunter2"}},
        "type": "Opaque",
        "data": {"password": "aHVudGVyMg=="},
    }
    pod = {"kind": "Pod", "metadata": {"name": "web"}}
    entries = (
        Entry("/registry/events/shop/e1", Body({"kind": "Event"}), 3, 3),
        Entry("/registry/pods/shop/web", Body(pod), 4, 4),
        Entry("/registry/secrets/shop/key", Body(secret), 5, 5),
    )
    kept = entries_for_fork(entries)
    assert [entry.key for entry in kept] == ["/registry/pods/shop/web", "/registry/secrets/shop/key"]
    emptied = {"kind": "Secret", "apiVersion": "v1", "type": "Opaque"}
    assert Body(encoded=kept[1].body).obj == {
        **emptied,
        "metadata": {"name": "key"},
        "data": {"password": ""},
    }
