"""Processes that pause, die, are asked to stop, and have wrong clocks."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import pytest
from tests.sim.small import CONFIG_MAPS, Watcher, config_map, passes, running, scenario_run, soon, story, told

from fathom.client.api import Api
from fathom.client.outcomes import Committed, Outcome, Unknown
from fathom.seams import domain as domains
from fathom.seams.process import Inside
from fathom.sim.world.faults import AnyFault, Crash, CrashAtWrite, LoseReply, Pause, Rebase, Skew, Stop
from fathom.sim.world.process import EPOCH_NS
from fathom.sim.world.world import World


class Ticker:
    """Writes down when it ran."""

    def __init__(self) -> None:
        self.ticks: list[float] = []

    async def main(self, inside: Inside) -> None:
        while True:
            self.ticks.append(round(asyncio.get_running_loop().time(), 3))
            await asyncio.sleep(1)


def test_a_paused_process_runs_nothing_and_its_clock_goes_on() -> None:
    ticker = Ticker()

    async def tale(world: World) -> None:
        world.process("worker", running(ticker.main))
        await world.sleep(10)

    passes(story(tale), [Pause(at_s=2.5, target="worker", for_s=4)])
    began = ticker.ticks[0]
    assert [tick - began for tick in ticker.ticks] == [0, 1, 2, 6.5, 7.5, 8.5, 9.5]


def test_a_story_that_reaches_into_another_process_goes_on_in_its_own() -> None:
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []

    async def tale(world: World) -> None:
        world.process("worker", running(Ticker().main))
        await world.sleep(1)
        loops.append((asyncio.get_running_loop(), asyncio.current_task()))
        world.stop("worker", grace_s=1)  # The worker is told here and now, in the midst of the story's input.
        loops.append((asyncio.get_running_loop(), asyncio.current_task()))

    passes(story(tale))
    assert loops[0] == loops[1]
    assert loops[0][1] is not None


@pytest.mark.parametrize("healed", [False, True])
def test_what_came_while_a_process_was_paused_is_worked_on_first_and_in_order(healed: bool) -> None:
    watcher = Watcher()

    async def tale(world: World) -> None:
        world.process("worker", running(watcher.main))
        await world.sleep(1)
        for number in range(20):
            await world.apply(CONFIG_MAPS, config_map(f"c{number:02}"))
            if healed and number == 10:
                assert len(watcher.names) < 5
                world.heal()
        await world.sleep(10)

    passes(story(tale), [Pause(at_s=1.005, target="worker", for_s=3)])
    assert watcher.names == [f"c{number:02}" for number in range(20)]


def test_a_second_pause_makes_the_first_one_longer() -> None:
    ticker = Ticker()

    async def tale(world: World) -> None:
        world.process("worker", running(ticker.main))
        await world.sleep(12)

    pauses = [Pause(at_s=2.5, target="worker", for_s=2), Pause(at_s=3.5, target="worker", for_s=5)]
    passes(story(tale), pauses)
    assert [tick - ticker.ticks[0] for tick in ticker.ticks] == [0, 1, 2, 8.5, 9.5, 10.5, 11.5]


def test_a_paused_server_answers_when_it_goes_on() -> None:
    answered: list[float] = []

    async def tale(world: World) -> None:
        world.pause("api-1", 4)
        await world.apply(CONFIG_MAPS, config_map("late"))
        answered.append(world.now_s)

    passes(story(tale))
    assert 4 < answered[0] < 4.5


def test_the_dead_do_not_clean_up_and_what_they_waited_for_reaches_nobody() -> None:
    said: list[str] = []

    async def main(inside: Inside) -> None:
        try:
            said.append(f"start {inside.incarnation}")
            await asyncio.sleep(5)
            said.append(f"slept {inside.incarnation}")
        finally:
            said.append(f"finally {inside.incarnation}")

    after: list[list[str]] = []

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        await world.sleep(8)
        after.append(list(said))

    passes(story(tale), [Crash(at_s=1, target="worker", for_s=0.5)])
    assert after == [["start 1", "start 2", "slept 2", "finally 2"]]


def test_an_answer_to_a_dead_incarnation_does_not_reach_the_next() -> None:
    got: list[tuple[int, Outcome]] = []

    async def main(inside: Inside) -> None:
        outcome = await Api(inside.seam).create(CONFIG_MAPS, "default", config_map(f"c{inside.incarnation}"))
        got.append((inside.incarnation, outcome))

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        async with world.held("POST", process="worker"):
            await world.sleep(1)
            world.crash("worker")
            await world.sleep(1)
        await world.sleep(5)
        assert [obj["metadata"]["name"] for obj in world.list("configmaps", "default")] == ["c1", "c2"]

    passes(story(tale))
    assert [incarnation for incarnation, _ in got] == [2]


def test_a_crash_at_the_second_write_lets_two_through_and_not_the_third() -> None:
    async def main(inside: Inside) -> None:
        if inside.incarnation == 1:
            api = Api(inside.seam)
            await asyncio.gather(*(api.create(CONFIG_MAPS, "default", config_map(f"c{n}")) for n in range(4)))

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        await world.sleep(5)
        names = [obj["metadata"]["name"] for obj in world.list("configmaps", "default")]
        assert names == ["c0", "c1"]
        assert world.engine.processes["worker"].incarnation == 2

    passes(story(tale), [CrashAtWrite(at_s=0, target="worker", times=2, for_s=1)])


def test_a_graceful_stop_is_heard_and_what_is_not_done_in_time_is_cut_off() -> None:
    said: list[str] = []

    async def main(inside: Inside) -> None:
        said.append(f"start {inside.incarnation} {inside.birth.predecessor}")
        inside.identity = f"worker-{inside.incarnation}"
        word = await inside.seam.signal()
        said.append(word)
        await asyncio.sleep(1)
        said.append("done")
        await asyncio.sleep(5)
        said.append("never")

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        await world.sleep(20)

    passes(story(tale), [Stop(at_s=1, target="worker", for_s=3)])
    assert said == ["start 1 ", "stop", "done", "start 2 "]


def test_a_rebase_passes_on_what_the_process_leaves() -> None:
    births: list[tuple[int, str, bytes]] = []

    async def main(inside: Inside) -> None:
        births.append((inside.incarnation, inside.birth.predecessor, inside.birth.estate))
        inside.identity = f"worker-{inside.incarnation}"
        await inside.seam.signal()
        inside.estate = b"debts"

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        await world.sleep(5)

    passes(story(tale), [Rebase(at_s=1, target="worker", for_s=2)])
    assert births == [(1, "", b""), (2, "worker-1", b"debts")]


def test_the_end_of_a_grace_period_does_not_hit_the_next_incarnation() -> None:
    async def main(inside: Inside) -> None:
        await asyncio.sleep(100)

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        await world.sleep(20)
        assert world.engine.processes["worker"].incarnation == 2

    passes(story(tale), [Stop(at_s=1, target="worker", for_s=5), Crash(at_s=2, target="worker", for_s=1)])


def test_healing_brings_back_everybody_but_those_who_were_killed() -> None:
    async def main(inside: Inside) -> None:
        await asyncio.sleep(1000)

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        world.process("victim", running(main))
        await world.sleep(2)
        world.kill("victim")
        world.heal()
        await world.sleep(1)
        alive = {name: process.alive for name, process in world.engine.processes.items()}
        assert alive == {"api-1": True, "driver": True, "worker": True, "victim": False}

    passes(story(tale), [Crash(at_s=1, target="worker", for_s=500)])


def test_a_crash_of_the_dead_does_not_start_them_sooner() -> None:
    async def main(inside: Inside) -> None:
        await asyncio.sleep(1000)

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        await world.sleep(9)
        assert not world.engine.processes["worker"].alive
        await world.sleep(4)
        assert world.engine.processes["worker"].alive

    passes(story(tale), [Crash(at_s=1, target="worker", for_s=10), Crash(at_s=2, target="worker", for_s=1)])


def test_a_skewed_clock_is_an_input_outlives_a_crash_and_is_put_right_by_healing() -> None:
    seen: list[tuple[float, float]] = []

    async def main(inside: Inside) -> None:
        while True:
            wall_s = (inside.outside.clock.now_ns() - EPOCH_NS) / 1e9
            seen.append((asyncio.get_running_loop().time(), wall_s))
            await asyncio.sleep(1)

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        await world.sleep(8)
        world.heal()
        await world.sleep(2)

    faults: list[AnyFault] = [
        Skew(at_s=2.5, target="worker", skew_s=-40),
        Crash(at_s=5.2, target="worker", for_s=0.1),
    ]
    passes(story(tale), faults)
    skews = [round(wall_s - at_s) for at_s, wall_s in seen]
    assert skews == [0, 0, 0, -40, -40, -40, -40, -40, -40, 0, 0]


def test_a_timer_that_was_cancelled_wakes_nobody() -> None:
    async def main(inside: Inside) -> None:
        for _ in range(50):
            try:
                async with asyncio.timeout(7):
                    await asyncio.sleep(0.01)
            except TimeoutError:
                pass
        await asyncio.sleep(1000)

    inputs: list[int] = []

    async def tale(world: World) -> None:
        process = world.process("worker", running(main))
        await world.sleep(1)
        before = process.domain.inputs
        await world.sleep(100)
        inputs.append(process.domain.inputs - before)

    passes(story(tale))
    assert inputs == [0]


def test_a_failure_that_nobody_noticed_is_found_also_in_the_dead() -> None:
    async def fail() -> None:
        raise LookupError("nobody looks")

    async def main(inside: Inside) -> None:
        soon(fail())
        await asyncio.sleep(1000)

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        await world.sleep(2)
        world.kill("worker")
        await world.sleep(2)

    violation = told(story(tale)).violation
    assert violation is not None
    assert (violation.invariant, violation.message) == (
        "no exception goes unnoticed",
        "LookupError('nobody looks')",
    )


def test_a_process_whose_entry_fails_cannot_go_on() -> None:
    def entry(inside: Inside) -> None:
        raise ValueError("no such option")

    async def tale(world: World) -> None:
        world.process("worker", entry)
        await world.sleep(2)

    violation = told(story(tale)).violation
    assert violation is not None
    assert (violation.invariant, violation.message) == (
        "every process keeps running",
        "worker: ValueError: no such option",
    )


def test_a_loop_that_feeds_itself_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains, "CALLBACKS_PER_INPUT_MAX", 5000)

    async def main(inside: Inside) -> None:
        while True:
            await asyncio.sleep(0)

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        await world.sleep(2)

    violation = told(story(tale)).violation
    assert violation is not None
    assert violation.invariant == "every process keeps running"
    assert "Runaway" in violation.message


def test_a_story_that_fails_is_told_with_its_place() -> None:
    async def asserts(world: World) -> None:
        await world.sleep(3)
        assert world.now_s == 4, "not yet"

    async def stumbles(world: World) -> None:
        await world.sleep(1)
        _ = dict[str, int]()["missing"]

    first, second = told(story(asserts)).violation, told(story(stumbles)).violation
    assert first is not None
    assert second is not None
    assert (first.invariant, first.at_s) == ("the scenario's own assertion", 3)
    assert first.message.startswith("test_processes.py:")
    assert "not yet" in first.message
    assert second.invariant == "the scenario raises no exception"
    assert "KeyError: 'missing'" in second.message


def test_what_a_process_returns_is_its_state() -> None:
    async def main(inside: Inside) -> None: ...

    async def tale(world: World) -> None:
        world.process("worker", running(main), threads=3)
        await world.sleep(1)
        state: Any = world.state("worker")
        assert state.options == {"threads": 3}

    passes(story(tale))


def test_two_processes_of_one_name_are_refused() -> None:
    async def main(inside: Inside) -> None: ...

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        with pytest.raises(ValueError, match="process worker already exists"):
            world.process("worker", running(main))

    passes(story(tale))


def test_a_lost_reply_is_an_unknown_outcome_and_the_write_is_there() -> None:
    got: list[Outcome] = []

    async def main(inside: Inside) -> None:
        got.append(await Api(inside.seam).create(CONFIG_MAPS, "default", config_map("c")))
        got.append(await Api(inside.seam).create(CONFIG_MAPS, "default", config_map("d")))

    async def tale(world: World) -> None:
        world.process("worker", running(main))
        await world.sleep(15)
        assert {"c", "d"} <= {obj["metadata"]["name"] for obj in world.list("configmaps", "default")}

    passes(story(tale), [LoseReply(at_s=0, target="worker", match="POST ")])
    assert [type(outcome) for outcome in got] == [Unknown, Committed]


def test_a_world_leaves_the_interpreter_as_it_was() -> None:
    before = (gc.isenabled(), time.time)

    async def tale(world: World) -> None:
        assert not gc.isenabled()
        await world.sleep(1)

    engine = scenario_run(story(tale))
    engine.run()
    assert (gc.isenabled(), time.time) == before
