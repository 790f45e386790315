"""Admission seen from a client's side, on a whole server."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from tests.api.harness import Api, tell

from fathom.model.objects import Obj
from fathom.record.audit_reading import read_entries, writers_of

PODS = "/api/v1/namespaces/default/pods"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


def pod(name: str, **spec: Any) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


def quota(**hard: str) -> Obj:
    spec = {"hard": {name.replace("_", "."): value for name, value in hard.items()}}
    return {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q"}, "spec": spec}


async def used(api: Api) -> Obj:
    answer = await api.get(f"{QUOTAS}/q")
    found: Obj = answer.obj["status"]["used"]
    return found


def test_of_many_that_come_at_once_exactly_those_get_in_for_whom_there_is_room(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        assert (await api.post(QUOTAS, quota(pods="10"))).status == 201
        answers = await asyncio.gather(*(api.post(PODS, pod(f"p{number}")) for number in range(25)))
        assert Counter(answer.status for answer in answers) == {201: 10, 403: 15}
        assert await used(api) == {"pods": "10"}

    tell(story, tmp_path)


def test_many_that_end_or_go_at_once_are_each_let_go_once(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        for number in range(20):
            await api.post(PODS, pod(f"p{number}"))
        await api.post(QUOTAS, quota(pods="30"))
        ended = [
            api.patch(f"{PODS}/p{number}/status", {"status": {"phase": "Failed"}}) for number in range(10)
        ]
        gone = [api.delete(f"{PODS}/p{number}", {"gracePeriodSeconds": 0}) for number in range(5, 15)]
        answers = await asyncio.gather(*ended, *gone)
        assert {answer.status for answer in answers} <= {200, 404}
        assert await used(api) == {"pods": "5"}

    tell(story, tmp_path)


def test_a_quota_follows_a_pod_through_its_life(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(PODS, pod("before"))
        created = await api.post(QUOTAS, quota(pods="3", requests_cpu="1"))
        assert created.obj["status"]["used"] == {"pods": "1", "requests.cpu": "100m"}
        await api.post(PODS, pod("a"))
        assert await used(api) == {"pods": "2", "requests.cpu": "200m"}
        ended = await api.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
        assert ended.status == 200
        assert await used(api) == {"pods": "1", "requests.cpu": "100m"}
        await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
        await api.delete(f"{PODS}/before", {"gracePeriodSeconds": 0})
        assert await used(api) == {"pods": "0", "requests.cpu": "0"}

    tell(story, tmp_path)


def test_the_audit_log_tells_which_plugin_wrote_a_field_and_who_was_refused(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(PODS, pod("a"))
        await api.patch(f"{PODS}/a", {"metadata": {"labels": {"team": "x"}}})
        refused = await api.post(PODS, pod("b", priorityClassName="none"))
        assert (refused.status, refused.reason) == (403, "Forbidden")
        api.audit.flush()

    tell(story, tmp_path)
    entries = list(read_entries(tmp_path / "audit", resource="pods"))
    known = {"resource": "pods", "namespace": "default", "name": "a"}
    (created,) = writers_of(entries, **known, field_path="spec.priority")
    assert (created.entry.user, created.plugins) == ("admin", ("Priority",))
    labelled = writers_of(entries, **known, field_path="metadata.labels[team]")
    assert [(one.entry.verb, one.certain) for one in labelled] == [("create", False), ("patch", True)]
    (denied,) = [entry for entry in entries if entry.code == 403]
    assert [(verdict.plugin, bool(verdict.denied)) for verdict in denied.admission][-1] == ("Priority", True)


def test_a_namespace_that_is_going_away_takes_nothing_new(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(
            "/api/v1/namespaces", {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "x"}}
        )
        held = pod("held")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await api.post("/api/v1/namespaces/x/pods", held)
        await api.delete("/api/v1/namespaces/x")
        refused = await api.post("/api/v1/namespaces/x/pods", pod("late"))
        assert (refused.status, refused.reason) == (403, "Forbidden")
        assert ("metadata.namespace", "NamespaceTerminating") in refused.causes
        missing = await api.post("/api/v1/namespaces/y/pods", pod("lost"))
        assert (missing.status, missing.obj["message"]) == (404, 'namespaces "y" not found')

    tell(story, tmp_path)
