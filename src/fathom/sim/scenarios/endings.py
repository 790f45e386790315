"""Jobs end in every way: enough pods succeeded, too many failed, the deadline passed. Some are suspended
first, some are deleted afterwards. The agents are real, so that pods fail by themselves."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.job.controller import Jobs
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import JOBS
from fathom.sim.checkers import at_home
from fathom.sim.checkers.finished_work import OverWhenNothingRuns
from fathom.sim.checkers.workloads import CountedOnce, JobsWithinBounds
from fathom.sim.scenarios.jobs import job
from fathom.sim.scenarios.staff import MANAGERS, QUIET_S, manage, run_agent
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NODE = "node-1"
KINDS = ("/pods", "/jobs")
RUNS_FOR_EVER = 10_000.0
# How each Job ends: its last condition and the reason.
ENDS = {
    "well": ("Complete", "CompletionsReached"),
    "indexed": ("Complete", "CompletionsReached"),
    "resumed": ("Complete", "CompletionsReached"),
    "failing": ("Failed", "BackoffLimitExceeded"),
    "late": ("Failed", "DeadlineExceeded"),
}


def checkers() -> Sequence[Checker]:
    return [*at_home(), CountedOnce(), JobsWithinBounds(), OverWhenNothingRuns()]


@scenario(Menu(processes=(*MANAGERS, NODE), kinds=KINDS, seconds=25, most=6), checkers=checkers)
async def jobs_end(world: World) -> None:
    """Jobs complete, fail too often, exceed their deadline, are resumed after a suspension or expire after
    their TTL: each ends with the right condition and reason, and the expired one is deleted."""
    manage(world, Jobs, kinds=KINDS)
    run_agent(world, NODE)
    await world.sleep(2)
    for name in (*ENDS, "short"):
        await world.apply(JOBS, _job(name))
    await world.sleep(12)
    await world.apply(JOBS, {"metadata": {"name": "resumed"}, "spec": {"suspend": False}})
    await world.sleep(30)
    world.heal()
    for name, end in ENDS.items():
        await world.until(
            lambda name=name, end=end: _end(world, name) == end,  # type: ignore[misc]  # Bound for this turn.
            within_s=400,
            what=f"{name} is {end[0]}: {end[1]} (now {_end(world, name)})",
        )
    await world.until(
        lambda: world.get(JOBS.name, Key("default", "short")) is None, within_s=200, what="short is gone"
    )
    await world.settle(quiet_s=QUIET_S)
    assert lookup(world.get(JOBS.name, Key("default", "indexed")), "status", "completedIndexes") == "0-2"


def _job(name: str) -> Obj:
    more: dict[str, Obj] = {
        "indexed": {"completionMode": "Indexed"},
        "resumed": {"suspend": True},
        "failing": {"backoffLimit": 1},
        "late": {"activeDeadlineSeconds": 8},
        "short": {"ttlSecondsAfterFinished": 5},
    }
    runs_s = RUNS_FOR_EVER if name == "late" else 1.0
    ending_job = job(name, completions=3, parallelism=2, runs_s=runs_s)
    ending_job["spec"] |= more.get(name, {})
    if name == "failing":
        notes = ending_job["spec"]["template"]["metadata"]["annotations"]
        notes["fathom.dev/simulated"] = '{"exit_code": 3}'
    return ending_job


def _end(world: World, name: str) -> tuple[str, str]:
    ended = world.get(JOBS.name, Key("default", name)) or {}
    for condition in lookup(ended, "status", "conditions") or ():
        if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
            return condition["type"], condition["reason"]
    return "", ""


SCENARIOS: tuple[Scenario, ...] = (jobs_end,)
