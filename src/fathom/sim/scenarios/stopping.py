"""Processes of the control plane stop for good, or for long: overrides name who no longer honours them, and
what a dead leader said of itself does not stay."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import DEPLOYMENTS, NODES
from fathom.sim.scenarios.scheduling import SCHEDULERS
from fathom.sim.scenarios.staff import MANAGERS, QUIET_S, all_but
from fathom.sim.scenarios.steering import (
    KINDS,
    OVERRIDES,
    PROCESSES,
    checkers,
    condition,
    in_zone,
    override,
    run_cluster,
    status_of,
    workload,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

STEERS, COMPONENT = "steers", "controllers"
SIGNALS = "componentsignals.fathom.dev"
# Who stops -> the controllers of the override that go with them.
STOPS: dict[tuple[str, ...], tuple[str, ...]] = {
    SCHEDULERS: ("scheduler",),
    MANAGERS: ("autoscaler",),
    (*SCHEDULERS, *MANAGERS): ("scheduler", "autoscaler"),
}
NAMED_S = 90.0  # Silent for 30 s, looked at every few seconds, with room for faults.
AWAY_S = NAMED_S + 10
BACK_S = 90.0
PUBLISHED_S = 20.0  # A leader publishes soon that its watches broke, and withdraws it after 30 s.


@scenario(
    Menu(
        processes=PROCESSES,
        kinds=KINDS,
        seconds=30,
        most=3,
        without=all_but("slow-reply", "slow-request", "lose-reply", "hold-watch", "drop-watch"),
    ),
    checkers=checkers,
    scale=2,
    timed=True,
)
async def who_stops_is_named(world: World) -> None:
    """Schedulers, controllers or all of them stop for minutes while an override is in force: its condition
    names who stopped, and no longer when they are back. The API server has crashed just before: that watches
    broke is published, and withdrawn by whoever leads next."""
    run_cluster(world, signals=COMPONENT)
    await world.apply(NODES, in_zone("node-a", "a"))
    await world.apply(NODES, in_zone("node-b", "b"))
    await world.apply(DEPLOYMENTS, workload("web", 2))
    changes = {"avoidZones": ["a"], "pauseAutoscaler": True}
    await world.apply(OVERRIDES, override(STEERS, changes, target="workload/web", lasts="3600s"))
    await world.until(
        lambda: condition(status_of(world, STEERS), "SchedulerOverrideObserved").get("status") == "True",
        within_s=60,
        what="the override is acknowledged",
    )
    for who in world.rng.sample(sorted(STOPS), world.scale):
        await _stop(world, who)
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _stop(world: World, who: Sequence[str]) -> None:
    world.crash("api-1", restart_after_s=1.0)
    broke_s = world.now_s
    while not _published(world) and world.now_s < broke_s + PUBLISHED_S:
        await world.sleep(1.0)
    if _published(world):
        world.sometimes("a leader stops while its signals are published")
    for name in who:
        world.crash(name, restart_after_s=AWAY_S)
    gone_s, names = world.now_s, set(STOPS[tuple(who)])
    while not _named(world) >= names:
        if world.now_s > gone_s + NAMED_S:
            world.broken(
                "liveness", f"{', '.join(who)} have stopped, and an override says: {_degraded(world)}"
            )
        await world.sleep(1.0)
    await world.sleep(gone_s + AWAY_S - world.now_s)
    await world.until(
        lambda: _degraded(world).get("status") == "False",
        within_s=BACK_S,
        what="the override names nobody any more",
    )


def _degraded(world: World) -> Obj:
    return condition(status_of(world, STEERS), "Degraded")


def _named(world: World) -> set[str]:
    """The controllers that the override calls stopped."""
    degraded = _degraded(world)
    if degraded.get("status") != "True" or degraded.get("reason") != "AcknowledgerStopped":
        return set()
    names = str(degraded.get("message")).partition(" does not renew")[0].split(", ")
    return {name.partition("-")[0] for name in names}


def _published(world: World) -> list[str]:
    signals = world.get(SIGNALS, Key("", COMPONENT)) or {}
    return [str(signal.get("name")) for signal in lookup(signals, "status", "signals") or ()]


SCENARIOS: tuple[Scenario, ...] = (who_stops_is_named,)
