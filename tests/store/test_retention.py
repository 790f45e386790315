"""Which revision was it then, and what is forgotten when."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.store.engines import writes

from fathom.store.memory import MemoryStore
from fathom.store.protocol import Compacted, Expect, Outcome, Store, StoreUnavailable, Unknown, Write
from fathom.store.retention import MARKS_KEY, CompactionPlan, Mark, Retention, plan_retention, revision_at

S = 1_000_000_000


class HandClock:
    def __init__(self) -> None:
        self.now_s = 1000

    def now_ns(self) -> int:
        return self.now_s * S

    def monotonic_ns(self) -> int:
        return self.now_s * S


@pytest.mark.parametrize(
    ("times", "now", "plan"),
    [
        ([], 1000, CompactionPlan((Mark(1000, 0),), None)),
        ([990], 1000, CompactionPlan((Mark(990, 990), Mark(1000, 0)), None)),
        ([996], 1000, None),
        ([900], 1000, CompactionPlan((Mark(900, 900), Mark(1000, 0)), 900)),
        ([700, 800, 899, 950], 1000, CompactionPlan((Mark(899, 899), Mark(950, 950), Mark(1000, 0)), 899)),
        ([950, 2000], 1000, CompactionPlan((Mark(950, 950), Mark(1000, 0)), None)),
    ],
)
def test_the_newest_mark_that_is_old_enough_is_the_new_floor(
    times: list[int], now: int, plan: CompactionPlan | None
) -> None:
    """Marks have their time as revision here; keep 100, a mark at most every 5."""
    assert plan_retention(tuple(Mark(t, t) for t in times), now, keep_ns=100, every_ns=5) == plan


async def test_history_is_kept_for_the_window_and_then_forgotten(store: Store) -> None:
    clock = HandClock()
    retention = Retention(store, clock, keep_s=60, every_s=10)
    known: dict[int, int] = {}
    for number in range(12):
        await store.commit((), writes(a=number))
        known[clock.now_s] = await store.revision()
        await retention.step()
        clock.now_s += 10
    window = clock.now_s - 10 - 60
    for time_s, revision in known.items():
        if time_s < window:
            with pytest.raises(Compacted):
                await store.range("", revision=revision)
        elif time_s > window:
            page = await store.range("/a", revision=revision)
            assert [entry.revision for entry in page.entries] == [revision]
    # A mark follows what was written before it.
    assert await revision_at(store, clock.now_s * S) == await store.revision()
    assert await revision_at(store, (window + 10) * S) == known[window + 10] + 1
    assert await revision_at(store, 0) is None


async def test_of_two_servers_one_takes_each_mark() -> None:
    store, clock = MemoryStore(), HandClock()
    servers = [Retention(store, clock, keep_s=60, every_s=10) for _ in range(2)]
    for _ in range(3):
        await asyncio.gather(*(server.step() for server in servers))
        clock.now_s += 10
    entry = await store.get(MARKS_KEY)
    assert entry is not None
    assert [mark["time_ns"] // S for mark in entry.body.obj["marks"]] == [1000, 1010, 1020]


async def test_who_could_not_write_its_mark_does_not_compact() -> None:
    store, clock = MemoryStore(), HandClock()
    retention = Retention(store, clock, keep_s=60, every_s=10)
    for _ in range(7):
        await retention.step()
        clock.now_s += 10
    unlucky = Unlucky(store)
    await Retention(unlucky, clock, keep_s=60, every_s=10).step()
    first = 2
    assert (await store.range("", revision=first)).revision == first


async def test_an_outage_only_delays() -> None:
    store, clock = Flaky(), HandClock()
    running = asyncio.ensure_future(Retention(store, clock, keep_s=60, every_s=0.001).run())
    async with asyncio.timeout(20):
        while store.refused < 3:
            await asyncio.sleep(0.001)
        assert await revision_at(store, clock.now_ns()) is None
        store.works = True
        while await revision_at(store, clock.now_ns()) != 2:
            await asyncio.sleep(0.001)
    running.cancel()


class Unlucky(MemoryStore):
    """Reads and compacts another store, and never knows whether its commits happened."""

    def __init__(self, real: MemoryStore) -> None:
        super().__init__()
        self.get = real.get  # type: ignore[method-assign]  # handed through
        self.compact = real.compact  # type: ignore[method-assign]  # handed through

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        return Unknown("lost")


class Flaky(MemoryStore):
    works = False
    refused = 0

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        if not self.works:
            self.refused += 1
            raise StoreUnavailable("down")
        return await super().commit(preconditions, writes)


class FullStore(MemoryStore):
    """It refuses what is put, as an etcd beyond its quota does."""

    is_full = False

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        if self.is_full:
            raise StoreUnavailable("no space")
        return await super().commit(preconditions, writes)


async def test_a_full_store_is_compacted_although_it_takes_no_mark() -> None:
    store, clock = FullStore(), HandClock()
    retention = Retention(store, clock, keep_s=60, every_s=10)
    await store.commit((), writes(a=1))
    await retention.step()
    old = await store.revision()
    await store.commit((), writes(a=2))
    clock.now_s += 100
    store.is_full = True
    with pytest.raises(StoreUnavailable):
        await retention.step()
    with pytest.raises(Compacted):
        await store.range("", revision=old - 1)
    assert [entry.key for entry in (await store.range("", revision=old)).entries] == ["/a", MARKS_KEY]
