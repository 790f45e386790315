"""Things are due at a time of day, and the clocks are set past it: they happen within seconds. What is not
due yet does not happen, whichever way the clocks are set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fathom.controllers.job.controller import Jobs
from fathom.controllers.repair.controller import RepairReservations
from fathom.model.conditions import is_true
from fathom.model.objects import Key, Obj, lookup, metadata, uid_of
from fathom.model.resources import DEPLOYMENTS, JOBS, NODES, PODS, REPLICA_SETS
from fathom.model.times import SECOND_NS, timestamp
from fathom.sim.checkers import at_home
from fathom.sim.checkers.overrides import of_overrides
from fathom.sim.scenarios.failures import RESERVATIONS, reservation
from fathom.sim.scenarios.jobs import job
from fathom.sim.scenarios.scheduling import SCHEDULERS, own, pod
from fathom.sim.scenarios.simulated_nodes import FAILS_AT
from fathom.sim.scenarios.staff import AGENT, MANAGERS, QUIET_S, all_but
from fathom.sim.scenarios.steering import (
    CAPACITY_CLASSES,
    OVERRIDES,
    end_override,
    in_zone,
    is_proven,
    override,
    pods_of,
    ready_pods,
    run_cluster,
    status_of,
    workload,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

DUE_S = 900  # All is due so long after the scenario has begun, or a little later.
BEGIN_S = 30.0  # By then all is begun.
EARLY_S = (-4000.0, -300.0, 300.0, 500.0)
PAST_S = (920.0, 1000.0, 4000.0, 90_000.0)
# How long it takes at most that a process notices, and a pass or two after that.
LATE_S = 30.0
SHORT_S = 8.0
MISSED = "what is due happens soon after the clock is set past it"
EARLY = "what is not due does not happen when the clock is set"
ENDS = "what was begun before the clocks were set ends soon all the same"
DECIDERS = (*MANAGERS, *SCHEDULERS)


def checkers() -> Sequence[Checker]:
    return [*at_home(), *of_overrides()]


@scenario(
    Menu(
        processes=DECIDERS,
        seconds=60,
        most=2,
        without=all_but("slow-reply", "slow-request"),
        clocks=("nobody",),  # The scenario itself sets them.
    ),
    checkers=checkers,
    timed=True,
)
async def due_when_clocks_are_set(world: World) -> None:
    """A Job's deadline, another one's lifetime, a reservation, the end of an override and `minReadySeconds`
    are minutes away. Clocks are set, of all processes or of those that decide, and nothing of it happens;
    then they are set past all that, and all of it happens. (An override ends by the clock of the API
    server.) Other things are on their way each time: a Job whose pods succeed or fail, a rollout, a deletion.
    They end soon, whichever way the clocks of those that decide are set."""
    run_cluster(world, Jobs, RepairReservations)
    await _begin(world)
    await world.sleep(BEGIN_S - world.now_s)
    assert not _done(world), _done(world)
    whose, due = world.rng.choice(((DECIDERS, BY_THEIR_CLOCKS), ((*DECIDERS, AGENT, "api-1"), DUE)))
    for turn in range(world.rng.randrange(1, 4)):
        # The simulated agent measures how long its pods run by its wall clock, so that must stay as it is.
        ends = {} if AGENT in whose else await _begin_something(world, turn)
        _set_clocks(world, whose, world.rng.choice(EARLY_S))
        await world.sleep(5 + 20 * world.rng.random())
        if early := _done(world):
            world.broken(EARLY, f"too early: {', '.join(early)}")
        await _ends_soon(world, ends)
    _set_clocks(world, whose, world.rng.choice(PAST_S))
    due_s = world.now_s
    while missed := [what for what in due if not due[what](world)]:
        # Each request that a fault delays may cost as long as its sender waits for the answer, or the lease.
        if world.now_s - due_s > LATE_S * (1 + sum(world.engine.faults.fired.values())):
            world.broken(MISSED, f"not within {LATE_S:g} s: {', '.join(missed)}")
        await world.sleep(1.0)
    world.heal()
    await asyncio.sleep(5)
    await world.delete(PODS, "held")
    await world.settle(quiet_s=QUIET_S, within_s=900)


@scenario(
    Menu(
        processes=SCHEDULERS,
        seconds=90,
        most=2,
        without=all_but("slow-reply", "slow-request", "crash"),
        clocks=("nobody",),  # The scenario itself sets them.
    ),
    checkers=checkers,
    timed=True,
)
async def scheduled_while_clocks_are_set(world: World) -> None:
    """Overrides keep pods out of a zone, and lend them reserved room, until they end. The clocks of the
    schedulers are set past that, and back, while pods come and go: each is placed by the overrides that are
    in force at the time that its scheduler has."""
    run_cluster(world)
    spare = own("CapacityClass", "spare", {"nodeSelector": {"pool": "spare"}, "tenants": []})
    await world.apply(CAPACITY_CLASSES, spare)
    for number in range(4):
        pool = {"pool": "spare"} if number == 3 else {}
        await world.apply(NODES, in_zone(f"node-{number}", "ab"[number % 2], cpu="8", **pool))
    lasts = f"{DUE_S}s"
    await world.apply(
        OVERRIDES, override("avoids", {"avoidZones": ["a"]}, target="workload/web", lasts=lasts)
    )
    lends = {"allowReservedCapacityClass": "spare", "reservedReplicas": 3}
    await world.apply(OVERRIDES, override("lends", lends, target="workload/lent", lasts=lasts))
    names = world.rng.choice((("web",), ("web", "lent")))
    for turn in range(10):
        for name in names:
            await world.apply(DEPLOYMENTS, workload(name, world.rng.randrange(1, 3 + turn), cpu="100m"))
        await world.sleep(1 + 5 * world.rng.random())
        if world.rng.random() < 0.5:
            _set_clocks(world, SCHEDULERS, world.rng.choice((0.0, 0.0, -300.0, *PAST_S)))
    world.heal()
    await end_override(world, "avoids")
    await end_override(world, "lends")
    await world.settle(quiet_s=QUIET_S, within_s=900)


def _set_clocks(world: World, whose: Sequence[str], ahead_s: float) -> None:
    for name in whose:
        world.engine.processes[name].set_clock(round(ahead_s * SECOND_NS))


async def _begin(world: World) -> None:
    await world.apply(NODES, in_zone("node-1", "a", cpu="8"))
    lasts = f"{DUE_S}s"
    await world.apply(
        OVERRIDES, override("avoids", {"avoidZones": ["a"]}, target="workload/web", lasts=lasts)
    )
    await world.apply(DEPLOYMENTS, workload("web", 2))  # Waits for the end of the override.
    slow = workload("slow", 1)
    slow["spec"] |= {"minReadySeconds": DUE_S, "progressDeadlineSeconds": 2 * DUE_S}
    await world.apply(DEPLOYMENTS, slow)
    for name, runs_s, more in (
        ("late", 1e9, {"activeDeadlineSeconds": DUE_S}),
        ("kept", 1.0, {"ttlSecondsAfterFinished": DUE_S}),
    ):
        obj = job(name, completions=1, parallelism=1, runs_s=runs_s)
        obj["spec"] |= more
        await world.apply(JOBS, obj)
    # Another scheduler, which is not there, has reserved room for its pod.
    held = pod("held")
    held["spec"] |= {"schedulerName": "another"}
    waiting = await world.apply(PODS, held)
    engine = world.engine
    expires = timestamp(engine.epoch_ns + engine.now_ns + DUE_S * SECOND_NS)
    await world.apply(RESERVATIONS, reservation("kept", pod="held", uid=uid_of(waiting), expires=expires))


# What is on its way when the clocks are set. The name of it, and whether it has ended.
Ends = dict[str, Callable[[World], bool]]


async def _begin_something(world: World, turn: int) -> Ends:
    name = f"short-{turn}"
    kind = world.rng.choice(("success", "success", "failure", "rollout", "deletion"))
    if kind in ("success", "failure"):
        await world.apply(JOBS, _short_job(name, fails=kind == "failure"))
        condition = "Failed" if kind == "failure" else "Complete"
        await _let_begin(world, lambda: bool(lookup(_job(world, name), "status", "startTime")))
        return {f"a Job that ends with {condition}": lambda world: is_true(_job(world, name), condition)}
    await world.apply(DEPLOYMENTS, workload(name, 1))
    if kind == "rollout":
        await _let_begin(world, lambda: bool(pods_of(world, name)))
        return {
            "a rollout": lambda world: lookup(_deployment(world, name), "status", "availableReplicas") == 1
        }
    await _let_begin(world, lambda: bool(ready_pods(world, name)))
    policy = world.rng.choice(("Foreground", "Background"))
    await world.api.delete(DEPLOYMENTS, "default", name, uid=uid_of(_deployment(world, name)), policy=policy)
    return {f"a deletion ({policy})": lambda world: not _left(world, name)}


def _short_job(name: str, *, fails: bool) -> Obj:
    obj = job(name, completions=1, parallelism=1, runs_s=SHORT_S)
    obj["spec"] |= {"backoffLimit": 0}
    if fails:
        obj["spec"] |= {"completionMode": "Indexed"}
        obj["spec"]["template"]["metadata"]["annotations"] |= {FAILS_AT: "0"}
    return obj


async def _let_begin(world: World, begun: Callable[[], bool]) -> None:
    """Faults may take long; what has not begun by then is begun on the other clock."""
    until_s = world.now_s + LATE_S
    while not begun() and world.now_s < until_s:
        await world.sleep(0.2)


async def _ends_soon(world: World, ends: Ends) -> None:
    begun_s = world.now_s
    while missed := [what for what, has_ended in ends.items() if not has_ended(world)]:
        if world.now_s - begun_s > LATE_S * (1 + sum(world.engine.faults.fired.values())):
            world.broken(ENDS, f"not within {LATE_S:g} s: {', '.join(missed)}")
        await world.sleep(1.0)


def _left(world: World, name: str) -> list[Obj]:
    """What is left of a Deployment: itself, its ReplicaSets and its pods."""
    kinds = (DEPLOYMENTS.name, REPLICA_SETS.name, PODS.name)
    listed = [obj for kind in kinds for obj in world.list(kind, "default")]
    return [obj for obj in listed if metadata(obj)["name"].startswith(name)]


# What is due, and whether it has happened.


def _deployment(world: World, name: str) -> Obj:
    return world.get(DEPLOYMENTS.name, Key("default", name)) or {}


def _job(world: World, name: str) -> Obj:
    return world.get(JOBS.name, Key("default", name)) or {}


def _is_expired(world: World) -> bool:
    obj = world.get(RESERVATIONS.name, Key("default", "kept"))
    return obj is None or lookup(obj, "status", "phase") == "Expired"


def _available(world: World) -> bool:
    return bool(lookup(_deployment(world, "slow"), "status", "availableReplicas"))


BY_THEIR_CLOCKS: dict[str, Callable[[World], bool]] = {
    "the deadline of a Job": lambda world: is_true(_job(world, "late"), "Failed"),
    "the end of a finished Job's lifetime": lambda world: not _job(world, "kept"),
    "the expiry of a reservation": _is_expired,
    "a pod that has been ready for long enough": _available,
}
DUE: dict[str, Callable[[World], bool]] = {
    **BY_THEIR_CLOCKS,
    "the end of an override": lambda world: is_proven(status_of(world, "avoids")),
    "pods that waited for its end": lambda world: len(ready_pods(world, "web")) == 2,
}


def _done(world: World) -> list[str]:
    return [what for what, has_happened in DUE.items() if has_happened(world)]


SCENARIOS: tuple[Scenario, ...] = (due_when_clocks_are_set, scheduled_while_clocks_are_set)
