"""Wall clocks are set: durations must not change. On deciders that measure them well, and badly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.sim.small import running

from fathom.client.api import Api, Resource
from fathom.model.objects import Key, Obj
from fathom.model.resource_names import DEPLOYMENTS
from fathom.seams.process import Inside
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.clock_steps import RolloutProgress
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, LoseReply, Skew
from fathom.sim.world.invariants import Seen
from fathom.sim.world.scenario import RunPlan, Scenario, clock_plan_of, scenario, tell
from fathom.sim.world.world import World

NODES = Resource("", "v1", "nodes", namespaced=False)
TIMES_OUT_S = 60.0


def wall_s(inside: Inside) -> float:
    return inside.outside.clock.now_ns() / 1e9


def loop_s(inside: Inside) -> float:
    return asyncio.get_running_loop().time()


def tainting(now_s: Callable[[Inside], float]) -> Callable[[Inside], Inside]:
    """Taints a node that it has known for a minute, by the clock that it is given."""

    async def main(inside: Inside) -> None:
        began_s = now_s(inside)
        while now_s(inside) - began_s < TIMES_OUT_S:
            await asyncio.sleep(1)
        taint = {"spec": {"taints": [{"key": "gone", "effect": "NoExecute"}]}}
        await Api(inside.seam).patch(NODES, "", "node-1", taint)

    return running(main)


def told_by(now_s: Callable[[Inside], float]) -> Scenario:
    @scenario(Menu(processes=("health",), seconds=20), name="health")
    async def health(world: World) -> None:
        """A node is known for half a minute."""
        await world.apply(NODES, {"metadata": {"name": "node-1"}})
        world.process("health", tainting(now_s))
        await world.sleep(TIMES_OUT_S / 2)

    return health


def plan(*faults: AnyFault) -> RunPlan:
    return RunPlan(scenario="health", seed="1", faults=faults)


FORWARD = Skew(at_s=5, target="health", skew_s=400.0)


def test_a_duration_that_is_measured_by_the_wall_clock_is_found() -> None:
    violation = tell(told_by(wall_s), plan(FORWARD)).violation
    assert violation is not None
    assert (violation.invariant, violation.message) == (
        "setting a wall clock changes nothing that is measured by durations",
        "health taints node-1 with gone: once, and never if no clock is set",
    )


@pytest.mark.parametrize("skew_s", [400.0, -400.0])
def test_a_duration_that_is_measured_monotonically_holds(skew_s: float) -> None:
    assert tell(told_by(loop_s), plan(Skew(at_s=5, target="health", skew_s=skew_s))).violation is None


def test_only_runs_whose_only_faults_are_clock_steps_are_compared() -> None:
    assert tell(told_by(wall_s), plan(FORWARD, LoseReply(at_s=1, target="health"))).violation is None


def test_a_plan_of_clock_steps_has_one_forward_and_one_back_and_follows_from_its_seed() -> None:
    steps = clock_plan_of(told_by(loop_s), "7").faults
    assert [type(step) for step in steps] == [Skew, Skew]
    assert sorted(step.skew_s > 0 for step in steps if isinstance(step, Skew)) == [False, True]
    assert {step.target for step in steps} == {"health"}
    assert steps == clock_plan_of(told_by(loop_s), "7").faults != clock_plan_of(told_by(loop_s), "8").faults


def rollout(status: str, written: str) -> Obj:
    condition = {"type": "Progressing", "status": status, "lastUpdateTime": written}
    return {"spec": {"progressDeadlineSeconds": 600}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("by", "at_s", "decided"),
    [
        ("leader", 650.0, ["leader gives up the rollout of web"]),
        ("next", 60.0, ["next gives up the rollout of web"]),
        ("next", 400.0, []),  # It may rest on the time that another wrote.
    ],
)
def test_who_gives_up_a_rollout_by_anothers_clock_has_looked_for_half_of_its_time(
    by: str, at_s: float, decided: list[str]
) -> None:
    progress, begun, late = RolloutProgress(), rollout("True", "then"), rollout("False", "now")

    def seen(by: str, at_s: float, old: Obj | None, new: Obj) -> Seen:
        key = Key("default", "web")
        return Seen(
            resource=DEPLOYMENTS, key=key, revision=1, old=old, new=new, at_s=at_s, by=by, incarnation=1
        )

    assert list(progress.given_up(seen("leader", 10.0, None, begun))) == []
    assert list(progress.given_up(seen(by, at_s, begun, late))) == decided


def test_an_eviction_is_charged_though_the_controllers_clock_is_minutes_ahead() -> None:
    drains = SCENARIOS["drains"]
    plan = clock_plan_of(drains, "1")
    assert [step.skew_s for step in plan.faults if isinstance(step, Skew)] == [-400.0, 400.0]
    assert tell(drains, plan).violation is None


def test_a_rollout_completes_though_the_controllers_clock_was_minutes_behind() -> None:
    refused = SCENARIOS["refused-for-long"]
    plan = clock_plan_of(refused, "2")
    assert [step.skew_s for step in plan.faults if isinstance(step, Skew)] == [3.0, -400.0]
    assert tell(refused, plan).violation is None


def test_a_run_takes_no_step_on_a_signal_that_is_from_the_future_by_a_clock_that_is_minutes_behind() -> None:
    stale = SCENARIOS["stale-runbook"]
    plan = clock_plan_of(stale, "368")
    assert [step.skew_s for step in plan.faults if isinstance(step, Skew)] == [400.0, -400.0]
    assert tell(stale, plan).violation is None


def test_a_pod_of_a_node_that_is_gone_is_repaired_though_the_controllers_clock_was_minutes_behind() -> None:
    """By that clock the pod was of the future, and its node was waited for until that had come."""
    paused = SCENARIOS["repair-is-paused"]
    plan = clock_plan_of(paused, "348")
    assert [step.skew_s for step in plan.faults if isinstance(step, Skew)] == [-400.0, 40.0]
    assert tell(paused, plan).violation is None


@pytest.mark.parametrize("skew_s", [40.0, 400.0])
def test_a_void_reservation_is_kept_for_a_minute_though_the_clock_that_stamped_it_was_ahead(
    skew_s: float,
) -> None:
    """By the clock when it was right again, the minute began in the future."""
    racing = SCENARIOS["rollback-races-repair"]
    ahead = Skew(at_s=4.8, target="repair", skew_s=skew_s)
    plan = RunPlan(scenario=racing.name, seed="2259", faults=(*racing.scripted, ahead))
    assert tell(racing, plan).violation is None


def test_a_new_leader_does_not_give_up_a_rollout_for_the_clocks_of_two_leaders() -> None:
    """1. The clock of the leader is behind, and it writes when the rollout progressed. 2. The clock of its
    successor is ahead: by that, this was longer ago than the rollout may be without progress."""
    paused = SCENARIOS["duplicate-ownership"]
    plan = clock_plan_of(paused, "4171")
    assert [step.skew_s for step in plan.faults if isinstance(step, Skew)] == [-400.0, 400.0]
    assert tell(paused, plan).violation is None
