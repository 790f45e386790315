"""Objects are shared in a world, and it makes no difference: bytes give the same run, a change is found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.deep import first_few
from tests.sim.small import CONFIG_MAPS, config_map, scenario_run, story

from fathom.client.api import Api
from fathom.client.events import Event, decode_events
from fathom.model.objects import Obj
from fathom.seams.process import Inside
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.search.bench import Size, measure
from fathom.sim.world.scenario import ScenarioRun, plan_of
from fathom.sim.world.world import World


@pytest.mark.parametrize("name", ["shared-counter", "followers", "replicas"])
@pytest.mark.parametrize("seed", first_few(["0", "3"], 1))
def test_a_run_of_bytes_is_the_same_run(name: str, seed: str) -> None:
    def trace(*, codec: bool) -> str:
        told = ScenarioRun(SCENARIOS[name], plan_of(SCENARIOS[name], seed))
        told.engine.codec = codec
        return told.run().trace

    assert trace(codec=False) == trace(codec=True)


def test_a_cluster_of_bytes_is_the_same_cluster() -> None:
    assert measure(Size(3, 100.0)).trace == measure(Size(3, 100.0), codec=True).trace


def follower(spoil: Callable[[Event], object]) -> Callable[[Inside], None]:
    async def follow(inside: Inside) -> None:
        stream = await Api(inside.seam).watch(CONFIG_MAPS)
        while (chunks := await stream.read()) is not None:
            for event in decode_events(chunks):
                spoil(event)

    def entry(inside: Inside) -> None:
        asyncio.get_running_loop().create_task(follow(inside))

    return entry


def told_with(spoil: Callable[[Event], object], *, codec: bool) -> str:
    async def tell(world: World) -> None:
        world.process("spoiler", follower(spoil))
        await world.sleep(1)
        await world.apply(CONFIG_MAPS, config_map("a", x="1"))
        await world.sleep(1)

    made = scenario_run(story(tell))
    made.engine.codec = codec
    violation = made.run().violation
    return "" if violation is None else violation.invariant


def in_the_object(event: Event) -> None:
    event.obj["data"]["spoiled"] = "yes"


def in_its_metadata(event: Event) -> None:
    meta: Obj = event.obj["metadata"]
    meta["labels"] = {"spoiled": "yes"}


@pytest.mark.parametrize("spoil", [in_the_object, in_its_metadata])
def test_who_changes_what_was_only_shown_is_found(spoil: Callable[[Event], object]) -> None:
    assert told_with(spoil, codec=False) == "shared objects are not changed in place"


def test_bytes_are_everybodys_own() -> None:
    assert told_with(in_the_object, codec=True) == ""
