"""A workload whose pods crash again and again is stuck once, and stays so until they run."""

from __future__ import annotations

from typing import Any

import pytest
from tests.control.worlds import told

from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, lookup
from fathom.sim.invariants import Checker, Found, Seen
from fathom.sim.scenarios.real import DEPLOYMENTS, employ_cluster
from fathom.sim.scenarios.real import deployment as probed
from fathom.sim.world import World

PROGRESS = "workloadprogresses.fathom.dev"
WEB = Key("default", "deployment-web")


class StuckTold(Checker):
    """What was said of Stuck, one after the other; and how often the object was written."""

    name = "notes Stuck"
    resources = frozenset({PROGRESS})

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.writes_s: list[float] = []

    def commit(self, change: Seen) -> Found:
        stuck = find_condition(conditions_of(change.new or {}), "Stuck")
        if stuck is not None and change.key == WEB:
            said = (str(stuck["status"]), str(stuck["reason"]))
            self.writes_s.append(change.at_s)
            if not self.told or self.told[-1] != said:
                self.told.append(said)
        return None


def deployment(script: str) -> Obj:
    """Without a probe: whoever runs is ready."""
    made = probed("web", 2, notes={"fathom.dev/simulated": script})
    del made["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    made["spec"]["progressDeadlineSeconds"] = 2**31 - 1
    return made


def play(script: str, for_s: float, story: Any = None) -> StuckTold:
    notes = StuckTold()

    async def tell(world: World) -> None:
        employ_cluster(world, nodes=("node-1",), spare=False)
        await world.sleep(5)
        await world.apply(DEPLOYMENTS, deployment(script))
        await world.sleep(for_s)
        if story is not None:
            await story(world)

    told(tell, checkers=[notes])
    return notes


@pytest.mark.xfail(strict=True, reason="Stuck flaps with every restart.")
def test_a_crash_loop_is_stuck_once_and_stays_so() -> None:
    async def crashed(world: World) -> None:
        pods = world.list("pods", "default")
        restarts = [lookup(one, "status", "containerStatuses")[0]["restartCount"] for one in pods]
        assert min(restarts) >= 5, f"the story needs a loop: {restarts}"

    notes = play('{"runs_s": 3, "exit_code": 1}', 1200, crashed)
    assert notes.told == [("False", "WithinDeadlines"), ("True", "Crash")]


def test_a_crash_loop_that_ends_is_no_longer_stuck() -> None:
    async def mended(world: World) -> None:
        await world.apply(DEPLOYMENTS, deployment("{}"))
        await world.sleep(120)

    notes = play('{"runs_s": 3, "exit_code": 1}', 900, mended)
    assert notes.told == [("False", "WithinDeadlines"), ("True", "Crash"), ("False", "WithinDeadlines")]


@pytest.mark.parametrize("script", ['{"fail": "crash", "fails": 1}', '{"runs_s": 400, "exit_code": 1}'])
def test_a_pod_that_restarts_and_runs_is_not_stuck(script: str) -> None:
    notes = play(script, 900)
    assert notes.told == [("False", "WithinDeadlines")]
