"""Servers that are behind the store, cut off from it, or unsure of what it did."""

from __future__ import annotations

import asyncio

import pytest
from tests.sim.small import CONFIG_MAPS, Watcher, config_map, passes, running, story

from fathom.client.api import Api
from fathom.client.events import decode_events
from fathom.client.outcomes import Committed, Outcome, Unknown
from fathom.model.objects import Key
from fathom.seams.process import Inside
from fathom.sim.world.faults import (
    STORE,
    CommitLost,
    CommitUnknown,
    Compact,
    Crash,
    CrashAtWrite,
    HoldWatch,
    Partition,
    StaleServer,
)
from fathom.sim.world.world import World


class Reader:
    """Lists the ConfigMaps that its server has in its cache."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, list[str]]] = []

    async def main(self, inside: Inside) -> None:
        while True:
            page = await Api(inside.seam).list_page(CONFIG_MAPS, "default", resourceVersion="0")
            self.seen.append(
                (asyncio.get_running_loop().time(), [item["metadata"]["name"] for item in page.items])
            )
            await asyncio.sleep(1)

    @property
    def last(self) -> list[str]:
        return self.seen[-1][1]


class Once:
    def __init__(self) -> None:
        self.got: list[Outcome] = []

    async def main(self, inside: Inside) -> None:
        self.got.append(await Api(inside.seam).create(CONFIG_MAPS, "default", config_map("once")))


def names(world: World) -> list[str]:
    return [obj["metadata"]["name"] for obj in world.list("configmaps", "default")]


@pytest.mark.parametrize("healed", [False, True])
def test_a_stale_server_answers_from_the_past_while_the_other_is_up_to_date(healed: bool) -> None:
    stale, fresh, watcher = Reader(), Reader(), Watcher()

    async def tale(world: World) -> None:
        world.process("reads-1", running(fresh.main))
        world.process("reads-2", running(stale.main), server=2)
        world.process("watches-2", running(watcher.main), server=2)
        await world.sleep(2)
        await world.apply(CONFIG_MAPS, config_map("new"))
        await world.sleep(3)
        assert (fresh.last, stale.last, watcher.names) == (["new"], [], [])
        if healed:
            world.heal()
            await world.sleep(2)
        else:
            await world.sleep(8)
        assert (fresh.last, stale.last, watcher.names) == (["new"], ["new"], ["new"])

    passes(story(tale, servers=2), [StaleServer(at_s=1, target="api-2", for_s=9)])


def test_a_stale_server_still_reads_one_object_as_it_is() -> None:
    got: list[object] = []

    async def main(inside: Inside) -> None:
        got.append(await Api(inside.seam).get(CONFIG_MAPS, "default", "new"))

    async def tale(world: World) -> None:
        await world.sleep(2)
        await world.apply(CONFIG_MAPS, config_map("new"))
        world.process("reader", running(main), server=2)
        await world.sleep(2)

    passes(story(tale, servers=2), [StaleServer(at_s=1, target="api-2", for_s=9)])
    assert got != [None]


@pytest.mark.parametrize(("fault", "there"), [(CommitUnknown, ["once"]), (CommitLost, [])])
def test_a_commit_whose_answer_is_lost_is_a_504_whether_it_happened_or_not(
    fault: type, there: list[str]
) -> None:
    once = Once()

    async def tale(world: World) -> None:
        world.process("worker", running(once.main))
        await world.sleep(2)
        assert names(world) == there

    passes(story(tale), [fault(at_s=0, target="api-1")])
    assert len(once.got) == 1
    assert isinstance(once.got[0], Unknown)
    assert "the outcome of the write is unknown" in once.got[0].cause


def test_a_server_cut_off_from_the_store_cannot_write_and_a_late_commit_may_come() -> None:
    once = Once()

    async def tale(world: World) -> None:
        await world.sleep(1)
        world.process("worker", running(once.main))
        await world.sleep(7)
        assert len(once.got) == 1
        assert isinstance(once.got[0], Unknown)
        assert names(world) == []
        await world.sleep(3)
        assert names(world) == ["once"]

    passes(story(tale), [Partition(at_s=0.5, target="api-1", peer=STORE, for_s=9)])


def test_what_is_dropped_on_the_way_to_the_store_never_comes() -> None:
    once = Once()

    async def tale(world: World) -> None:
        await world.sleep(1)
        world.process("worker", running(once.main))
        await world.sleep(20)
        assert len(once.got) == 1
        assert names(world) == []
        await world.apply(CONFIG_MAPS, config_map("later"))

    passes(story(tale), [Partition(at_s=0.5, target="api-1", peer=STORE, for_s=9, drops=True)])


def test_a_crash_at_a_commit_keeps_the_commit() -> None:
    once = Once()

    async def tale(world: World) -> None:
        world.process("worker", running(once.main))
        await world.sleep(5)
        assert names(world) == ["once"]
        assert world.servers[0].incarnation == 2
        assert (await world.api.get(CONFIG_MAPS, "default", "once")) is not None

    passes(story(tale), [CrashAtWrite(at_s=0, target="api-1", times=1, for_s=1)])
    assert once.got == [Unknown("connection reset")]


def test_compaction_tells_a_watch_that_was_behind_to_list_again() -> None:
    heard: list[str] = []

    async def main(inside: Inside) -> None:
        await asyncio.sleep(4)
        stream = await Api(inside.seam).watch(CONFIG_MAPS, "default", resourceVersion="2")
        while (chunks := await stream.read()) is not None:
            heard.extend(
                f"{event.type} {event.obj.get('code', '')}".strip() for event in decode_events(chunks)
            )

    async def tale(world: World) -> None:
        await world.apply(CONFIG_MAPS, config_map("early"))
        world.process("worker", running(main))
        await world.sleep(6)

    # The server starts anew, so that its own log does not reach back so far.
    passes(story(tale), [Compact(at_s=2), Crash(at_s=3, target="api-1", for_s=0.1)])
    assert heard == ["ERROR 410"]


def test_a_server_that_starts_while_the_store_does_not_answer_tries_again() -> None:
    async def tale(world: World) -> None:
        await world.sleep(2)
        world.crash("api-1")
        await world.sleep(30)
        assert world.servers[0].state.ready
        await world.apply(CONFIG_MAPS, config_map("later"))

    passes(story(tale), [Partition(at_s=1, target="api-1", peer=STORE, for_s=12, drops=True)])


def test_links_of_dead_servers_are_gone() -> None:
    async def tale(world: World) -> None:
        for _ in range(3):
            world.crash("api-1", restart_after_s=0.1)
            await world.sleep(2)
        assert len(world.engine.store.links) == 1
        await world.apply(CONFIG_MAPS, config_map("c"))
        assert world.get("configmaps", Key("default", "c")) is not None

    passes(story(tale))


def test_a_held_watch_hears_everything_after_it_is_let_go() -> None:
    watcher = Watcher()

    async def tale(world: World) -> None:
        world.process("worker", running(watcher.main))
        await world.sleep(1.5)
        for number in range(3):
            outcome = await world.api.create(CONFIG_MAPS, "default", config_map(f"c{number}"))
            assert isinstance(outcome, Committed)
        await world.sleep(1)
        assert watcher.names == []
        await world.sleep(5)
        assert watcher.names == ["c0", "c1", "c2"]

    passes(story(tale), [HoldWatch(at_s=1, target="worker", match="/configmaps", for_s=5)])
