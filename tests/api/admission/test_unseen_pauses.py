"""A write that was decided before an override paused something is refused, however late it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.api.binding.cluster import OWN, PODS, own, pod
from tests.api.harness import Answer, Api, serving, tell

from fathom.model.objects import Obj
from fathom.store.memory import MemoryStore
from fathom.store.protocol import Expect, Outcome, Write

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


class Interrupted:
    """The store of one of two servers: something happens just before its next commit of a pod."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.first: Callable[[], Awaitable[object]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        first = self.first
        if first is not None and any(write.key.startswith("/registry/pods/") for write in writes):
            self.first = None
            await first()
        return await self._store.commit(preconditions, writes)

    async def close(self) -> None: ...


def test_a_pause_that_comes_between_the_check_and_the_commit_is_not_overlooked(tmp_path: Path) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            store = MemoryStore()
            ways: list[Any] = [Interrupted(store), Interrupted(store)]
            servers: list[Api] = []
            for name, way in zip("ab", ways, strict=True):
                (tmp_path / name).mkdir()
                servers.append(
                    await stack.enter_async_context(serving(tmp_path / name, way, shared_store=True))
                )
            one, other = servers
            made: Obj = (await one.post(PODS, pod("p"))).obj
            await other.core.catch_up()
            ways[1].first = lambda: override(one, "pauseRepair")
            headers = {"fathom-overrides-seen": made["metadata"]["resourceVersion"]}
            assert is_refused(await other.call("DELETE", f"{PODS}/p", headers=headers))
            assert ways[1].first is None

    asyncio.run(story())
