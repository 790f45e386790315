"""Nothing fails, and everything that is to happen at a time happens then: deadlines, back-offs, lifetimes."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.agent.process import begin as begin_agent
from fathom.controllers.job.controller import Jobs
from fathom.model.accounts import node_user
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import JOBS
from fathom.sim.checkers import at_home
from fathom.sim.checkers.workloads import CountedOnce, JobsWithinBounds
from fathom.sim.scenarios.endings import RUNS_FOR_EVER
from fathom.sim.scenarios.jobs import job
from fathom.sim.scenarios.staff import MANAGERS, QUIET_S, all_but, manage
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NODE = "node-1"
DEADLINE_S, KEPT_S, BACKOFF_S = 40, 45, 10
LATE_S = 15.0  # A leader may change meanwhile.
RUNS_S = 20.0


def checkers() -> Sequence[Checker]:
    return [*at_home(), CountedOnce(), JobsWithinBounds()]


@scenario(
    Menu(processes=MANAGERS, seconds=30, most=2, without=all_but("slow-reply", "slow-request")),
    checkers=checkers,
    timed=True,
)
async def jobs_in_time(world: World) -> None:
    """A Job fails when its deadline is over, one whose pod failed tries again after its back-off although its
    deadline is far away, and one that is done is kept for as long as it says and no longer."""
    manage(world, Jobs, kinds=("/pods", "/jobs"))
    world.process(NODE, begin_agent, account=node_user(NODE), node=NODE, driver="simulated")
    await world.sleep(5)
    for name in ("late", "again", "kept"):
        await world.apply(JOBS, _job(name))
    began_s = world.now_s
    await world.until(
        lambda: _pods(world, "again") > 1, within_s=BACKOFF_S + 10 + LATE_S, what="the failed pod is replaced"
    )
    await world.until(lambda: _is(world, "kept", "Complete"), within_s=90, what="the short Job is done")
    done_s = world.now_s
    await world.until(
        lambda: _is(world, "late", "Failed"),
        within_s=max(1.0, began_s + DEADLINE_S + LATE_S + 5 - world.now_s),
        what="the deadline of the late Job is noticed",
    )
    await world.until(
        lambda: world.get(JOBS.name, Key("default", "kept")) is None,
        within_s=KEPT_S + LATE_S,
        what="the Job is not kept for longer than it says",
    )
    assert world.now_s - done_s >= KEPT_S - 2, f"it was kept for {world.now_s - done_s:.0f} s only"
    await world.delete(JOBS, "again")
    await world.heal_and_settle(quiet_s=QUIET_S)


def _job(name: str) -> Obj:
    runs_s = {"late": RUNS_FOR_EVER, "again": 1.0}.get(name, RUNS_S)
    obj = job(name, completions=1, parallelism=1, runs_s=runs_s)
    if name == "late":
        obj["spec"] |= {"activeDeadlineSeconds": DEADLINE_S}
    if name == "again":
        obj["spec"] |= {"activeDeadlineSeconds": 3600}
        obj["spec"]["template"]["metadata"]["annotations"]["fathom.dev/simulated"] = '{"exit_code": 3}'
    if name == "kept":
        obj["spec"] |= {"ttlSecondsAfterFinished": KEPT_S}
    return obj


def _pods(world: World, name: str) -> int:
    return sum(lookup(pod, "metadata", "labels", "job") == name for pod in world.list("pods", "default"))


def _is(world: World, name: str, condition: str) -> bool:
    conditions = lookup(world.get(JOBS.name, Key("default", name)), "status", "conditions") or ()
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


SCENARIOS: tuple[Scenario, ...] = (jobs_in_time,)
