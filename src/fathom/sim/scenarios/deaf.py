"""One of the controllers that an override concerns does not hear of it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.client.outcomes import Committed
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import DEPLOYMENTS, NODES, PODS
from fathom.sim.scenarios import steering
from fathom.sim.scenarios.forbidding import OverridesForbid
from fathom.sim.scenarios.scheduling import SCHEDULERS, pod
from fathom.sim.scenarios.staff import MANAGERS, QUIET_S
from fathom.sim.scenarios.steering import (
    KINDS,
    OVERRIDES,
    condition,
    in_zone,
    override,
    pods_of,
    run_cluster,
    workload,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

WEB, CORDON, PAUSE = "web", "cordon-b", "pause-web"
DEAF, DEAD, PAUSED = "deaf", "dead", "paused"
LONG_S = 900.0  # Until the world is healed.
NAMED_WITHIN_S = 120.0  # A lease expires, and overrides are looked at every 15 s; faults delay both.
WHILE = "an override is not active while one that it concerns has not heard of it"
WAITED_S = 40.0  # Long enough for overrides to be looked at twice.


class Silenced(msgspec.Struct, frozen=True):
    """Who does not hear, and the override that it must acknowledge."""

    name: str
    processes: tuple[str, ...]
    override: Key


SILENCED = (
    Silenced("scheduler", SCHEDULERS, Key(SYSTEM_NAMESPACE, CORDON)),
    Silenced("controllers", MANAGERS, Key("default", PAUSE)),
)


def checkers() -> Sequence[Checker]:
    return [*steering.checkers(), OverridesForbid({"node-a": ("a", "west"), "node-b": ("b", "west")})]


@scenario(Menu(processes=MANAGERS, kinds=KINDS, seconds=30, most=4), checkers=checkers, timed=True)
async def one_controller_deaf(world: World) -> None:
    """The scheduler or the controllers are dead, stopped or cut off from news of overrides when one is
    created. The override is not active, and says who has stopped; what the API server refuses at the write,
    it refuses all the same; when they are back, the override becomes active."""
    run_cluster(world)
    for name, zone in steering.ZONES.items():
        await world.apply(NODES, in_zone(name, zone, cpu="16"))
    await world.apply(DEPLOYMENTS, workload(WEB, 2))
    await world.until(lambda: len(steering.ready_pods(world, WEB)) == 2, within_s=120, what="web is ready")
    silenced, how = world.rng.choice(SILENCED), world.rng.choice((DEAF, DEAD, PAUSED))
    world.sometimes(f"the {silenced.name}: {how}")
    _silence(world, silenced, how)
    lives = [world.state(name) for name in silenced.processes]

    def is_silent() -> bool:
        """A fault ends a paused or deaf process too: the one that is started instead lists, and so hears."""
        return how == DEAD or lives == [world.state(name) for name in silenced.processes]

    await world.apply(
        OVERRIDES, override(CORDON, {"cordon": True}, target="zone/b", lasts="30m"), SYSTEM_NAMESPACE
    )
    changes = {"pauseExpansion": True, "pauseRollout": True}
    await world.apply(OVERRIDES, override(PAUSE, changes, target=f"workload/{WEB}", lasts="30m"))
    if silenced.name == "controllers" and how == DEAF:
        await world.sleep(WAITED_S)  # They write who is missing, and have no news of the override.
    else:
        await world.until(
            lambda: not is_silent() or _is_named(world, silenced, how),
            within_s=NAMED_WITHIN_S,
            what=f"the {silenced.name} are named",
        )
    await _try(world)
    assert not (is_silent() and _status(world, silenced).get("active")), WHILE
    world.heal()
    await world.until(
        lambda: all(_is_whole(world, each) for each in SILENCED),
        within_s=NAMED_WITHIN_S,
        what="the overrides are active",
    )
    await _try(world)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


def _silence(world: World, silenced: Silenced, how: str) -> None:
    for name in silenced.processes:
        if how == DEAF:
            world.deafen(name, "/scheduleroverrides", for_s=LONG_S)
        elif how == DEAD:
            world.crash(name, restart_after_s=LONG_S)
        else:
            world.pause(name, LONG_S)


def _is_named(world: World, silenced: Silenced, how: str) -> bool:
    """By the condition Degraded if it holds no lease, which the scheduler writes of the controllers, and they
    of the scheduler; a scheduler that only lacks the news is waited for by name."""
    status = _status(world, silenced)
    if status.get("active"):
        world.broken(WHILE, f"the {silenced.name}: {how}: {status}")
    observed, degraded = condition(status, "SchedulerOverrideObserved"), condition(status, "Degraded")
    if silenced.name == "controllers":
        return degraded.get("status") == "True" and "deployment-controller" in str(degraded.get("message"))
    missing = observed.get("status") == "False" and "scheduler" in str(observed.get("message"))
    stopped = degraded.get("status") == "True" and "scheduler" in str(degraded.get("message"))
    return missing and (how == DEAF or stopped)


def _is_whole(world: World, silenced: Silenced) -> bool:
    status = _status(world, silenced)
    return status.get("active") is True and condition(status, "Degraded").get("status") == "False"


async def _try(world: World) -> None:
    """What the API server refuses, whoever else has heard of the override."""
    placed = pod(f"by-hand-{world.now_s:.0f}")
    placed["spec"]["nodeName"] = "node-b"
    outcome = await world.api.create(PODS, "default", placed)
    assert not isinstance(outcome, Committed), "a pod was put on a node that an override cordons"
    grown = await world.api.patch(DEPLOYMENTS, "default", WEB, {"spec": {"replicas": 9}})
    assert not isinstance(grown, Committed), "a workload grew although an override pauses its expansion"
    new = pod(f"new-{world.now_s:.0f}")  # For the scheduler, which may think that zone b is open.
    await world.api.create(PODS, "default", new)
    await world.sleep(5 * world.rng.random())
    assert len(pods_of(world, WEB)) <= 2


def _status(world: World, silenced: Silenced) -> Obj:
    return lookup(world.get(OVERRIDES.name, silenced.override), "status") or {}


SCENARIOS: tuple[Scenario, ...] = (one_controller_deaf,)
