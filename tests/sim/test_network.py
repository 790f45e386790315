"""What can happen to messages on their way, and what cannot."""

from __future__ import annotations

import asyncio

import pytest
from tests.sim.small import (
    CONFIG_MAPS,
    SECRETS,
    Watcher,
    config_map,
    passes,
    running,
    soon,
    story,
)

from fathom.client.api import Api, Resource
from fathom.client.events import decode_events, revision_of
from fathom.client.outcomes import Committed, Conflict, Outcome, Rejected, Unknown
from fathom.model.objects import Key
from fathom.seams.process import Inside
from fathom.seams.streams import Streams
from fathom.sim.world.faults import (
    AnyFault,
    Crash,
    CrashAtWrite,
    DropWatch,
    HoldWatch,
    LoseRequest,
    Partition,
    Pause,
    Refuse,
    SlowReply,
    SlowRequest,
)
from fathom.sim.world.oracle import Seeded
from fathom.sim.world.world import World


class Writer:
    """Creates ConfigMaps, one every tenth of a second, and keeps what came of each."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.got: list[Outcome] = []

    async def main(self, inside: Inside) -> None:
        for number in range(self._count):
            self.got.append(
                await Api(inside.seam).create(CONFIG_MAPS, "default", config_map(f"c{number:02}"))
            )
            await asyncio.sleep(0.1)


async def write(world: World, count: int, *, every_s: float = 0.1, start: int = 0) -> None:
    for number in range(start, start + count):
        await world.apply(CONFIG_MAPS, config_map(f"c{number:02}"))
        await world.sleep(every_s)


def names(world: World) -> list[str]:
    return [obj["metadata"]["name"] for obj in world.list("configmaps", "default")]


@pytest.mark.parametrize("strategy", ["random", "pct"])
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_a_watch_keeps_its_order_whatever_happens_to_it(strategy: str, seed: str) -> None:
    watcher = Watcher()

    async def tale(world: World) -> None:
        world.process("worker", running(watcher.main))
        await write(world, 60)
        world.heal()
        await world.sleep(20)

    faults: list[AnyFault] = [
        SlowReply(at_s=0, target="worker", delay_s=0.5),
        HoldWatch(at_s=1, target="worker", for_s=1.3),
        Partition(at_s=2, target="worker", for_s=1),
        Pause(at_s=2.5, target="worker", for_s=1.2),
        HoldWatch(at_s=4, target="worker", for_s=100),
    ]
    passes(story(tale), faults, seed=seed, strategy=strategy)
    assert watcher.names == [f"c{number:02}" for number in range(60)]


def test_holding_one_kind_lets_the_others_go_on() -> None:
    configs, secrets = Watcher(), Watcher(SECRETS)

    async def tale(world: World) -> None:
        world.process("configs", running(configs.main))
        world.process("secrets", running(secrets.main))
        await world.sleep(1)
        await world.apply(CONFIG_MAPS, config_map("c"))
        await world.apply(SECRETS, {"metadata": {"name": "s"}})
        await world.sleep(2)
        assert (configs.names, secrets.names) == ([], ["s"])
        await world.sleep(10)
        assert (configs.names, secrets.names) == (["c"], ["s"])

    passes(story(tale), [HoldWatch(at_s=0.5, match="/configmaps", for_s=8)])


def test_a_broken_watch_ends_at_both_ends() -> None:
    watcher = Watcher()

    async def tale(world: World) -> None:
        world.process("worker", running(watcher.main))
        await world.sleep(1)
        cache = world.servers[0].state.parts.core.cache
        assert cache.watchers == 1
        await world.sleep(3)
        assert cache.watchers == 0
        assert len(watcher.ended) == 1

    passes(story(tale), [DropWatch(at_s=2, target="worker")])


def test_a_partition_is_silence_and_what_was_said_meanwhile_arrives_after_it() -> None:
    watcher, writer = Watcher(), Writer(1)

    async def tale(world: World) -> None:
        world.process("worker", running(watcher.main))
        await world.sleep(1.5)
        world.process("late", running(writer.main))
        await write(world, 5)
        assert (watcher.names, watcher.ended, writer.got) == ([], [], [])
        await world.sleep(5)
        assert watcher.names[:5] == ["c00", "c01", "c02", "c03", "c04"]
        assert watcher.ended == []
        assert [type(outcome) for outcome in writer.got] == [Conflict]

    passes(story(tale), [Partition(at_s=1, for_s=4)])


def test_where_a_partition_drops_streams_stay_silent_for_ever_and_new_ones_work() -> None:
    watcher, again = Watcher(), Watcher()

    async def tale(world: World) -> None:
        world.process("worker", running(watcher.main))
        await world.sleep(1.5)
        await write(world, 3)
        await world.sleep(10)
        await write(world, 3, start=3)
        world.heal()
        await world.sleep(100)
        assert (watcher.names, watcher.ended) == ([], [])
        assert world.servers[0].state.parts.core.cache.watchers == 0
        world.process("again", running(again.main))
        await world.sleep(1)
        assert len(again.names) == 6

    passes(story(tale), [Partition(at_s=1, target="worker", for_s=4, drops=True)])


def test_a_stream_that_had_nothing_to_say_outlives_a_partition() -> None:
    watcher = Watcher()

    async def tale(world: World) -> None:
        world.process("worker", running(watcher.main))
        await world.sleep(8)
        await write(world, 3)
        assert watcher.names == ["c00", "c01", "c02"]

    passes(story(tale), [Partition(at_s=1, target="worker", for_s=4, drops=True)])


def test_a_partition_from_one_server_leaves_the_other() -> None:
    here, there = Watcher(), Watcher()

    async def tale(world: World) -> None:
        world.process("here", running(here.main))
        world.process("there", running(there.main), server=2)
        await world.sleep(2)
        await write(world, 2)
        assert (here.names, there.names) == ([], ["c00", "c01"])

    passes(story(tale, servers=2), [Partition(at_s=1, for_s=100, peer="api-1")])


def test_a_slow_request_is_carried_out_after_its_sender_has_given_up() -> None:
    writer = Writer(1)

    async def tale(world: World) -> None:
        world.process("worker", running(writer.main))
        await world.sleep(11)
        assert [type(outcome) for outcome in writer.got] == [Unknown]
        assert names(world) == []
        await world.sleep(5)
        assert names(world) == ["c00"]

    passes(story(tale), [SlowRequest(at_s=0, target="worker", match="POST ", delay_s=14)])


def test_healing_lets_late_requests_arrive_now() -> None:
    writer = Writer(1)

    async def tale(world: World) -> None:
        world.process("worker", running(writer.main))
        await world.sleep(2)
        world.heal()
        await world.sleep(1)
        assert [type(outcome) for outcome in writer.got] == [Committed]

    passes(story(tale), [SlowRequest(at_s=0, target="worker", match="POST ", delay_s=14)])


def test_a_lost_request_never_happened() -> None:
    writer = Writer(2)

    async def tale(world: World) -> None:
        world.process("worker", running(writer.main))
        await world.sleep(15)
        assert names(world) == ["c01"]

    passes(story(tale), [LoseRequest(at_s=0, target="worker", match="POST ")])
    assert [type(outcome) for outcome in writer.got] == [Unknown, Committed]


@pytest.mark.parametrize(
    ("status", "outcome"), [(409, Conflict), (429, Rejected), (500, Unknown), (503, Unknown)]
)
def test_a_refusal_writes_nothing(status: int, outcome: type[Outcome]) -> None:
    writer = Writer(2)

    async def tale(world: World) -> None:
        world.process("worker", running(writer.main))
        await world.sleep(2)
        assert names(world) == ["c01"]

    passes(story(tale), [Refuse(at_s=0, target="worker", match="POST ", status=status)])  # type: ignore[arg-type]  # one of the four
    assert [type(got) for got in writer.got] == [outcome, Committed]


def test_a_fault_with_a_length_does_not_wait_longer_for_its_victim() -> None:
    writer = Writer(1)

    async def tale(world: World) -> None:
        await world.sleep(3)
        world.process("worker", running(writer.main))
        await world.sleep(2)

    result = passes(story(tale), [LoseRequest(at_s=0, target="worker", match="POST ", for_s=2)])
    assert result.fired == {}
    assert [type(outcome) for outcome in writer.got] == [Committed]


def test_no_fault_touches_the_story_itself() -> None:
    async def tale(world: World) -> None:
        assert isinstance(await world.api.create(CONFIG_MAPS, "default", config_map("c")), Committed)

    faults: list[AnyFault] = [
        LoseRequest(at_s=0, times=100),
        Partition(at_s=0, for_s=100),
        LoseRequest(at_s=0, target="driver", times=100),
    ]
    assert passes(story(tale), faults).sim_s < 1


def test_a_server_that_dies_with_a_request_resets_it_and_what_was_committed_stays() -> None:
    """The commit has left for the store when the server dies: it happens, and nobody tells the client."""
    writer = Writer(1)

    async def tale(world: World) -> None:
        world.process("worker", running(writer.main))
        await world.sleep(0.5)
        assert names(world) == ["c00"]
        assert writer.got == [Unknown("connection reset")]

    passes(story(tale), [CrashAtWrite(at_s=0, target="api-1", times=1, for_s=1)])


def test_watches_end_when_their_server_dies_and_a_new_one_knows_everything() -> None:
    watcher, again = Watcher(), Watcher()

    async def tale(world: World) -> None:
        world.process("worker", running(watcher.main))
        await write(world, 3)
        await world.sleep(5)
        assert len(watcher.ended) == 1
        world.process("again", running(again.main))
        await world.sleep(1)
        assert again.names == ["c00", "c01", "c02"]

    passes(story(tale), [Crash(at_s=2, target="api-1", for_s=1)])


def test_nobody_answers_for_a_dead_server() -> None:
    writer = Writer(1)

    async def tale(world: World) -> None:
        await world.sleep(2)
        world.process("worker", running(writer.main))
        await world.sleep(1)
        assert writer.got == [Unknown("connection refused")]

    passes(story(tale), [Crash(at_s=1, target="api-1", for_s=5)])


def test_a_request_under_way_to_a_server_that_dies_is_not_carried_out_by_the_next() -> None:
    writer = Writer(1)

    async def tale(world: World) -> None:
        world.process("worker", running(writer.main))
        await world.sleep(5)
        assert writer.got == [Unknown("connection reset")]
        assert names(world) == []

    faults: list[AnyFault] = [
        SlowRequest(at_s=0, target="worker", match="POST ", delay_s=3),
        Crash(at_s=1, target="api-1", for_s=0.5),
    ]
    passes(story(tale), faults)


def test_a_held_request_waits_at_the_door_until_the_block_ends() -> None:
    writer = Writer(1)

    async def tale(world: World) -> None:
        async with world.held("POST /api/v1/namespaces/default/configmaps", process="worker"):
            world.process("worker", running(writer.main))
            await world.apply(CONFIG_MAPS, config_map("c00", by="the story"))
        await world.sleep(1)

    passes(story(tale))
    assert [type(outcome) for outcome in writer.got] == [Conflict]


def test_a_cancelled_watch_is_closed_at_the_server() -> None:
    async def main(inside: Inside) -> None:
        stream = await Api(inside.seam).watch(CONFIG_MAPS, "default", resourceVersion="0")
        await asyncio.sleep(1)
        stream.close()
        await asyncio.sleep(100)

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        await world.sleep(0.5)
        cache = world.servers[0].state.parts.core.cache
        assert cache.watchers == 1
        await world.sleep(2)
        assert cache.watchers == 0

    passes(story(tale))


def test_messages_of_one_link_do_not_move_those_of_another() -> None:
    one, other = Seeded(Streams("7")), Seeded(Streams("7"))
    for _ in range(5):
        other.latency_ns("a", "api-1", 0)
    mine, theirs = ([oracle.latency_ns("b", "api-1", 0) for _ in range(9)] for oracle in (one, other))
    assert mine == theirs


def test_everybody_is_known_to_the_server_also_who_comes_late() -> None:
    writer = Writer(1)

    async def tale(world: World) -> None:
        await world.sleep(5)
        world.process("late", running(writer.main))
        await world.sleep(1)
        stored = world.get("configmaps", Key("default", "c00"))
        assert stored is not None

    passes(story(tale))
    assert [type(outcome) for outcome in writer.got] == [Committed]


class Listener:
    """Watches two kinds and writes down the revisions it hears of, in its own order."""

    def __init__(self) -> None:
        self.revisions: list[int] = []

    async def main(self, inside: Inside) -> None:
        for resource in (CONFIG_MAPS, SECRETS):
            soon(self._listen(inside, resource))

    async def _listen(self, inside: Inside, resource: Resource) -> None:
        stream = await Api(inside.seam).watch(resource, "default", resourceVersion="0")
        while (chunks := await stream.read()) is not None:
            self.revisions += [revision_of(event.obj) for event in decode_events(chunks)]


def test_streams_of_one_process_may_overtake_each_other() -> None:
    """Ages of kinds differ: a later change of one kind may be heard before an earlier one of another."""
    orders: set[bool] = set()
    for seed in range(12):
        listener = Listener()

        async def tale(world: World, listener: Listener = listener) -> None:
            world.process("worker", running(listener.main))
            await world.sleep(1)
            await asyncio.gather(
                world.apply(CONFIG_MAPS, config_map("c")),
                world.apply(SECRETS, {"metadata": {"name": "s"}}),
            )
            await world.sleep(1)

        passes(story(tale), seed=str(seed))
        assert len(listener.revisions) == 2
        orders.add(listener.revisions == sorted(listener.revisions))
    assert orders == {True, False}
