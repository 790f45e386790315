"""A server that is behind a shared store catches up before it refuses a write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import Api, deployment, serving
from tests.security.people import OWN
from tests.security.steering import SHIFT, override

from fathom.model.objects import Obj
from fathom.store.memory import MemoryStore
from fathom.store.protocol import Batch

OVERRIDES = f"{OWN}/namespaces/default/scheduleroverrides"
OTHERWISE: Obj = {"trafficWeights": {"eu-west": 2}}
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class Behind:
    """A server's way to the store that brings nothing while `is_open` is not set."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.is_open = asyncio.Event()
        self.is_open.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def watch(self, prefix: str, *, after: int) -> AsyncIterator[Batch]:
        async for batch in self._store.watch(prefix, after=after):
            await self.is_open.wait()
            yield batch

    async def close(self) -> None: ...


async def _behind(
    tmp_path: Path, story: Callable[[Api, Api, Behind], Awaitable[None]], seconds: float = 0.2
) -> None:
    async with AsyncExitStack() as stack:
        store = MemoryStore()
        servers = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            way: Any = Behind(store)
            servers.append(await stack.enter_async_context(serving(tmp_path / name, way, shared_store=True)))
        assert (await servers[0].post(DEPLOYMENTS, deployment("web"))).status == 201
        assert (await servers[0].post(OVERRIDES, override("first", changes=SHIFT))).status == 201
        await servers[1].core.catch_up()
        way.is_open.clear()
        asyncio.get_running_loop().call_later(seconds, way.is_open.set)
        await story(servers[0], servers[1], way)


def test_nothing_is_refused_for_an_override_that_another_server_has_ended(tmp_path: Path) -> None:
    async def story(one: Api, other: Api, way: Behind) -> None:
        assert (await one.delete(f"{OVERRIDES}/first")).status == 200
        assert (await other.post(OVERRIDES, override("second", changes=OTHERWISE))).status == 201
        assert way.is_open.is_set()

    asyncio.run(_behind(tmp_path, story))


def test_a_refusal_names_the_override_that_is_in_force_now(tmp_path: Path) -> None:
    async def story(one: Api, other: Api, way: Behind) -> None:
        assert (await one.delete(f"{OVERRIDES}/first")).status == 200
        assert (await one.post(OVERRIDES, override("second", changes=SHIFT))).status == 201
        refused = await other.post(OVERRIDES, override("third", changes=OTHERWISE))
        assert refused.status == 409
        assert 'contradicts the active override "second"' in str(refused.obj["message"])

    asyncio.run(_behind(tmp_path, story))


@pytest.mark.slow
def test_what_cannot_be_judged_in_time_is_not_refused_as_if_it_were(tmp_path: Path) -> None:
    async def story(one: Api, other: Api, way: Behind) -> None:
        assert (await one.delete(f"{OVERRIDES}/first")).status == 200
        answer = await other.post(OVERRIDES, override("second", changes=OTHERWISE))
        assert (answer.status, answer.obj["reason"]) == (504, "Timeout")

    asyncio.run(_behind(tmp_path, story, seconds=60))
