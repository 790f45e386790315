"""Pods that are particular about where and beside whom they run, on nodes that change all the time."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.budget.controller import DisruptionBudgets
from fathom.controllers.repair.controller import RepairReservations
from fathom.model.objects import Key, Obj
from fathom.model.resources import BUDGETS, NODES, PODS
from fathom.model.well_known import ZONE_LABEL
from fathom.sim.checkers.scheduling import NoSchedulablePodIdles, WaitingPodsSayWhy
from fathom.sim.scenarios import scheduling
from fathom.sim.scenarios.leading_again import lose_lease
from fathom.sim.scenarios.scheduling import CLASSES, LEASE, SCHEDULERS, delete_some, run_scheduler
from fathom.sim.scenarios.simulated_nodes import RUNS_S, SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, QUIET_S, TIMING
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

HOST = "kubernetes.io/hostname"
PLACES = (HOST, ZONE_LABEL)
APPS = ("web", "api", "db")
NAMES = ("node-1", "node-2", "node-3", "node-4")
ZONES = ("zone-a", "zone-b")
POOLS = ("red", "blue")
HELPERS = "helpers"  # Controllers of budgets and reservations.
KINDS = ("/pods", "/nodes", "/poddisruptionbudgets", "/reservations", "bindingbatches")
COVERED = {
    "web": 9,
    "db": 2,
}  # Of these so many are to stay: none of the first may be evicted, if others can.
OLD = (
    12  # Pods that are there before the others, so that the nodes are full and there is a choice of victims.
)


def checkers() -> Sequence[Checker]:
    return [*scheduling.checkers(), NoSchedulablePodIdles(), WaitingPodsSayWhy()]


@scenario(
    Menu(
        processes=(*SCHEDULERS, HELPERS, AGENT),
        kinds=KINDS,
        happenings=("lose-lease",),
        seconds=25,
        most=8,
    ),
    checkers=checkers,
    scale=30,
)
async def particular_pods(world: World) -> None:
    """Pods ask for pools, tolerate taints, avoid and seek each other, spread over zones, take ports, preempt
    and end soon, while nodes are tainted, cordoned, moved and replaced: each decision is what the rules say,
    and in the end no pod waits that has a place."""
    for name in SCHEDULERS:
        run_scheduler(world, name, lease=LEASE, timing=TIMING)
    world.happening("lose-lease", lambda: world.soon(lambda: lose_lease(world)))
    run_controllers(world, AGENT, SimulatedNodes)
    run_controllers(world, HELPERS, DisruptionBudgets, RepairReservations)
    await world.apply(CLASSES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
    for app, least in COVERED.items():
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
        await world.apply(BUDGETS, {"metadata": {"name": app}, "spec": spec})
    for name in NAMES:
        await world.apply(NODES, scheduling.node(name, zone=world.rng.choice(ZONES)))
    for number in range(OLD):
        await world.apply(PODS, scheduling.pod(f"old-{number}", cpu="1", labels={"app": APPS[number % 3]}))
    for number in range(world.scale):
        await world.sleep(1.2 * world.rng.random())
        await _change(world, number)
    for name in NAMES:
        await world.apply(NODES, _node(world, name))
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


async def _change(world: World, number: int) -> None:
    action = world.rng.choice(("pod", "pod", "pod", "pod", "pods", "node", "replaced", "delete", "delete"))
    if action == "pod":
        await world.apply(PODS, _pod(world, f"p-{number}"))
    elif action == "pods":  # Of one template: they are decided together.
        template = _pod(world, "template")
        for index in range(3):
            await world.apply(
                PODS, {**template, "metadata": {**template["metadata"], "name": f"p-{number}-{index}"}}
            )
    elif action == "delete":
        await delete_some(world)
    else:
        name = world.rng.choice(NAMES)
        if action == "replaced" and world.get("nodes", Key("", name)) is not None:
            await world.delete(NODES, name)
        await world.apply(NODES, _node(world, name))


def _node(world: World, name: str) -> Obj:
    chance, choice = world.rng.random, world.rng.choice
    obj = scheduling.node(name, zone=choice(ZONES), cordoned=chance() < 0.1)
    obj["metadata"]["labels"]["pool"] = choice(POOLS)
    if chance() < 0.1:
        del obj["metadata"]["labels"][ZONE_LABEL]
    effects = ("NoSchedule", "NoExecute", "PreferNoSchedule")
    if chance() < 0.4:
        obj["spec"]["taints"] = [{"key": "kept", "value": choice(("x", "y")), "effect": choice(effects)}]
    return obj


def _pod(world: World, name: str) -> Obj:
    chance, choice = world.rng.random, world.rng.choice
    obj = scheduling.pod(
        name, cpu=choice(("250m", "1", "2", "3")), labels={"app": choice(APPS)}, high=chance() < 0.35
    )
    spec = obj["spec"]
    if chance() < 0.2:
        spec["nodeSelector"] = {"pool": choice(POOLS)}
    if chance() < 0.3:
        spec["tolerations"] = [_toleration(world)]
    if chance() < 0.15:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    if chance() < 0.3:
        spec["topologySpreadConstraints"] = [_spread(world)]
    if affinity := _affinity(world):
        spec["affinity"] = affinity
    if chance() < 0.3:
        obj["metadata"]["annotations"] = {RUNS_S: f"{choice((0.1, 2, 5)):.1f}"}
    return obj


def _toleration(world: World) -> Obj:
    choice = world.rng.choice
    if world.rng.random() < 0.5:
        return {"key": "kept", "operator": "Equal", "value": choice(("x", "y"))}
    return {"key": "kept", "operator": "Exists", "effect": choice(("NoSchedule", "NoExecute"))}


def _spread(world: World) -> Obj:
    return {
        "maxSkew": world.rng.choice((1, 2)),
        "topologyKey": world.rng.choice(PLACES),
        "whenUnsatisfiable": world.rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": {"app": world.rng.choice(APPS)}},
    }


def _affinity(world: World) -> Obj:
    chance, found = world.rng.random, Obj()
    if chance() < 0.5:
        found["podAntiAffinity"] = _required([_term(world) for _ in range(world.rng.choice((1, 2)))])
    elif chance() < 0.15:
        found["podAffinity"] = _required([_term(world)])
    elif chance() < 0.15:
        liked = {"weight": world.rng.choice((10, 50)), "podAffinityTerm": _term(world)}
        found["podAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": [liked]}
    if chance() < 0.15:
        operator = world.rng.choice(("In", "NotIn"))
        expression = {"key": "pool", "operator": operator, "values": [world.rng.choice(POOLS)]}
        terms = [{"matchExpressions": [expression]}]
        found["nodeAffinity"] = _required({"nodeSelectorTerms": terms})
    return found


def _required(terms: object) -> Obj:
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _term(world: World) -> Obj:
    apps = world.rng.sample(APPS, world.rng.choice((1, 2)))
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": apps}]}
    return {"labelSelector": selector, "topologyKey": world.rng.choice(PLACES)}


SCENARIOS: tuple[Scenario, ...] = (particular_pods,)
