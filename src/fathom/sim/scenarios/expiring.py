"""Overrides end by themselves: when nobody remembers them, when the store cannot be reached, and when a
thousand pods wait for their end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fathom.client.api import Api, Resource
from fathom.client.outcomes import Committed, Outcome, Unknown
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.resources import AUTOSCALERS, DEPLOYMENTS, NODES, PODS, SERVICES
from fathom.model.times import SECOND_NS, moment_ns
from fathom.model.well_known import POOL_LABEL, REGION_LABEL
from fathom.seams.streams import Streams
from fathom.sim.checkers.override_effects import LATE_S
from fathom.sim.checkers.override_rates import UndoneAFewAtATime
from fathom.sim.checkers.override_twin import DiffersOnlyInTheResidue
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.people import CLUSTER_ROLES, Person, bind_role
from fathom.sim.scenarios.scheduling import own, pod
from fathom.sim.scenarios.serving import service
from fathom.sim.scenarios.staff import MANAGERS, QUIET_S
from fathom.sim.scenarios.steering import (
    CAPACITY_CLASSES,
    KINDS,
    OVERRIDES,
    PROCESSES,
    busy_autoscaler,
    checkers,
    in_zone,
    is_lent,
    is_proven,
    override,
    ready_pods,
    run_cluster,
    status_of,
    workload,
)
from fathom.sim.scenarios.workloads import LoadedAutoscalers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import STORE, AnyFault, Crash, HoldWatch, Partition
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

ROUTES = Resource("fathom.dev", "v1alpha1", "trafficroutes")
WEB, FORGOTTEN = "web", "forgotten"
REPLICAS, MOST, FIT = 4, 6, 2
LASTS_S = 90


async def never_overridden(world: World) -> None:
    """The same without the override."""
    run_cluster(world, LoadedAutoscalers)
    await _place(world)
    await bind_role(world, "admin", "alice")
    alice = Person(world, "alice")
    await alice.insists(lambda api: _deploy(api, Committed({})))
    alice.leaves()
    await world.sleep(LASTS_S)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


def of_the_forgotten() -> Sequence[Checker]:
    return [*checkers(), DiffersOnlyInTheResidue(never_overridden)]


@scenario(Menu(processes=PROCESSES, kinds=KINDS, seconds=LASTS_S, most=6), checkers=of_the_forgotten)
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
    look_at_traces(world, FORGOTTEN)


def look_at_traces(world: World, name: str) -> None:
    """The end of the override is settled: compare with a run without it."""
    for checker in world.checkers:
        if isinstance(checker, DiffersOnlyInTheResidue):
            checker.look(world, world.get(OVERRIDES.name, Key("default", name)) or {})


async def _place(world: World) -> None:
    """Room for all replicas, but for two of them only in the zone that is avoided."""
    await world.apply(NODES, in_zone("node-a", "a", cpu="8", **{REGION_LABEL: "west"}))
    await world.apply(NODES, in_zone("node-b", "b", cpu=str(FIT), **{REGION_LABEL: "east"}))
    await world.apply(SERVICES, service(WEB))
    await world.apply(ROUTES, _route())


async def _forget(api: Api, lasts: str = f"{LASTS_S}s") -> Outcome:
    """The workload comes after the override, so that its pods wait for the end."""
    changes = {
        "avoidZones": ["a"],
        "pauseAutoscaler": True,
        "trafficWeights": {"east": 100, "west": 0},
    }
    spec = override(FORGOTTEN, changes, target=f"workload/{WEB}", lasts=lasts)
    return await _deploy(api, await api.create(OVERRIDES, "default", spec))


async def _deploy(api: Api, outcome: Outcome) -> Outcome:
    """Each once the outcome of what comes before is known: whoever insists begins again with the first."""
    for resource, obj in (
        (DEPLOYMENTS, workload(WEB, REPLICAS)),
        (AUTOSCALERS, busy_autoscaler(WEB, REPLICAS, MOST)),
    ):
        if isinstance(outcome, Unknown):
            return outcome
        outcome = await api.create(resource, "default", obj)
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


# The end comes during an outage.

OUTAGE_ENDS_S, CREATED_S = 75.0, 25.0
GLASS, OPENED, RESERVED = "glass", "opened", "node-r"
GOLD = "gold"


def outage(seed: str) -> Sequence[AnyFault]:
    """The store, the API server, or all who decide cannot be reached, around the end of the overrides."""
    rng = Streams(seed).stream("outage")
    at_s = OUTAGE_ENDS_S - rng.uniform(0.5, 15.0)
    for_s, drops = rng.uniform(20.0, 60.0), rng.random() < 0.5
    what = rng.choice(("store", "store", "server", "deciders"))
    if what == "store":
        return [Partition(at_s=at_s, target="api-1", peer=STORE, for_s=for_s, drops=drops)]
    if what == "server":
        return [Crash(at_s=at_s, target="api-1", for_s=for_s)]
    return [Partition(at_s=at_s, target=name, for_s=for_s, drops=drops) for name in PROCESSES]


@scenario(Menu(processes=PROCESSES, kinds=KINDS), faults_of=outage, checkers=checkers, timed=True)
async def expiry_during_an_outage(world: World) -> None:
    """The store, the API server, or whoever decides cannot be reached when overrides end: nobody honours them
    any longer all the same, and after the outage their end is proven."""
    run_cluster(world, LoadedAutoscalers)
    await _place(world)
    await world.apply(NODES, in_zone(RESERVED, "b", cpu="4", **{POOL_LABEL: GOLD}))
    await world.apply(CAPACITY_CLASSES, _gold())
    mary = await _on_call(world)
    await world.sleep(CREATED_S - world.now_s)
    lasts = f"{OUTAGE_ENDS_S - CREATED_S:.0f}s"
    glass = override(GLASS, {"breakGlassRole": "everything"}, target=f"workload/{WEB}", lasts=lasts)
    await mary.insists(lambda api: api.create(OVERRIDES, "default", glass))
    allowed = override(OPENED, {"allowReservedCapacityClass": GOLD}, target=f"workload/{GOLD}", lasts=lasts)
    await world.apply(OVERRIDES, allowed)
    forgotten = Person(world, "alice")
    await bind_role(world, "admin", "alice")
    await forgotten.insists(lambda api: _forget(api, lasts))
    await world.until(lambda: len(ready_pods(world, WEB)) == FIT, within_s=60, what="two replicas are ready")
    ends_s = max(_ends_s(world, name) for name in (GLASS, OPENED, FORGOTTEN))
    asking = asyncio.get_running_loop().create_task(_ask_for_gold(world))
    while world.now_s < ends_s + 30:
        outcome = await mary.asks(lambda api: api.create(CONFIG_MAPS, "default", _note()))
        if isinstance(outcome, Committed) and world.now_s > ends_s + LATE_S:
            world.broken("nothing is written by break-glass after its end", f"mary wrote {outcome.obj}")
        await world.sleep(1.0)
    world.heal()
    await asking
    for name in (GLASS, OPENED, FORGOTTEN):
        await world.until(
            lambda name=name: is_proven(status_of(world, name)),  # type: ignore[misc]
            within_s=180,
            what=f"the end of {name} is proven",
        )
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    assert len(ready_pods(world, WEB)) == MOST, "the pods that waited, or the autoscaler, were not woken"
    late = [metadata(pod)["name"] for pod in world.list("pods") if _node(pod) == RESERVED]
    assert not late, f"{late} are on a reserved node by an override that has ended"


async def _on_call(world: World) -> Person:
    """Mary may break the glass, and nothing else."""
    everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    usable = {"name": "everything", "annotations": {"fathom.dev/break-glass": "true"}}
    await world.apply(CLUSTER_ROLES, {"metadata": usable, "rules": everything})
    verbs = [
        {"verbs": ["create", "break-glass"], "apiGroups": ["fathom.dev"], "resources": [OVERRIDES.plural]}
    ]
    await world.apply(CLUSTER_ROLES, {"metadata": {"name": "on-call"}, "rules": verbs})
    await bind_role(world, "on-call", "mary")
    return Person(world, "mary")


async def _ask_for_gold(world: World) -> None:
    """A pod that wants reserved room comes when the overrides have just ended, or as soon as it can."""
    await world.sleep(OUTAGE_ENDS_S + LATE_S - world.now_s)
    wanted = pod(GOLD)
    wanted["metadata"]["annotations"] = {"fathom.dev/capacity-class": GOLD}
    await world.apply(PODS, wanted)


def _note() -> Obj:
    return {"metadata": {"generateName": "note-"}}


def _ends_s(world: World, name: str) -> float:
    """When an override ends, in the scenario's seconds."""
    ends_ns = moment_ns(status_of(world, name).get("expiresAt")) or 0
    return (ends_ns - world.engine.epoch_ns - world.engine.began_ns) / SECOND_NS


# A thousand pods at one end.

CROWD, MANY, OTHER = "crowd", "many", "other"
CROWD_LASTS_S = 60
OTHER_WITHIN_S = 20.0


def of_crowds() -> Sequence[Checker]:
    return [*checkers(), UndoneAFewAtATime()]


@scenario(
    Menu(processes=PROCESSES, kinds=KINDS, seconds=2 * CROWD_LASTS_S, most=4, without=("skew",)),
    checkers=of_crowds,
    scale=100,  # A thousand in the deep run: tests/sim/test_steering.py.
    timed=True,
)
async def undo_of_a_thousand(world: World) -> None:
    """The end of an override concerns very many pods: half of them wait for it, half of them have lent
    capacity. They are woken and moved a few at a time, a pod that is not concerned need not wait for them,
    and in the end all of them are placed and nothing is left."""
    run_cluster(world)
    half = max(1, world.scale // 2)
    await world.apply(NODES, in_zone("node-a", "a", cpu=str(world.scale + 2), pods="2000"))
    await world.apply(NODES, in_zone(RESERVED, "b", cpu=str(half), pods="2000", **{POOL_LABEL: GOLD}))
    await world.apply(CAPACITY_CLASSES, _gold())
    moves = world.rng.random() < 0.3
    changes = {"avoidZones": ["a"], "allowReservedCapacityClass": GOLD, "reservedReplicas": half}
    target, lasts = f"workload/{CROWD}", f"{CROWD_LASTS_S + world.scale // 10}s"
    many = override(MANY, changes, target=target, lasts=lasts, onEnd="move" if moves else "keep")
    await world.apply(OVERRIDES, many)
    ends_s = _ends_s(world, MANY)
    await world.apply(DEPLOYMENTS, workload(CROWD, world.scale))
    await world.until(
        lambda: len(ready_pods(world, CROWD)) == half, within_s=ends_s - world.now_s, what="half are placed"
    )
    if not moves:
        await world.apply(CAPACITY_CLASSES, _gold("default"))
    await world.sleep(ends_s - world.now_s)
    await world.apply(PODS, pod(OTHER))
    await world.until(
        lambda: _is_placed(world, OTHER), within_s=OTHER_WITHIN_S + 60, what=f"{OTHER} is placed"
    )
    await world.until(
        lambda: is_proven(status_of(world, MANY)), within_s=300 + 2 * world.scale, what="its end is proven"
    )
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    assert len(ready_pods(world, CROWD)) == world.scale, "not all of them were woken"
    left = [metadata(each)["name"] for each in world.list("pods", "default") if is_lent(each)]
    assert not left, f"{left} still have capacity that the override lent"


def _gold(*tenants: str) -> Obj:
    return own("CapacityClass", GOLD, {"nodeSelector": {POOL_LABEL: GOLD}, "tenants": list(tenants)})


def _is_placed(world: World, name: str) -> bool:
    return bool(_node(world.get("pods", Key("default", name)) or {}))


# Pods come at the last moment, and the controllers hear of them late.

HASTY, LENT = "hasty", "lent"
LENT_S, LENT_ENDS_S = 15.0, 40.0


def pods_unheard(seed: str) -> Sequence[AnyFault]:
    rng = Streams(seed).stream("pods unheard")
    at_s = LENT_ENDS_S - rng.uniform(1.0, 3.0)
    return [HoldWatch(at_s=at_s, target=name, match="/pods", for_s=4.5) for name in MANAGERS]


@scenario(Menu(processes=PROCESSES, kinds=KINDS), faults_of=pods_unheard, checkers=checkers)
async def lent_at_the_last_moment(world: World) -> None:
    """Pods get reserved room just before the override that lends it ends, and the controllers hear of pods
    late: its end is proven only when the pods that it let in are known and have moved."""
    run_cluster(world)
    await world.apply(NODES, in_zone("node-a", "a", cpu="8"))
    await world.apply(NODES, in_zone(RESERVED, "b", cpu="8", **{POOL_LABEL: GOLD}))
    await world.apply(CAPACITY_CLASSES, _gold())
    await world.sleep(LENT_S - world.now_s)
    changes = {"avoidZones": ["a"], "allowReservedCapacityClass": GOLD, "reservedReplicas": 6}
    lasts = f"{LENT_ENDS_S - LENT_S:.0f}s"
    await world.apply(
        OVERRIDES, override(LENT, changes, target=f"workload/{HASTY}", lasts=lasts, onEnd="move")
    )
    ends_s = _ends_s(world, LENT)
    await world.apply(DEPLOYMENTS, workload(HASTY, 0))
    await world.sleep(ends_s - 3 * world.rng.random() - 0.1 - world.now_s)
    await world.apply(DEPLOYMENTS, workload(HASTY, 3))
    await world.sleep(ends_s + 8 - world.now_s)
    world.heal()
    await world.until(lambda: is_proven(status_of(world, LENT)), within_s=300, what="its end is proven")
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    assert len(ready_pods(world, HASTY)) == 3, "not all of them were woken"
    left = [metadata(each)["name"] for each in world.list("pods", "default") if is_lent(each)]
    assert not left, f"{left} still have capacity that the override lent"


SCENARIOS: tuple[Scenario, ...] = (
    forgotten_override,
    expiry_during_an_outage,
    undo_of_a_thousand,
    lent_at_the_last_moment,
)
