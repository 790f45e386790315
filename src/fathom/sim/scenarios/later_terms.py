"""A scheduler leads that has not heard of an override which its predecessor had acknowledged: nobody says
meanwhile that the override is observed."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.objects import Key, lookup
from fathom.model.resources import DEPLOYMENTS, LEASES, NODES
from fathom.model.well_known import EPOCH_ANNOTATION
from fathom.sim.checkers.override_effects import LATE_S
from fathom.sim.scenarios import steering
from fathom.sim.scenarios.scheduling import LEASE, SCHEDULERS
from fathom.sim.scenarios.staff import QUIET_S, all_but, leads
from fathom.sim.scenarios.steering import OVERRIDES, condition, in_zone, override, run_cluster, status_of
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NAME, PATH = "avoided", "/scheduleroverrides"
TERM = "an override counts as observed only by who leads now"
DEAF_S = 40.0
LOOKS = 60  # Each half a second: until the deaf one hears again.
LOOK_S = 0.5
NOTICED_S = 8.0  # By the controllers: a lease's event, and a pass.


def checkers() -> Sequence[Checker]:
    return steering.checkers()


@scenario(
    Menu(processes=SCHEDULERS, seconds=60, most=2, without=all_but("slow-reply", "drop-watch")),
    checkers=checkers,
    scale=2,
    timed=True,
)
async def led_by_who_has_not_heard(world: World) -> None:
    """An override is made or changed while the next leader hears nothing of overrides; its scheduler
    acknowledges it, and dies. Until the next one has acknowledged it too, it does not count as observed."""
    run_cluster(world)
    for zone in ("a", "b"):
        await world.apply(NODES, in_zone(f"node-{zone}", zone))
    await world.apply(DEPLOYMENTS, steering.workload("web", 2))
    await world.sleep(6)
    for number in range(world.scale):
        leader = next((name for name in SCHEDULERS if leads(world, name)), SCHEDULERS[0])
        for name in SCHEDULERS:
            if name != leader:
                world.deafen(name, PATH, for_s=DEAF_S)
        await world.sleep(0.5 + world.rng.random())
        changes = {"avoidZones": [world.rng.choice("ab")]}
        await world.apply(OVERRIDES, override(f"{NAME}-{number}", changes, target="workload/web", lasts="1h"))
        await world.sleep(3 + 3 * world.rng.random())
        world.crash(leader, restart_after_s=LATE_S + 20)
        await _look_at_the_terms(world, f"{NAME}-{number}")
    for number in range(world.scale):
        await steering.end_override(world, f"{NAME}-{number}")
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


async def _look_at_the_terms(world: World, name: str) -> None:
    epoch, since_s = _epoch(world), world.now_s
    for _ in range(LOOKS):
        if _epoch(world) != epoch:
            epoch, since_s = _epoch(world), world.now_s
        status = status_of(world, name)
        earlier = [
            entry["controller"]
            for entry in status.get("acknowledgements") or ()
            if entry["controller"].startswith("scheduler") and 0 < int(entry.get("epoch") or 0) < epoch
        ]
        observed = condition(status, "SchedulerOverrideObserved").get("status") == "True"
        if earlier and observed and world.now_s - since_s > NOTICED_S:
            world.broken(
                TERM, f"{name} is observed, but {earlier[0]} has not acknowledged it in epoch {epoch}"
            )
        if earlier and not observed:
            world.sometimes("an override is not observed by the next leader yet")
        await world.sleep(LOOK_S)


def _epoch(world: World) -> int:
    lease = world.get(LEASES.name, Key(*LEASE.split("/"))) or {}
    return int(lookup(lease, "metadata", "annotations", EPOCH_ANNOTATION) or 0)


SCENARIOS: tuple[Scenario, ...] = (led_by_who_has_not_heard,)
