"""A write that was decided before an override paused something is refused, however late it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.api.binding.cluster import OWN, PODS, own, pod
from tests.api.harness import Answer, Api, tell
from tests.api.two_servers import two_servers

from fathom.model.objects import Obj

APPS = "/apis/apps/v1/namespaces/default"
MERGE = "application/merge-patch+json"


async def override(
    api: Api, *changes: str, target: str = "workload/web", namespace: str = "default", name: str = "calm"
) -> int:
    """Makes one that changes these; returns its revision."""
    spec = {"target": target, "scope": "cluster", "reason": "calm", "expiresAfter": "10m"}
    asked = own("SchedulerOverride", name, {**spec, "changes": dict.fromkeys(changes, True)})
    answer = await api.post(f"{OWN}/namespaces/{namespace}/scheduleroverrides", asked)
    assert answer.status == 201, answer.obj
    return int(answer.obj["metadata"]["resourceVersion"])


async def revision(api: Api) -> int:
    return int((await api.get(f"{OWN}/scheduleroverrides")).obj["metadata"]["resourceVersion"])


async def delete(api: Api, seen: int | str) -> Answer:
    await api.post(PODS, pod("p"))
    body = {"gracePeriodSeconds": 0}
    return await api.call("DELETE", f"{PODS}/p", body, headers={"fathom-overrides-seen": str(seen)})


def is_refused(answer: Answer) -> bool:
    refused = (answer.status, answer.reason, answer.causes) == (409, "Conflict", [("", "OverrideUnseen")])
    assert refused or answer.status < 300, answer.obj
    return refused


def test_what_was_decided_before_a_pause_is_refused_and_what_was_decided_by_it_is_not(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        before = await revision(api)
        made = await override(api, "pauseRepair")
        late = await delete(api, before)
        assert is_refused(late)
        assert late.obj["message"].endswith(
            f"it was decided by the overrides at revision {before},"
            f" and override default/calm changed at revision {made}"
        )
        assert not is_refused(await delete(api, made))

    tell(story, tmp_path)


def test_creates_patches_and_statuses_are_judged_too(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(PODS, pod("p"))
        before = {"fathom-overrides-seen": str(await revision(api))}
        await override(api, "pauseRollout")
        merge = {"content-type": MERGE, **before}
        ended = {"status": {"phase": "Failed"}}
        answers = [
            await api.post(PODS, pod("q"), headers=before),
            await api.call("PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, headers=merge),
            await api.call("PATCH", f"{PODS}/p/status", ended, headers=merge),
        ]
        assert [is_refused(answer) for answer in answers] == [True, True, True]

    tell(story, tmp_path)


@pytest.mark.parametrize(
    ("changes", "more", "refused"),
    [
        (("pauseAutoscaler",), {}, True),
        (("pauseExpansion",), {}, True),
        (("pauseRepair",), {"target": "zone/a", "namespace": "fathom-system"}, True),
        (("pauseRepair",), {"namespace": "other"}, False),
        (("cordon",), {"target": "zone/a", "namespace": "fathom-system"}, False),
    ],
)
def test_only_pauses_that_may_concern_the_object_count(
    changes: Sequence[str], more: Any, refused: bool, tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
        before = await revision(api)
        await override(api, *changes, **more)
        assert is_refused(await delete(api, before)) == refused

    tell(story, tmp_path)


def test_a_pause_that_is_over_stops_nothing(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        before = await revision(api)
        await override(api, "pauseRepair")
        await api.delete(f"{OWN}/namespaces/default/scheduleroverrides/calm")
        assert not is_refused(await delete(api, before))

    tell(story, tmp_path)


def test_who_does_not_say_by_which_overrides_it_decided_is_not_judged(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await override(api, "pauseRepair")
        assert not is_refused(await delete(api, ""))
        assert (await api.post(PODS, pod("p"))).status == 201
        odd = await api.call("DELETE", f"{PODS}/p", headers={"fathom-overrides-seen": "-1"})
        assert (odd.status, odd.reason) == (400, "BadRequest")

    tell(story, tmp_path)


def test_a_pause_that_comes_between_the_check_and_the_commit_is_not_overlooked(tmp_path: Path) -> None:
    async def story() -> None:
        async with two_servers(tmp_path, "/registry/pods/") as (one, other, way):
            made: Obj = (await one.post(PODS, pod("p"))).obj
            await other.core.catch_up()
            way.first = lambda: override(one, "pauseRepair")
            headers = {"fathom-overrides-seen": made["metadata"]["resourceVersion"]}
            assert is_refused(await other.call("DELETE", f"{PODS}/p", headers=headers))
            assert way.first is None

    asyncio.run(story())


def test_nor_is_it_when_an_update_removes_the_object_with_its_last_finalizer(tmp_path: Path) -> None:
    async def story() -> None:
        async with two_servers(tmp_path, "/registry/pods/") as (one, other, way):
            held = pod("p")
            held["metadata"]["finalizers"] = ["example.com/hold"]
            made: Obj = (await one.post(PODS, held)).obj
            assert (await one.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})).status == 200
            await other.core.catch_up()
            way.first = lambda: override(one, "pauseRepair")
            headers = {"fathom-overrides-seen": made["metadata"]["resourceVersion"], "content-type": MERGE}
            freed = {"metadata": {"finalizers": None}}
            assert is_refused(await other.call("PATCH", f"{PODS}/p", freed, headers=headers))
            assert way.first is None
            assert (await one.get(f"{PODS}/p")).status == 200

    asyncio.run(story())
