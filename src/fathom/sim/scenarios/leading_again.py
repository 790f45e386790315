"""A scheduler loses its lease with bindings under way and gets it again, while pods take the names of others
and nodes refuse it now and then."""

from __future__ import annotations

from fathom.model.objects import Key, is_deleting, key_of, uid_of
from fathom.model.resources import LEASES, NODES, PODS
from fathom.sim.scenarios.scheduling import (
    KINDS,
    LEASE,
    NODE_COUNT,
    SCHEDULERS,
    checkers,
    node,
    pod,
    run_scheduler,
)
from fathom.sim.scenarios.simulated_nodes import RUNS_S, SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, QUIET_S, TIMING, all_but
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NAMES = 9  # Few, so that they are used again.


@scenario(
    Menu(
        processes=SCHEDULERS[:1],
        kinds=KINDS,
        happenings=("lose-lease",),
        seconds=30,
        most=12,
        without=all_but(
            "happening", "slow-request", "slow-reply", "lose-reply", "hold-watch", "compact", "drop-watch"
        ),
    ),
    checkers=checkers,
    scale=25,
)
async def a_scheduler_leads_again(world: World) -> None:
    """The only scheduler loses its lease with bindings under way and leads again, pods take the names of
    others, and nodes are cordoned behind its back: every pod gets its place in the end, and no other's."""
    run_scheduler(world, SCHEDULERS[0], lease=LEASE, timing=TIMING)
    run_controllers(world, AGENT, SimulatedNodes)
    world.happening("lose-lease", lambda: world.soon(lambda: lose_lease(world)))
    for number in range(1, NODE_COUNT + 1):
        await world.apply(NODES, node(f"node-{number}"))
    for _ in range(world.scale):
        await world.sleep(world.rng.random())
        await _change(world)
    for number in range(1, NODE_COUNT + 1):
        await world.apply(NODES, node(f"node-{number}"))
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _change(world: World) -> None:
    action = world.rng.choice(
        (_replace, _replace, _replace, _cordon_unheard, _lose_lease_while_binding, _relist, _finish_unheard)
    )
    await action(world)


async def _replace(world: World, *, runs_s: str = "") -> None:
    """Another pod takes the name of one that is removed at once."""
    name = f"p-{world.rng.randrange(NAMES)}"
    current = world.get("pods", Key("default", name))
    if current is not None and not is_deleting(current):
        await world.api.delete(PODS, *key_of(current), uid=uid_of(current), grace_s=0)
    obj = pod(name, cpu=world.rng.choice(("500m", "1", "3")))
    if runs_s:
        obj["metadata"]["annotations"] = {RUNS_S: runs_s}
    await world.api.create(PODS, "default", obj)


async def _cordon_unheard(world: World) -> None:
    """The scheduler does not hear that a node is cordoned for a moment: its bindings are refused."""
    name = f"node-{world.rng.randrange(1, NODE_COUNT + 1)}"
    world.deafen(SCHEDULERS[0], "/nodes", for_s=1.5)
    await world.apply(NODES, node(name, cordoned=True))
    for _ in range(3):
        await _replace(world)
    await world.sleep(1)
    await world.apply(NODES, node(name))


async def _lose_lease_while_binding(world: World) -> None:
    """Bindings are on their way when the lease is lost: they arrive too late."""
    async with world.held("bindingbatches", process=SCHEDULERS[0]):
        await _replace(world)
        await world.sleep(0.3)
        await lose_lease(world)
        await world.sleep(2)


async def _relist(world: World) -> None:
    """Pods are replaced while the scheduler hears nothing, and the history of that is forgotten."""
    world.deafen(SCHEDULERS[0], "/pods", for_s=1.5)
    for _ in range(3):
        await _replace(world)
    world.engine.store.compact_now()
    world.engine.network.drop_watches(SCHEDULERS[0], "/pods")
    await world.sleep(1)


async def _finish_unheard(world: World) -> None:
    """Pods are bound and end while the scheduler hears nothing, and the history of that is forgotten."""
    async with world.held("bindingbatches", process=SCHEDULERS[0]):
        for _ in range(2):
            await _replace(world, runs_s="0.1")
        await world.sleep(0.3)
        world.deafen(SCHEDULERS[0], "/pods", for_s=4)
    await world.sleep(3)
    world.engine.store.compact_now()
    world.engine.network.drop_watches(SCHEDULERS[0], "/pods")
    await world.sleep(1)


async def lose_lease(world: World) -> None:
    lease = Key(*LEASE.split("/"))
    if world.get(LEASES.name, lease) is not None:
        await world.api.patch(LEASES, lease.namespace, lease.name, {"spec": {"holderIdentity": None}})


SCENARIOS: tuple[Scenario, ...] = (a_scheduler_leads_again,)
