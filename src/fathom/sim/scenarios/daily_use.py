"""People use the whole API through two servers, of which one is behind now and then: Services and their
ports, leases, applied and scaled workloads, namespaces, bindings, quotas, lists."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from fathom.model.errors import ApiError
from fathom.model.objects import Obj, key_of, uid_of
from fathom.model.resources import NAMESPACES, NODES, PODS
from fathom.model.user import MASTERS, User
from fathom.seams.streams import Streams
from fathom.sim.checkers import at_home
from fathom.sim.checkers.leaders import LeasesAreHeldOut
from fathom.sim.scenarios.daily_work import NAMES, SORTS
from fathom.sim.scenarios.people import ClientDied, Person
from fathom.sim.scenarios.scheduling import node
from fathom.sim.world.fault_menu import Menu, draw
from fathom.sim.world.faults import AnyFault, StaleServer
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

PEOPLE = ("mary", "paul", "rose", "tom")
SERVERS = ("api-1", "api-2")
MENU = Menu(processes=PEOPLE, servers=SERVERS, seconds=20, most=4, without=("skew",))
SOME = 3  # Sorts of things that are done in one run: each often, on few names.


def checkers() -> Sequence[Checker]:
    """People take leases from each other whenever they like."""
    return [checker for checker in at_home() if not isinstance(checker, LeasesAreHeldOut)]


def of_servers(seed: str) -> Sequence[AnyFault]:
    """Now one server is behind, now the other; and some of the usual faults."""
    rng = Streams(seed).stream("behind")
    behind = [
        StaleServer(at_s=3.0 * turn + rng.random(), target=rng.choice(SERVERS), for_s=1 + 2 * rng.random())
        for turn in range(8)
    ]
    return sorted([*behind, *draw(rng, MENU)], key=lambda fault: fault.at_s)


@scenario(MENU, faults_of=of_servers, servers=2, checkers=checkers, scale=40)
async def daily_use(world: World) -> None:
    """People do whatever people do, at the same time and on the same objects, after what they have read a
    while ago: what servers store and answer is what a plain reading of each rule says."""
    people = [
        Person(world, name, server=1 + number % 2, account=User(name, (MASTERS,)))
        for number, name in enumerate(PEOPLE)
    ]
    read_before: dict[str, Obj] = {}
    await world.apply(NODES, node("node-1"))
    await world.apply(NODES, node("node-2"))
    for name in NAMES[:2]:
        await world.apply(NAMESPACES, {"metadata": {"name": name}})
    sorts = world.rng.sample(SORTS, SOME)

    async def works(person: Person) -> None:
        for _ in range(world.scale):
            with suppress(ClientDied, ApiError):
                await person.does(world.rng.choice(sorts)(world, read_before))
            await world.sleep(world.rng.random())

    await asyncio.gather(*(works(person) for person in people))
    for pod in world.list(PODS.name):
        await world.api.delete(PODS, *key_of(pod), uid=uid_of(pod), grace_s=0)  # There is no agent.
    await world.heal_and_settle(quiet_s=5)


SCENARIOS: tuple[Scenario, ...] = (daily_use,)
