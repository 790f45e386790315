"""Requests may be late, but nothing fails: what is to happen at a time happens then. Deadlines, back-offs,
lifetimes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fathom.controllers.job.controller import Jobs
from fathom.model.conditions import conditions_of, find_condition, is_true
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import JOBS
from fathom.model.times import SECOND_NS, moment_ns
from fathom.sim.checkers import at_home
from fathom.sim.checkers.workloads import CountedOnce, JobsWithinBounds
from fathom.sim.scenarios.endings import RUNS_FOR_EVER
from fathom.sim.scenarios.jobs import job
from fathom.sim.scenarios.staff import MANAGERS, QUIET_S, all_but, manage, run_agent
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import POLL_S, World

NODE = "node-1"
DEADLINE_S, KEPT_S, BACKOFF_S = 40, 45, 10
LATE_S = 15.0  # A leader may change meanwhile.
RUNS_S = 20.0


def checkers() -> Sequence[Checker]:
    return [*at_home(), CountedOnce(), JobsWithinBounds()]


@scenario(
    Menu(
        processes=MANAGERS,
        seconds=30,
        most=2,
        without=all_but("slow-reply", "slow-request"),
        clocks=("nobody",),  # What is judged here is measured by wall clocks, as in Kubernetes.
    ),
    checkers=checkers,
    timed=True,
)
async def jobs_in_time(world: World) -> None:
    """A Job fails when its deadline is over, one whose pod failed tries again after its back-off although its
    deadline is far away, and one that is done is kept for as long as it says and no longer."""
    manage(world, Jobs, kinds=("/pods", "/jobs"))
    run_agent(world, NODE)
    await world.sleep(5)
    for name in ("late", "again", "kept"):
        await world.apply(JOBS, _job(name))
    # Beside each other: what one waits for may be over when faults have delayed another.
    await asyncio.gather(_tries_again(world), _ends_at_its_deadline(world), _is_kept(world))
    await world.delete(JOBS, "again")
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _tries_again(world: World) -> None:
    await _in_time(
        world,
        lambda: _pods(world, "again") > 1,
        due_s=world.now_s + BACKOFF_S + 10,
        what="the failed pod is replaced",
    )


async def _ends_at_its_deadline(world: World) -> None:
    await _in_time(
        world,
        lambda: _is(world, "late", "Failed"),
        due_s=world.now_s + DEADLINE_S + 5,
        what="the deadline of the late Job is noticed",
    )


async def _is_kept(world: World) -> None:
    await _in_time(
        world,
        lambda: _is(world, "kept", "Complete"),
        due_s=world.now_s + RUNS_S + 5,
        what="the short Job is done",
    )
    done_s = _since_s(world, "kept", "Complete")
    await _in_time(
        world,
        lambda: world.get(JOBS.name, Key("default", "kept")) is None,
        due_s=done_s + KEPT_S,
        what="the Job is not kept for longer than it says",
    )
    assert world.now_s - done_s >= KEPT_S - 2, f"it was kept for {world.now_s - done_s:.0f} s only"


async def _in_time(world: World, check: Callable[[], bool], *, due_s: float, what: str) -> None:
    """Liveness: it must become true soon after it is due. Each request that a fault delays may cost as long
    as its sender waits for the answer, or the lease, so it allows as much time again."""
    while not check():
        allowed_s = LATE_S * (1 + sum(world.engine.faults.fired.values()))
        if world.now_s > due_s + allowed_s:
            world.broken("liveness", f"{what}: not within {allowed_s:g} s from when it was due")
        await world.sleep(POLL_S)


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
    return is_true(world.get(JOBS.name, Key("default", name)) or {}, condition)


def _since_s(world: World, name: str, condition: str) -> float:
    """The time that the Job states for it, in seconds since the scenario began: its commit may be later."""
    job = world.get(JOBS.name, Key("default", name)) or {}
    stated = find_condition(conditions_of(job), condition) or {}
    stated_ns = moment_ns(stated.get("lastTransitionTime"))
    assert stated_ns is not None, stated
    engine = world.engine
    return (stated_ns - engine.epoch_ns - engine.began_ns) / SECOND_NS


SCENARIOS: tuple[Scenario, ...] = (jobs_in_time,)
