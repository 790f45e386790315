"""Two API servers on one store bind the same pods at once: every pod has one node, nobody is over a limit."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import pytest
from tests.api.binding.cluster import NODES, OWN, PODS, assert_kept, batch, item, node, own, pod
from tests.api.harness import Api, serving
from tests.store.engines import running_etcd

from fathom.model.objects import Obj
from fathom.store.etcd import EtcdStore
from fathom.store.etcd_link import EtcdOptions
from fathom.store.memory import MemoryStore
from fathom.store.protocol import Store

NODE_COUNT = 6  # Of 40 pods each.
POD_COUNT = 200
QUOTA = 150
BATCH = 25


class Unclosed:
    """The one store of both: neither closes it for the other."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def close(self) -> None: ...


async def race(one: Api, other: Api) -> Counter[str]:
    """Both servers are asked to bind every pod, each to nodes of its own choice. Counts the answers."""
    for number in range(NODE_COUNT):
        await one.post(NODES, node(f"n{number}", zone=f"z{number % 2}"))
    limits = {"limits": [{"resources": {"pods": QUOTA}}, {"zone": "z0", "resources": {"cpu": "9"}}]}
    await one.post(f"{OWN}/tenantquotas", own("TenantQuota", "default", limits))
    for start in range(0, POD_COUNT, 50):
        await asyncio.gather(*(one.post(PODS, pod(f"p{number}")) for number in range(start, start + 50)))
    answers = await asyncio.gather(ask(one, shift=0), ask(other, shift=1))
    await check(one, [result for results in answers for result in results])
    return Counter(result.get("check", "Bound") for results in answers for result in results)


async def ask(api: Api, *, shift: int) -> list[Obj]:
    results: list[Obj] = []
    for start in range(0, POD_COUNT, BATCH):
        numbers = range(start, start + BATCH)
        results += await batch(
            api, *(item(f"p{number}", f"n{(number + shift) % NODE_COUNT}") for number in numbers)
        )
    return results


async def check(api: Api, results: list[Obj]) -> None:
    await api.core.catch_up()
    assert_kept(api)
    bound = Counter(result["name"] for result in results if result["status"] == "Bound")
    pods = [entry.body.obj for entry in api.core.cache.of("pods").entries.values()]
    placed = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in pods if "nodeName" in one["spec"]}
    assert bound == Counter(list(placed))
    assert max(Counter(placed.values()).values()) <= 40
    assert len(placed) == QUOTA
    zones = Counter(int(name[1:]) % 2 for name in placed.values())
    assert zones[0] <= 90


def told(stores: Callable[[], Store], tmp_path: Path) -> Counter[str]:
    async def main() -> Counter[str]:
        async with AsyncExitStack() as stack:
            apis = []
            for number, store in enumerate((stores(), stores())):
                data = tmp_path / str(number)
                data.mkdir()
                apis.append(await stack.enter_async_context(serving(data, store, shared_store=True)))
            return await race(*apis)

    return asyncio.run(main())


def test_on_one_memory(tmp_path: Path) -> None:
    store = MemoryStore()
    answers = told(lambda: cast(Store, Unclosed(store)), tmp_path)
    assert answers["Bound"] == QUOTA
    assert set(answers) <= {"Bound", "PodBound", "NodeFull", "QuotaExceeded"}


@pytest.mark.live
def test_on_one_etcd(tmp_path: Path) -> None:
    with running_etcd() as etcd:
        options = EtcdOptions(endpoints=(etcd.endpoint,), prefix="/race")
        answers = told(lambda: EtcdStore(options), tmp_path)
    assert answers["Bound"] == QUOTA
    assert set(answers) <= {"Bound", "PodBound", "NodeFull", "QuotaExceeded", "Contended"}
