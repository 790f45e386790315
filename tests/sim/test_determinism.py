"""The same seed is the same run, everywhere; and what would make it another is caught."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from tests.sim.small import CONFIG_MAPS, config_map, passes, running, scenario_run, story, told

from fathom.client.api import Api
from fathom.seams.process import Inside
from fathom.sim.report.chronicle import Chronicle, RequestSent
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.faults import AnyFault, CrashAtWrite, LoseReply
from fathom.sim.world.scenario import ScenarioRun, plan_of, tell
from fathom.sim.world.world import World

TWIN = """
import sys, random
from fathom.sim.world.scenario import plan_of, tell
from fathom.sim.scenarios import find
noise = [object() for _ in range(int(sys.argv[1]) * 1000)]
for name in ("shared-counter", "followers"):
    for seed in ("0", "7", "12"):
        print(tell(find(name), plan_of(find(name), seed)).trace)
"""


def traces_in_another_process(number: int) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": str(number)}
    command = [sys.executable, "-c", TWIN, str(number)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.live
def test_a_seed_is_the_same_run_in_every_process() -> None:
    one, other = traces_in_another_process(1), traces_in_another_process(2)
    assert len(set(one)) == 6
    assert one == other


def test_running_other_worlds_before_changes_nothing() -> None:
    scenario = SCENARIOS["shared-counter"]
    first = tell(scenario, plan_of(scenario, "5")).trace
    tell(scenario, plan_of(scenario, "6"))
    gc.collect()
    assert tell(scenario, plan_of(scenario, "5")).trace == first


def test_a_chronicle_changes_nothing() -> None:
    scenario = SCENARIOS["followers"]
    plan = plan_of(scenario, "4")
    assert ScenarioRun(scenario, plan, chronicle=Chronicle()).run().trace == tell(scenario, plan).trace


def test_content_that_does_not_follow_from_the_seed_shows_in_the_trace() -> None:
    written = iter(["one", "two"])

    async def tale(world: World) -> None:
        await world.apply(CONFIG_MAPS, config_map("c", value=next(written)))

    assert told(story(tale)).trace != told(story(tale)).trace


def reach_out(call: Callable[[], Any], *, swallow: bool = False) -> Callable[[Inside], Any]:
    async def main(inside: Inside) -> None:
        try:
            call()
        except Exception:
            if not swallow:
                raise
        await asyncio.sleep(1000)

    return running(main)


@pytest.mark.live
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("time.time", lambda: time.time() or 1),
        ("time.monotonic_ns", lambda: time.monotonic_ns() or 1),
        ("time.sleep", lambda: time.sleep(0)),
        ("random.random", lambda: random.random() or 1),
        ("random.choice", lambda: random.choice([1])),
        ("secrets.token_hex", lambda: secrets.token_hex() or 1),
        ("os.urandom", lambda: os.urandom(8)),
        ("uuid.uuid4", lambda: uuid.uuid4() or 1),
        ("socket.socket", lambda: socket.socket() or 1),
        ("threading.Thread.start", lambda: threading.Thread(target=print).start()),
        ("subprocess.Popen", lambda: subprocess.Popen(["true"])),
    ],
)
@pytest.mark.parametrize("swallow", [False, True])
def test_a_side_door_ends_the_run_with_the_stack_that_took_it(
    name: str, call: Callable[[], Any], swallow: bool
) -> None:
    async def tale(world: World) -> None:
        world.process("worker", reach_out(call, swallow=swallow))
        await world.sleep(2)

    violation = told(story(tale)).violation
    assert violation is not None
    assert violation.invariant == "code reaches the outside only through its seam"
    assert violation.message.startswith(f"{name} was called:")
    assert "test_determinism.py" in violation.message


def test_what_is_allowed_inside_a_world_works() -> None:
    async def main(inside: Inside) -> None:
        random.Random(7).random()
        str(uuid.UUID(int=1))
        inside.outside.rng.choice([1, 2])
        inside.outside.ids.uid()

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        await world.sleep(1)

    passes(story(tale))


def test_other_threads_of_the_interpreter_keep_their_clock() -> None:
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(time.monotonic())
            stop.wait(0.001)

    thread = threading.Thread(target=tick)
    thread.start()

    async def tale(world: World) -> None:
        for number in range(50):
            await world.apply(CONFIG_MAPS, config_map(f"c{number}"))
        await world.sleep(1)

    try:
        passes(story(tale))
    finally:
        stop.set()
        thread.join()
    assert len(ticks) > 1


def test_taking_a_fault_away_does_not_move_what_it_did_not_touch() -> None:
    """The other process has its own streams and its own links: it does the same things at the same times."""

    def moments(faults: list[AnyFault]) -> list[tuple[int, str]]:
        async def main(inside: Inside) -> None:
            for number in range(20):
                await Api(inside.seam).create(
                    CONFIG_MAPS, "default", config_map(f"{inside.options['who']}-{number}")
                )
                await asyncio.sleep(inside.outside.rng.random())

        async def tale(world: World) -> None:
            world.process("left", running(main), who="left")
            world.process("right", running(main), who="right", server=2)
            await world.sleep(60)

        # PCT and random draws are per link; the store is shared, so only its time of arrival is compared.
        chronicle = Chronicle()
        scenario_run(story(tale, servers=2), faults, chronicle=chronicle).run()
        return [
            (event.at_ns, event.target)
            for event in chronicle.events
            if isinstance(event, RequestSent) and event.process == "right" and event.number == 1
        ]

    assert moments([]) == moments(
        [LoseReply(at_s=1, target="left"), CrashAtWrite(at_s=0, target="left", times=5)]
    )
