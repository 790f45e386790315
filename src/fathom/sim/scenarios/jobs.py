"""Jobs: each success is counted once, whichever leader counts it and however often."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.job.controller import Jobs
from fathom.model.objects import Obj, is_deleting, metadata
from fathom.model.resources import JOBS, PODS
from fathom.sim.checkers import at_home
from fathom.sim.checkers.final_state import WhenSettled, unfinished_jobs
from fathom.sim.checkers.workloads import CountedOnce, JobsWithinBounds
from fathom.sim.scenarios.objects import pod_spec
from fathom.sim.scenarios.shared_agent import RUNS_S, NodeTroubles
from fathom.sim.scenarios.staff import AGENT, MANAGERS, UNREST, all_but, come_to_rest, run_managers_and_agents
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

KINDS = ("/pods", "/jobs")


def job(name: str, *, completions: int, parallelism: int, runs_s: float) -> Obj:
    template = {
        "metadata": {"labels": {"job": name}, "annotations": {RUNS_S: f"{runs_s:g}"}},
        "spec": {**pod_spec(), "restartPolicy": "Never"},
    }
    return {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": {"name": name},
        "spec": {
            "completions": completions,
            "parallelism": parallelism,
            "backoffLimit": 100,
            "template": template,
        },
    }


def checkers() -> Sequence[Checker]:
    return [
        *at_home(),
        CountedOnce(),
        JobsWithinBounds(),
        WhenSettled("every Job ends", unfinished_jobs),
    ]


@scenario(
    Menu(processes=(*MANAGERS, AGENT), kinds=KINDS, happenings=UNREST, seconds=10, most=8),
    checkers=checkers,
    scale=10,
)
async def finished_jobs(world: World) -> None:
    """Jobs run while images are slow and a node dies, and some of their pods, and some Jobs, are deleted: no
    success is counted twice, and every Job ends."""
    await _run_jobs(world, run_managers_and_agents(world, Jobs, kinds=KINDS))


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=KINDS,
        happenings=("handover",),
        seconds=10,
        most=6,
        without=all_but("hold-watch", "happening"),
    ),
    checkers=checkers,
    scale=10,
)
async def jobs_seen_late(world: World) -> None:
    """Jobs run while managers receive events of one kind late and of another at once, and leaders change: no
    success is counted twice, and every Job ends."""
    await _run_jobs(world, run_managers_and_agents(world, Jobs, kinds=KINDS))


async def _run_jobs(world: World, troubles: NodeTroubles) -> None:
    for number in range(3):
        await world.apply(
            JOBS,
            job(f"job-{number}", completions=3 + number, parallelism=2, runs_s=1 + 2 * world.rng.random()),
        )
    for number in range(world.scale):
        await world.sleep(2 * world.rng.random())
        await _disturb(world, number)
    await come_to_rest(world, troubles)


async def _disturb(world: World, number: int) -> None:
    """Delete a pod; or delete a Job with its pods, and create another one."""
    if world.rng.random() < 0.7:
        pods = [pod for pod in world.list("pods", "default") if not is_deleting(pod)]
        if pods:
            meta = metadata(world.rng.choice(pods))
            await world.api.delete(PODS, "default", meta["name"], uid=meta["uid"])
        return
    name = f"job-{world.rng.randrange(3)}"
    await world.delete(JOBS, name)
    await world.apply(JOBS, job(name, completions=1 + number % 4, parallelism=2, runs_s=1.0))


SCENARIOS: tuple[Scenario, ...] = (finished_jobs, jobs_seen_late)
