"""A store from before there was a ledger is counted at the start, once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from tests.api.binding.cluster import NODES, PODS, assert_kept, bind, book, node, pod
from tests.api.binding.test_two_servers import Unclosed
from tests.api.harness import Api, serving

from fathom.api.ledger.accounts import BOOKS, NODE_BOOKS
from fathom.api.ledger.counting import drift
from fathom.api.ledger.recount import MARKER, MARKER_RESOURCE, mend_ledger
from fathom.model.body import Body
from fathom.store.memory import MemoryStore
from fathom.store.protocol import Delete, Put, Store


async def lose_the_ledger(store: Store) -> None:
    for resource in (*BOOKS, MARKER_RESOURCE):
        page = await store.range(f"/registry/{resource}/")
        await store.commit((), [Delete(entry.key) for entry in page.entries])


async def some_pods(api: Api) -> None:
    for name in ("n1", "n2"):
        await api.post(NODES, node(name))
    for number in range(5):
        await api.post(PODS, pod(f"p{number}"))
        await bind(api, f"p{number}", f"n{1 + number % 2}")


def test_a_store_without_a_ledger_is_counted_at_the_start(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryStore()
        async with serving(tmp_path, cast(Store, Unclosed(store))) as api:
            await some_pods(api)
        await lose_the_ledger(store)
        async with serving(tmp_path, cast(Store, Unclosed(store))) as api:
            assert_kept(api)
            assert book(api, NODE_BOOKS, "n1") == {"requested": {"cpu": 300, "pods": 3}}
            assert api.core.cache.get(MARKER_RESOURCE, MARKER) is not None
            await api.delete(f"{PODS}/p0", {"gracePeriodSeconds": 0})
            assert_kept(api)
        reached = await store.revision()
        async with serving(tmp_path, cast(Store, Unclosed(store))) as api:
            assert await store.revision() == reached  # Nothing left to do.

    asyncio.run(main())


def test_a_wrong_ledger_is_found_and_mended(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryStore()
        async with serving(tmp_path, cast(Store, Unclosed(store))) as api:
            await some_pods(api)
            wrong = {"kind": "NodeLedger", "metadata": {"name": "n1"}, "requested": {"cpu": 1}}
            extra = {"kind": "NodeLedger", "metadata": {"name": "n9"}, "requested": {"cpu": 1}}
            where = f"/registry/{NODE_BOOKS}"
            await store.commit((), [Put(f"{where}/n1", Body(wrong)), Put(f"{where}/n9", Body(extra))])
            await api.core.cache.at_least(await store.revision())
            assert [key.name for _, key in drift(api.core.cache)] == ["n1", "n9"]
            assert await mend_ledger(api.core) == 2
            assert_kept(api)

    asyncio.run(main())


def test_nobody_can_read_the_ledger_through_the_api(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as api:
            await some_pods(api)
            for resource in BOOKS:
                plural, _, group = resource.partition(".")
                assert (await api.get(f"/apis/{group}/v1alpha1/{plural}")).status == 404
                assert (await api.get(f"/apis/{group}/v1alpha1/{plural}/n1")).status == 404

    asyncio.run(main())
