"""ReplicaSets are scaled and their pods deleted while everything around them fails. Rollouts are in
`workloads`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fathom.controllers.progress.controller import ReplicaSetProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.controllers.replicaset.plan import wanted_of
from fathom.model.objects import Key, Obj, is_deleting, labels_of, lookup, metadata, uid_of
from fathom.model.resources import PODS, REPLICA_SETS
from fathom.sim.checkers import at_home
from fathom.sim.checkers.statuses import PROGRESS
from fathom.sim.checkers.workloads import ChildrenWithinBounds, OnePodPerSlot, SaysWhatItSaw
from fathom.sim.scenarios.objects import replica_set
from fathom.sim.scenarios.shared_agent import NodeTroubles
from fathom.sim.scenarios.staff import (
    AGENT,
    MANAGERS,
    OF_ANSWERS,
    OF_WATCHES,
    UNREST,
    all_but,
    come_to_rest,
    run_managers_and_agents,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

WORKLOADS = ("web", "api", "db")
CHANGES = ("shoot", "scale")
KINDS = ("/pods", "/replicasets")
CONTROLLERS = (ReplicaSets, ReplicaSetProgress)
PATIENCE_S = 90

Make = Callable[[str, int], Obj]  # Of a workload: name, replicas.


def checkers() -> Sequence[Checker]:
    echo = SaysWhatItSaw(REPLICA_SETS.name, wanted_of, PROGRESS, _desired_of_progress)
    return [*at_home(), ChildrenWithinBounds(), OnePodPerSlot(), echo]


def _desired_of_progress(progress: Obj) -> tuple[str, int, object] | None:
    """What a WorkloadProgress says: the UID of its workload, the generation, and how many pods are
    desired."""
    current = lookup(progress, "status", "current")
    if not current:
        return None
    return (
        str(lookup(progress, "spec", "workload", "uid")),
        int(current["generation"]),
        int(current["desired"]),
    )


@scenario(
    Menu(processes=(*MANAGERS, AGENT), kinds=KINDS, happenings=UNREST, seconds=20, most=8),
    checkers=checkers,
    scale=30,
)
async def replicas(world: World) -> None:
    """ReplicaSets are scaled and their pods deleted while controllers and agents fail: never too many pods,
    and in the end as many as specified."""
    await tell_of_changes(world, run_managers_and_agents(world, *CONTROLLERS))


@scenario(
    Menu(processes=MANAGERS, kinds=KINDS, seconds=20, most=6, without=all_but(*OF_WATCHES)),
    checkers=checkers,
    scale=30,
)
async def replicas_seen_late(world: World) -> None:
    """ReplicaSets are scaled and their pods deleted while watches of one kind are held or break off and
    others are not: never too many pods, and in the end as many as specified."""
    await tell_of_changes(world, run_managers_and_agents(world, *CONTROLLERS))


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=KINDS,
        happenings=("handover",),
        seconds=20,
        most=5,
        without=all_but("happening", "hold-watch"),
    ),
    checkers=checkers,
    scale=30,
)
async def replicas_handed_over(world: World) -> None:
    """ReplicaSets are scaled and their pods deleted while leaders crash and their successors have missed
    events of one kind: never too many pods, and in the end as many as specified."""
    await tell_of_changes(world, run_managers_and_agents(world, *CONTROLLERS, kinds=KINDS))


@scenario(
    Menu(processes=MANAGERS, kinds=("/pods",), seconds=10, most=12, without=all_but(*OF_ANSWERS)),
    checkers=checkers,
    scale=30,
)
async def answers_come_late(world: World) -> None:
    """Replies to writes come late, and the youngest pods are deleted before their controller knows of them:
    never too many pods, and in the end as many as specified."""
    troubles = run_managers_and_agents(world, *CONTROLLERS)
    for name in WORKLOADS:
        await world.apply(REPLICA_SETS, replica_set(name, 3))
    for _ in range(world.scale):
        await world.sleep(0.7 * world.rng.random())
        pods = sorted(world.list("pods"), key=lambda pod: int(metadata(pod)["resourceVersion"]))
        for pod in [pod for pod in pods if not is_deleting(pod)][-1:]:
            await world.api.delete(PODS, "default", metadata(pod)["name"], uid=uid_of(pod))
    await come_to_rest(world, troubles)
    for name in WORKLOADS:
        await look_at_the_end(world, name)


@scenario(
    Menu(
        processes=(*MANAGERS, AGENT),
        servers=("api-1", "api-2"),
        kinds=KINDS,
        happenings=("move", *UNREST),
        seconds=20,
        most=8,
    ),
    servers=2,
    checkers=checkers,
    scale=30,
)
async def replicas_behind_two_servers(world: World) -> None:
    """ReplicaSets are scaled and their pods deleted behind two API servers, of which one may be far behind,
    and a balancer moves clients between them: never too many pods, and in the end as many as specified."""
    await tell_of_changes(world, run_managers_and_agents(world, *CONTROLLERS, servers=2))


async def tell_of_changes(world: World, troubles: NodeTroubles) -> None:
    await keep_changing(world, WORKLOADS)
    await come_to_rest(world, troubles)
    for name in WORKLOADS:
        await look_at_the_end(world, name)


async def keep_changing(world: World, names: Sequence[str], make: Make = replica_set) -> None:
    for name in names:
        await world.apply(REPLICA_SETS, make(name, 3))
    for _ in range(world.scale):
        await world.sleep(1.5 * world.rng.random())
        await change(world, world.rng.choice(names), world.rng.choice(CHANGES), make)


async def change(world: World, name: str, action: str, make: Make) -> None:
    if action == "shoot":
        await shoot_one(world, name)
    else:
        sizes = [number for number in range(1, 5) if number != wanted_of(the(world, name))]
        await world.apply(REPLICA_SETS, make(name, world.rng.choice(sizes)))


async def shoot_one(world: World, name: str) -> None:
    """Delete a pod of the workload, and do not wait until it is gone."""
    pods = [pod for pod in pods_of(world, name) if not is_deleting(pod)]
    if pods:
        pod = metadata(world.rng.choice(pods))
        await world.api.delete(PODS, "default", pod["name"], uid=pod["uid"])


async def look_at_the_end(world: World, name: str) -> None:
    """Wait until the workload is as specified: a leader whose list is never answered is idle for a minute,
    and then goes on."""
    for _ in range(PATIENCE_S):
        if not lacking(world, name):
            return
        await world.sleep(1)
    assert not lacking(world, name), lacking(world, name)


def lacking(world: World, name: str) -> str:
    owner, pods = the(world, name), pods_of(world, name)
    shown = [metadata(pod)["name"] for pod in pods]
    if len(pods) != wanted_of(owner):
        return f"{name} wants {wanted_of(owner)} pods, there are {shown}"
    reported = (lookup(owner, "status", "observedGeneration"), lookup(owner, "status", "readyReplicas"))
    is_so = reported == (metadata(owner)["generation"], wanted_of(owner))
    return "" if is_so else f"the status of {name} has (observedGeneration, readyReplicas) {reported}"


def the(world: World, name: str) -> Obj:
    owner = world.get(REPLICA_SETS.name, Key("default", name))
    assert owner is not None
    return owner


def pods_of(world: World, name: str) -> list[Obj]:
    return [pod for pod in world.list("pods", "default") if labels_of(pod).get("app") == name]


SCENARIOS: tuple[Scenario, ...] = (
    replicas,
    replicas_seen_late,
    replicas_behind_two_servers,
    replicas_handed_over,
    answers_come_late,
)
