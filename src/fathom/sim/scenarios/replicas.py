"""A workload that is scaled, rolled and shot at while everything around it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fathom.model.conditions import find_condition
from fathom.model.objects import Key, Obj, is_deleting, labels_of, lookup, metadata, uid_of
from fathom.sim.checkers import at_home
from fathom.sim.checkers.workloads import ChildrenWithinBounds, OnePodPerSlot, SaysWhatItSaw
from fathom.sim.invariants import Checker
from fathom.sim.menu import Menu
from fathom.sim.scenario import Scenario, scenario
from fathom.sim.scenarios.objects import PODS, REPLICA_SETS, replica_set
from fathom.sim.scenarios.staff import (
    AGENT,
    MANAGERS,
    OF_ANSWERS,
    OF_WATCHES,
    UNREST,
    all_but,
    come_to_rest,
    employ,
)
from fathom.sim.standins.agent import Weather
from fathom.sim.standins.replicator import SCALED, TEMPLATE, Replicator, surge_of, template_mark, wanted_of
from fathom.sim.world import World

WORKLOADS = ("web", "api", "db")
CHANGES = ("shoot", "shoot", "scale", "scale", "roll")
KINDS = ("/pods", "/replicasets")
PATIENCE_S = 90

Make = Callable[..., Obj]  # Of a workload: (name, replicas, *, tag, surge).


def checkers() -> Sequence[Checker]:
    echo = SaysWhatItSaw(REPLICA_SETS.name, wanted_of, _said)
    return [*at_home(), ChildrenWithinBounds(), OnePodPerSlot(), echo]


def _said(owner: Obj) -> tuple[int, object] | None:
    """'3 wanted', and of which generation."""
    condition = find_condition(lookup(owner, "status", "conditions") or [], SCALED)
    if condition is None:
        return None
    return int(lookup(owner, "status", "observedGeneration")), int(condition["message"].split()[0])


@scenario(
    Menu(processes=(*MANAGERS, AGENT), kinds=KINDS, happenings=UNREST, seconds=20, most=8),
    checkers=checkers,
    scale=30,
)
async def replicas(world: World) -> None:
    """A workload is scaled, rolled and shot at: never too many pods, and in the end as many as wanted."""
    await tell_of_changes(world, employ(world, Replicator))


@scenario(
    Menu(processes=MANAGERS, kinds=KINDS, seconds=20, most=6, without=all_but(*OF_WATCHES)),
    checkers=checkers,
    scale=30,
)
async def replicas_seen_late(world: World) -> None:
    """The same, while what managers hear of one kind is held back or breaks off, and of another is not."""
    await tell_of_changes(world, employ(world, Replicator))


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
    """The same, while leaders die, and those who follow them have not heard of one kind for a while."""
    await tell_of_changes(world, employ(world, Replicator, kinds=KINDS))


@scenario(
    Menu(processes=MANAGERS, kinds=("/pods",), seconds=10, most=12, without=all_but(*OF_ANSWERS)),
    checkers=checkers,
    scale=30,
)
async def answers_come_late(world: World) -> None:
    """Answers to writes come when much has happened since: the youngest pods are shot before their makers
    have heard of them."""
    weather = employ(world, Replicator)
    for name in WORKLOADS:
        await world.apply(REPLICA_SETS, replica_set(name, 3))
    for _ in range(world.scale):
        await world.sleep(0.7 * world.rng.random())
        pods = sorted(world.list("pods"), key=lambda pod: int(metadata(pod)["resourceVersion"]))
        for pod in [pod for pod in pods if not is_deleting(pod)][-1:]:
            await world.api.delete(PODS, "default", metadata(pod)["name"], uid=uid_of(pod))
    await come_to_rest(world, weather)
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
    """The same behind two API servers, of which one may be far behind, and a balancer that moves everybody
    from one to the other."""
    await tell_of_changes(world, employ(world, Replicator, servers=2))


async def tell_of_changes(world: World, weather: Weather) -> None:
    await keep_changing(world, WORKLOADS, replica_set)
    await come_to_rest(world, weather)
    for name in WORKLOADS:
        await look_at_the_end(world, name)


async def keep_changing(world: World, names: Sequence[str], make: Make) -> None:
    for name in names:
        await world.apply(REPLICA_SETS, make(name, 3, surge=world.rng.choice((0, 0, 1))))
    for _ in range(world.scale):
        await world.sleep(1.5 * world.rng.random())
        await change(world, world.rng.choice(names), world.rng.choice(CHANGES), make)


async def change(world: World, name: str, what: str, make: Make) -> None:
    owner = the(world, name)
    wanted, tag, surge = wanted_of(owner), tag_of(owner), surge_of(owner)
    if what == "shoot":
        await shoot_one(world, name)
    elif what == "scale":
        wanted = world.rng.choice([number for number in range(1, 5) if number != wanted])
        await world.apply(REPLICA_SETS, make(name, wanted, tag=str(tag), surge=surge))
    else:
        await world.apply(REPLICA_SETS, make(name, wanted, tag=str(tag + 1), surge=surge))


async def shoot_one(world: World, name: str) -> None:
    """Some pod of the workload is deleted, by somebody who does not wait for it to be gone."""
    pods = [pod for pod in pods_of(world, name) if not is_deleting(pod)]
    if pods:
        pod = metadata(world.rng.choice(pods))
        await world.api.delete(PODS, "default", pod["name"], uid=pod["uid"])


async def look_at_the_end(world: World, name: str) -> None:
    """It comes to be so: a leader whose list is never answered is quiet for a minute, and then goes on."""
    for _ in range(PATIENCE_S):
        if not lacking(world, name):
            return
        await world.sleep(1)
    assert not lacking(world, name), lacking(world, name)


def lacking(world: World, name: str) -> str:
    owner, pods = the(world, name), pods_of(world, name)
    shown = [metadata(pod)["name"] for pod in pods]
    if len(pods) != wanted_of(owner):
        return f"{name} wants {wanted_of(owner)}, there are {shown}"
    if old := [metadata(pod)["name"] for pod in pods if labels_of(pod)[TEMPLATE] != template_mark(owner)]:
        return f"{old} are of an old template"
    said = (lookup(owner, "status", "observedGeneration"), lookup(owner, "status", "readyReplicas"))
    is_so = said == (metadata(owner)["generation"], wanted_of(owner))
    return "" if is_so else f"the status of {name} says {said}"


def the(world: World, name: str) -> Obj:
    owner = world.get(REPLICA_SETS.name, Key("default", name))
    assert owner is not None
    return owner


def pods_of(world: World, name: str) -> list[Obj]:
    return [pod for pod in world.list("pods", "default") if labels_of(pod).get("app") == name]


def tag_of(owner: Obj) -> int:
    image = lookup(owner, "spec", "template", "spec")["containers"][0]["image"]
    return int(image.rpartition(":")[2])


SCENARIOS: tuple[Scenario, ...] = (
    replicas,
    replicas_seen_late,
    replicas_behind_two_servers,
    replicas_handed_over,
    answers_come_late,
)
