"""Which kinds are behind: each kind's own last change counts, not the store's newest revision."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.api.harness import Api, pod
from tests.ask.processes import OWN, AskedProcess
from tests.ask.test_decisions import asked

from fathom.ask.objects import CachedObjects
from fathom.model.decision import SeenVersions
from fathom.model.objects import Obj

WHERE = f"{OWN}/namespaces/default/explanations"
PODS, MAPS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"


async def status_of(api: Api) -> Obj:
    spec = {"subject": {"kind": "Pod", "name": "web"}, "view": "status"}
    question = {"kind": "Explanation", "apiVersion": "fathom.dev/v1alpha1", "spec": spec}
    answer = await api.post(WHERE, question)
    assert answer.status == 201, answer.obj
    status: Obj = answer.obj["status"]
    return status


def revision_of(obj: Obj) -> int:
    return int(obj["metadata"]["resourceVersion"])


def test_the_last_change_of_a_kind_is_its_own_and_a_deletion_counts(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        created = revision_of((await api.post(PODS, pod("web"))).obj)
        await api.post(MAPS, {"metadata": {"name": "later"}})
        objects = CachedObjects(api.core.cache)
        assert (objects.last_change("pods"), objects.revision("pods") > created) == (created, True)
        await api.delete(f"{PODS}/web", {"gracePeriodSeconds": 0})
        deleted = CachedObjects(api.core.cache)
        assert deleted.list("pods") == []
        assert deleted.last_change("pods") > objects.revision("pods")
        assert deleted.last_change("none.such") == 0

    asked(story, tmp_path)


def test_a_kind_whose_last_change_the_scheduler_has_is_not_behind(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        caches: dict[str, SeenVersions] = {}
        part = scheduler.registry.part("scheduler")
        part.describe("caches", lambda about: msgspec.to_builtins(caches))
        created = revision_of((await api.post(PODS, pod("web"))).obj)
        await api.post(MAPS, {"metadata": {"name": "later"}})
        for seen, behind in ((created, False), (created - 1, True)):
            caches["Pod"] = SeenVersions(seen)
            status = await status_of(api)
            used, latest = status["cacheRevision"]["Pod"]["value"], status["latestRevision"]["Pod"]["value"]
            assert (latest, used < latest) == (created, behind)

    asked(story, tmp_path)
