"""The gateway's controller: its table has the ready endpoints, and its status says which weights it has
seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fathom.controllers.endpoints.controller import EndpointSlices
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.gateway.controller import ROUTES, Gateway
from fathom.gateway.controller import begin as begin_gateway
from fathom.model import accounts
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.resources import NODES, REPLICA_SETS, SERVICES
from fathom.model.user import User
from fathom.sim.checkers import at_home
from fathom.sim.checkers.gateway_table import LABELS as PLACE_LABELS
from fathom.sim.scenarios.foreign_conditions import mark
from fathom.sim.scenarios.objects import node, replica_set, template
from fathom.sim.scenarios.serving import service
from fathom.sim.scenarios.staff import (
    AGENT,
    MANAGERS,
    QUIET_S,
    all_but,
    come_to_rest,
    run_managers_and_agents,
)
from fathom.sim.world.controllers import nudge
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import REFUSALS, AnyFault, Refuse
from fathom.sim.world.invariants import Checker, Finding
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

GATEWAY = "gateway"
WORKLOADS = ("web", "api")


class TheTableIsTrue(Checker):
    name = "the gateway knows its endpoints"
    patience_s = 120.0

    def settled(self, world: World) -> Iterable[str | Finding]:
        gateway = world.state(GATEWAY)
        assert isinstance(gateway, Gateway)
        for name in WORKLOADS:
            listeners = [listener for listener in gateway.table if listener.service == f"default/{name}"]
            routed = sorted({endpoint.address for listener in listeners for endpoint in listener.endpoints})
            ready = sorted(_addresses(world, name))
            if routed != ready:
                yield f"the gateway sends {name} to {routed}, ready are {ready}"
        for route in world.list(ROUTES.name):
            seen = lookup(route, "status", "observedGeneration")
            if seen != metadata(route)["generation"]:
                path = f"{ROUTES.name}/default/{metadata(route)['name']}"
                yield Finding(
                    f"{path} has generation {metadata(route)['generation']}, the gateway observed {seen}",
                    (path,),
                )


def _addresses(world: World, app: str) -> list[str]:
    addresses = []
    for pod in world.list("pods", "default"):
        conditions = lookup(pod, "status", "conditions") or ()
        ready = any(
            condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
        )
        going = metadata(pod).get("deletionTimestamp")
        if ready and not going and lookup(pod, "metadata", "labels", "app") == app:
            addresses.append(str(lookup(pod, "status", "podIP")))
    return addresses


def checkers() -> Sequence[Checker]:
    return [*at_home(), TheTableIsTrue()]


@scenario(
    Menu(
        processes=(GATEWAY, *MANAGERS),
        kinds=("/endpointslices", "/services", "/trafficroutes"),
        seconds=25,
        most=8,
    ),
    checkers=checkers,
    scale=14,
)
async def gateway_follows(world: World) -> None:
    """Services, their pods and their route weights change: in the end the gateway knows all ready endpoints
    and has seen all weights."""
    await _change_pods_and_weights(world)


async def _change_pods_and_weights(world: World) -> None:
    troubles = run_managers_and_agents(world, ReplicaSets, EndpointSlices, kinds=("/pods", "/endpointslices"))
    world.process(GATEWAY, begin_gateway, account=User(accounts.GATEWAY))
    for name in WORKLOADS:
        await world.apply(SERVICES, service(name))
    for _ in range(world.scale):
        await world.sleep(2 * world.rng.random())
        name = world.rng.choice(WORKLOADS)
        if world.rng.random() < 0.5:
            await world.apply(REPLICA_SETS, replica_set(name, world.rng.randrange(0, 4)))
        else:
            await world.apply(ROUTES, route(name, world.rng.randrange(1, 100)))
    await come_to_rest(world, troubles)


def refused_until_all_is_done(seed: str) -> Sequence[AnyFault]:
    number = int(seed) if seed.isdigit() else 0
    status = REFUSALS[number % len(REFUSALS)]
    return (
        Refuse(
            at_s=3.0 + number % 7, for_s=120.0, target=GATEWAY, match="PATCH ", times=10_000, status=status
        ),
    )


@scenario(Menu(processes=(GATEWAY,)), faults_of=refused_until_all_is_done, checkers=checkers, scale=8)
async def gateway_is_refused(world: World) -> None:
    """What the gateway writes is refused until nothing changes any more: it writes that then, without being
    told."""
    await _change_pods_and_weights(world)


def route(name: str, weight: int) -> Obj:
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "TrafficRoute",
        "metadata": {"name": name},
        "spec": {"service": name, "routes": [{"zone": "zone-a", "weight": weight}]},
    }


@scenario(
    Menu(
        processes=(GATEWAY,),
        kinds=("/endpointslices", "/services", "/trafficroutes"),
        seconds=25,
        most=6,
        without=all_but("hold-watch", "drop-watch", "slow-request", "slow-reply", "crash"),
    ),
    checkers=checkers,
    scale=12,
)
async def gateway_among_others(world: World) -> None:
    """Pods are not ready for long, and another client keeps a condition of its own on the routes, of which
    the gateway hears late: it sends nothing to who is not ready, and removes nothing of another."""
    troubles = run_managers_and_agents(world, ReplicaSets, EndpointSlices, kinds=("/pods", "/endpointslices"))
    world.process(GATEWAY, begin_gateway, account=User(accounts.GATEWAY))
    for name in WORKLOADS:
        await world.apply(SERVICES, service(name))
        await world.apply(REPLICA_SETS, replica_set(name, 2))
        await world.apply(ROUTES, route(name, 50))
    for number in range(world.scale):
        await world.sleep(2 * world.rng.random())
        name = world.rng.choice(WORKLOADS)
        for obj in world.list(ROUTES.name):
            await mark(world, ROUTES, obj)
        await world.apply(ROUTES, route(name, 1 + number))
    troubles.probes_fail = True
    nudge(world, AGENT)
    await world.sleep(10)
    await world.heal_and_settle(quiet_s=QUIET_S)
    await come_to_rest(world, troubles)


# What a route may send to; not all of it is there.
PLACES = {
    "zone": ("zone-a", "zone-b", "zone-c"),
    "region": ("north", "south"),
    "pool": ("large", "small"),
}
NODES_OF = {
    "node-1": {"zone": "zone-a", "region": "north", "pool": "large"},
    "node-2": {"zone": "zone-b", "region": "north"},
    "node-3": {"zone": "zone-b", "region": "south", "pool": "small"},
}
NAMES = ("web", "api", "shop")  # Of Services, and of routes. Nobody has pods for the last one.


@scenario(
    Menu(
        processes=(GATEWAY, *MANAGERS),
        kinds=("/endpointslices", "/services", "/trafficroutes", "/nodes"),
        seconds=25,
        most=6,
        without=("skew",),
    ),
    checkers=at_home,
    scale=20,
)
async def routes_of_several(world: World) -> None:
    """Several routes are about one Service, they come and go, and so do Services and nodes; Services have
    several ports, and some keep their clients: in the end each Service is routed as its oldest route says,
    and each route says whether it is in force."""
    troubles = run_managers_and_agents(world, ReplicaSets, EndpointSlices, kinds=("/pods", "/endpointslices"))
    world.process(GATEWAY, begin_gateway, account=User(accounts.GATEWAY))
    changes = (_change_pods, _change_service, _change_route, _change_route, _change_node)
    for name in NODES_OF:
        await world.apply(NODES, _node_at(name))
    for name in WORKLOADS:
        await world.apply(SERVICES, service(name))
        await _change_pods(world)
    for _ in range(world.scale):
        await world.sleep(1.5 * world.rng.random())
        await world.rng.choice(changes)(world)
    await come_to_rest(world, troubles)


async def _change_pods(world: World) -> None:
    name, on = world.rng.choice(WORKLOADS), world.rng.choice(tuple(NODES_OF))
    pods = replica_set(name, world.rng.randrange(0, 3))
    pods["metadata"]["name"] = f"{name}-{on}"
    pods["spec"]["selector"] = {"matchLabels": {"app": name, "on": on}}
    pods["spec"]["template"] = template(name, node=on, on=on)
    await world.apply(REPLICA_SETS, pods)


async def _change_service(world: World) -> None:
    name = world.rng.choice(NAMES)
    if world.get(SERVICES.name, Key("default", name)) is not None and world.rng.random() < 0.4:
        await world.delete(SERVICES, name)
        return
    obj = service(name)
    obj["spec"]["ports"] = [{"name": "http", "port": 80}, {"name": "metrics", "port": 9090}]
    obj["spec"] |= {
        "type": world.rng.choice(("ClusterIP", "NodePort")),
        "sessionAffinity": world.rng.choice(("None", "ClientIP")),
    }
    await world.apply(SERVICES, obj)


async def _change_route(world: World) -> None:
    """Its name says nothing about which Service it is for, or it has the name of a Service."""
    rng = world.rng
    name = rng.choice((*NAMES, "first", "second", "third"))
    if world.get(ROUTES.name, Key("default", name)) is not None and rng.random() < 0.4:
        await world.delete(ROUTES, name)
        return
    kinds = rng.sample(tuple(PLACES), rng.randrange(1, 3))
    entries = [
        {kind: rng.choice(PLACES[kind]), "weight": rng.choice((10, 90) if kind == kinds[0] else (0, 10))}
        for kind in kinds
    ]
    about = rng.choice(({"service": rng.choice(NAMES)}, {"workload": f"deployment/{rng.choice(NAMES)}"}))
    obj = route(name, 1)
    obj["spec"] = {"service": None, "workload": None, **about, "routes": entries}
    await world.apply(ROUTES, obj)


async def _change_node(world: World) -> None:
    """It gets another label; new ones also where the pods are."""
    name = world.rng.choice(tuple(NODES_OF))
    obj = _node_at(name)
    kind = world.rng.choice(tuple(PLACES))
    obj["metadata"]["labels"][PLACE_LABELS[kind]] = world.rng.choice(PLACES[kind])
    await world.apply(NODES, obj)


def _node_at(name: str) -> Obj:
    obj = node(name)
    obj["metadata"]["labels"] |= {PLACE_LABELS[kind]: place for kind, place in NODES_OF[name].items()}
    return obj


SCENARIOS: tuple[Scenario, ...] = (
    gateway_follows,
    gateway_is_refused,
    gateway_among_others,
    routes_of_several,
)
