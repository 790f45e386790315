"""What lets a policy's rollout go on: signals that were fresh while a step lasted, and every observer."""

from __future__ import annotations

import msgspec
import pytest
from tests.control.worlds import told
from tests.schedule.test_plan_rollout import BEGUN, rollout, signals

from fathom.kinds.policy_rollout import Observer
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import NODES
from fathom.schedule.policy_rollout.controller import PolicyRollouts
from fathom.schedule.policy_rollout.plan import plan_rollout
from fathom.sim.scenarios.scheduling import POLICIES, ROLLOUTS, node, own, run_scheduler
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.faults import AnyFault, Crash, HoldWatch, Pause, Refuse
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.world import World

ROLLOUT = "policyrollouts.fathom.dev"


@pytest.mark.parametrize("late", [99, 0])
def test_the_observer_that_is_furthest_behind_holds_the_step(late: int) -> None:
    seen = (
        Observer(controller="scheduler-0of2", revision=120),
        Observer(controller="scheduler-1of2", revision=late),
    )
    for observers in (seen, seen[::-1]):
        status = msgspec.structs.replace(BEGUN, observed_by=observers)
        following = plan_rollout(rollout(status), signals(60))
        assert following.status is None
        assert "scheduler-1of2" in following.why
        assert "revision 100" in following.why


class Phases(Checker):
    """When the rollout came to which phase and step; and how often its status was written."""

    name = "notes phases"
    resources = frozenset({ROLLOUT})

    def __init__(self) -> None:
        self.began_s: dict[tuple[str, int], float] = {}
        self.writes_s: list[float] = []

    def commit(self, change: Seen) -> Found:
        status = (change.new or {}).get("status") or {}
        if status:
            self.writes_s.append(change.at_s)
            self.began_s.setdefault((str(status.get("phase")), int(status.get("step") or 0)), change.at_s)
        return None


def phase(world: World) -> str:
    return str(lookup(world.get(ROLLOUT, Key("", "canary")), "status", "phase"))


def bake(faults: list[AnyFault], *, hold: str = "60s", within_s: float = 400) -> Phases:
    phases = Phases()

    async def story(world: World) -> None:
        await world.apply(NODES, node("node-1"))
        for name in ("v4", "v5"):
            await world.apply(POLICIES, own("SchedulingPolicy", name, {}))
        run_scheduler(world, "scheduler", names=("default-scheduler",))
        run_controllers(world, "rollouts", PolicyRollouts)
        await world.sleep(5)
        spec: Obj = {"from": "v4", "to": "v5", "steps": [{"percent": 100, "hold": hold}]}
        await world.apply(ROLLOUTS, own("PolicyRollout", "canary", spec))
        await world.until(lambda: phase(world) == "Complete", within_s=within_s, what="it completes")

    told(story, faults=faults, checkers=[phases])
    return phases


def blind(at_s: float, for_s: float) -> list[AnyFault]:
    """The rollouts' controller hears nothing of pods, and is refused when it asks."""
    return [
        HoldWatch(at_s=at_s, target="rollouts", match="/api/v1/pods", for_s=for_s),
        Refuse(at_s=at_s, target="rollouts", match="/api/v1/pods", for_s=for_s, times=10_000),
    ]


def took_s(phases: Phases) -> float:
    return phases.began_s[("Complete", 1)] - phases.began_s[("Canary", 0)]


def test_a_step_takes_as_long_as_it_says_while_its_signals_are_fresh() -> None:
    assert 59 < took_s(bake([])) < 75


def test_time_in_which_the_signals_were_old_is_no_part_of_a_step() -> None:
    # Silent for 130 s: 30 of these are allowed, so 100 count for nothing.
    assert 215 <= took_s(bake(blind(20, 130), hold="2m")) < 250


def test_two_times_of_old_signals_are_both_left_out() -> None:
    assert 180 + 30 + 40 - 5 <= took_s(bake([*blind(20, 60), *blind(120, 70)], hold="3m")) < 300


@pytest.mark.parametrize(
    "fault",
    [
        Crash(at_s=100, target="rollouts", for_s=200),
        Pause(at_s=100, target="rollouts", for_s=200),
    ],
    ids=["crashed", "paused"],
)
def test_time_in_which_nobody_looked_is_no_part_of_a_step(fault: AnyFault) -> None:
    # Of what it did not look at, 30 s are as good as looked at; of what it did, a minute may be forgotten.
    assert 180 + 200 - 35 <= took_s(bake([fault], hold="3m", within_s=600)) < 180 + 200 + 75


@pytest.mark.slow
def test_a_step_that_lasts_is_not_begun_anew_by_the_next_process() -> None:
    phases = bake([Crash(at_s=500, target="rollouts", for_s=5)], hold="10m", within_s=1500)
    assert 599 < took_s(phases) < 680


@pytest.mark.slow
def test_a_rollout_is_not_written_for_the_time_that_passes() -> None:
    phases = bake([], hold="10m", within_s=1500)
    assert len(phases.writes_s) <= 20
