"""The lease of the leaders is not only lost, it is deleted, and a leader dies while a node is dead."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Key, key_of, lookup, uid_of
from fathom.model.resources import DEPLOYMENTS, LEASES
from fathom.sim.checkers.nodes import UNREACHABLE, OnlyAHeartbeatHeals
from fathom.sim.scenarios import leaders
from fathom.sim.scenarios.real import (
    MANAGERS as CONTROLLERS,
)
from fathom.sim.scenarios.real import NODES, deployment, run_real_cluster, standard
from fathom.sim.scenarios.replicas import keep_changing, look_at_the_end
from fathom.sim.scenarios.staff import (
    LEASE,
    MANAGERS,
    OF_PROCESSES,
    all_but,
    come_to_rest,
    leads,
    run_managers_and_agents,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

DEATH_AT_S = 20.0
UNREACHABLE_S = 100.0


@scenario(
    Menu(
        processes=MANAGERS,
        servers=("api-1", "api-2"),
        kinds=("/leases", "/pods", "/replicasets"),
        happenings=("delete-lease", "lose-lease", "move"),
        seconds=14,
        most=8,
        without=all_but(*OF_PROCESSES, "happening", "slow-reply", "stale-server"),
    ),
    servers=2,
    checkers=leaders.checkers,
    scale=16,
)
async def leases_are_deleted(world: World) -> None:
    """The lease of the leaders is deleted while they write, pause and are cut off: its epochs go on, and none
    of them writes in another's term."""
    troubles = run_managers_and_agents(world, ReplicaSets, servers=2)
    world.happening("delete-lease", lambda: world.soon(lambda: _delete_lease(world)))
    await world.sleep(3)
    await _delete_lease(world)
    await keep_changing(world, leaders.WORKLOADS)
    await _delete_lease(world)
    await come_to_rest(world, troubles)
    for name in leaders.WORKLOADS:
        await look_at_the_end(world, name)


async def _delete_lease(world: World) -> None:
    lease = world.get(LEASES.name, Key(*LEASE.split("/")))
    if lease is not None:
        await world.api.delete(LEASES, *key_of(lease), uid=uid_of(lease))


def hearing() -> Sequence[Checker]:
    return [*standard(), OnlyAHeartbeatHeals()]


@scenario(
    Menu(processes=CONTROLLERS, seconds=40, most=3, without=all_but("slow-reply", "slow-request")),
    checkers=hearing,
)
async def led_anew_while_a_node_is_dead(world: World) -> None:
    """A node dies and is called unreachable; then the leader of the controllers dies, again and again: no new
    leader takes the dead node for healthy, and its pods run elsewhere in the end."""
    run_real_cluster(world)
    await world.apply(DEPLOYMENTS, deployment("web", 6))
    await world.sleep(DEATH_AT_S - world.now_s)
    dead = world.rng.choice(NODES)
    world.kill(dead)
    world.heal()
    await world.until(
        lambda: UNREACHABLE in str(lookup(world.get("nodes", Key("", dead)), "spec", "taints")),
        within_s=UNREACHABLE_S,
        what="the dead node is called unreachable",
    )
    for _ in range(2):
        await world.sleep(5 + 20 * world.rng.random())
        for name in CONTROLLERS:
            if leads(world, name):
                world.crash(name, restart_after_s=3.0)
        await world.sleep(25)
    await world.settle(quiet_s=90, within_s=900)


SCENARIOS: tuple[Scenario, ...] = (leases_are_deleted, led_anew_while_a_node_is_dead)
