"""Overrides end by themselves: when nobody remembers them, when the store cannot be reached, and when a
thousand pods wait for their end."""

from __future__ import annotations

from fathom.client.api import Api, Resource
from fathom.client.outcomes import Outcome, Unknown
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.times import SECOND_NS, moment_ns
from fathom.model.well_known import REGION_LABEL
from fathom.sim.scenarios.objects import NODES
from fathom.sim.scenarios.people import Person, bind_role
from fathom.sim.scenarios.serving import SERVICES, service
from fathom.sim.scenarios.staff import QUIET_S
from fathom.sim.scenarios.steering import (
    KINDS,
    OVERRIDES,
    PROCESSES,
    checkers,
    in_zone,
    is_proven,
    override,
    ready_pods,
    run_cluster,
    status_of,
    workload,
)
from fathom.sim.scenarios.workloads import AUTOSCALERS, DEPLOYMENTS, LoadedAutoscalers, autoscaler
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

ROUTES = Resource("fathom.dev", "v1alpha1", "trafficroutes")
WEB, FORGOTTEN = "web", "forgotten"
REPLICAS, MOST, FIT = 4, 6, 2
LASTS_S = 90


@scenario(Menu(processes=PROCESSES, kinds=KINDS, seconds=LASTS_S, most=6), checkers=checkers)
async def forgotten_override(world: World) -> None:
    """An operator creates an override and walks away. It ends by itself, as late as it was to: the pods that
    it kept waiting are woken, the autoscaler scales, the route has its earlier weights, the end is proven,
    and nothing of it is left."""
    run_cluster(world, LoadedAutoscalers)
    await _place(world)
    await bind_role(world, "admin", "alice")
    alice = Person(world, "alice")
    await alice.insists(_forget)
    ends = status_of(world, FORGOTTEN).get("expiresAt")
    alice.leaves()
    await world.until(
        lambda: len(ready_pods(world, WEB)) == FIT and bool(_marked_routes(world)),
        within_s=LASTS_S,
        what="the override acts",
    )
    early = [metadata(pod)["name"] for pod in ready_pods(world, WEB) if _node(pod) == "node-a"]
    assert not early, f"{early} were placed in the zone that the override avoids"
    await world.sleep(LASTS_S)
    world.heal()
    await world.until(lambda: is_proven(status_of(world, FORGOTTEN)), within_s=120, what="its end is proven")
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    status = status_of(world, FORGOTTEN)
    assert status.get("expiresAt") == ends, f"it was to end at {ends}, and ended at {status.get('expiresAt')}"
    assert not status.get("extensions"), status
    assert not status.get("residue"), status["residue"]
    assert len(ready_pods(world, WEB)) == MOST, "the pods that waited, or the autoscaler, were not woken"
    weights = [lookup(route, "spec", "routes") for route in world.list(ROUTES.name, "default")]
    assert weights == [_route()["spec"]["routes"]], weights


async def _place(world: World) -> None:
    """Room for all replicas, but for two of them only in the zone that is avoided."""
    await world.apply(NODES, in_zone("node-a", "a", cpu="8", **{REGION_LABEL: "west"}))
    await world.apply(NODES, in_zone("node-b", "b", cpu=str(FIT), **{REGION_LABEL: "east"}))
    await world.apply(SERVICES, service(WEB))
    await world.apply(ROUTES, _route())


async def _forget(api: Api) -> Outcome:
    """The workload comes after the override, so that its pods wait for the end."""
    changes = {
        "avoidZones": ["a"],
        "pauseAutoscaler": True,
        "trafficWeights": {"east": 100, "west": 0},
    }
    spec = override(FORGOTTEN, changes, target=f"workload/{WEB}", lasts=f"{LASTS_S}s")
    outcome = await api.create(OVERRIDES, "default", spec)
    if isinstance(outcome, Unknown):
        return outcome
    await api.create(DEPLOYMENTS, "default", workload(WEB, REPLICAS))
    scaler = autoscaler(WEB, MOST)
    scaler["spec"]["minReplicas"] = REPLICAS
    scaler["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] = 5
    await api.create(AUTOSCALERS, "default", scaler)
    return outcome


def _route() -> Obj:
    routes = [{"region": "west", "weight": 60}, {"region": "east", "weight": 40}]
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "TrafficRoute",
        "metadata": {"name": WEB},
        "spec": {"service": WEB, "routes": routes},
    }


def _marked_routes(world: World) -> list[Obj]:
    notes = [metadata(route).get("annotations") or {} for route in world.list(ROUTES.name, "default")]
    return [each for each in notes if each.get("fathom.dev/override")]


def _node(pod: Obj) -> object:
    return lookup(pod, "spec", "nodeName")


def ends_s(world: World, status: Obj) -> float:
    """When an override ends, in the scenario's seconds."""
    ends_ns = moment_ns(status.get("expiresAt")) or 0
    return (ends_ns - world.engine.epoch_ns - world.engine.began_ns) / SECOND_NS


SCENARIOS: tuple[Scenario, ...] = (forgotten_override,)
