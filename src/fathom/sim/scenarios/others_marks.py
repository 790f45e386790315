"""People do by hand what overrides do too: they cordon nodes and remove annotations. The end of an override
undoes what was its own, finds all of it, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.overrides.acknowledging import Acknowledgements
from fathom.controllers.overrides.controller import Overrides
from fathom.model import accounts
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.resources import DEPLOYMENTS, NODES, PODS, SERVICES
from fathom.model.user import User
from fathom.sim.checkers.overrides import AcknowledgedIsObserved, CordonsStay, NothingIsLeftAfterTheProof
from fathom.sim.checkers.route_weights import PeoplesWeightsStay
from fathom.sim.scenarios import scheduling
from fathom.sim.scenarios.expiring import ROUTES
from fathom.sim.scenarios.overriding import CAPACITY_CLASSES, OVERRIDES, USED, golden
from fathom.sim.scenarios.scheduling import LEASE, SCHEDULERS, node, own, run_scheduler
from fathom.sim.scenarios.serving import service
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, MANAGERS, QUIET_S, TIMING, all_but, until_or_heal
from fathom.sim.scenarios.steering import workload
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

SYSTEM, CORDON, GRANT, WEIGHTS = "fathom-system", "cordon", "grant", "weights"
CORDONED, SET_ASIDE = "node-1", "node-2"
GOLD = "gold"


def checkers() -> Sequence[Checker]:
    return [
        *scheduling.checkers(),
        NothingIsLeftAfterTheProof(),
        AcknowledgedIsObserved(),
        CordonsStay(),
        PeoplesWeightsStay(),
    ]


@scenario(
    Menu(
        processes=(*SCHEDULERS, *MANAGERS),
        kinds=("/pods", "/scheduleroverrides", "/nodes"),
        seconds=40,
        most=4,
        without=all_but("hold-watch", "drop-watch", "slow-reply", "lose-reply", "crash", "crash-at-write"),
    ),
    checkers=checkers,
)
async def others_cordons_and_marks(world: World) -> None:
    """One override cordons a node that a person cordons too, another one lets a pod onto reserved capacity,
    and a person removes the annotation that says so. A third one has its weights on a route, which a person
    may change, too. All end: the person's cordon and weights stay, and the pod is named until it goes."""
    await _furnish(world)
    cordon, grant, weights = Key(SYSTEM, CORDON), Key("default", GRANT), Key("default", WEIGHTS)
    shift = {"trafficWeights": {"east": 100, "west": 0}}
    await world.apply(OVERRIDES, _override(WEIGHTS, f"workload/{WEIGHTS}", shift))
    changes = {"allowReservedCapacityClass": GOLD}
    await world.apply(OVERRIDES, _override(CORDON, f"node/{CORDONED}", {"cordon": True}), SYSTEM)
    await world.apply(OVERRIDES, _override(GRANT, f"workload/{GRANT}", changes))
    await world.apply(PODS, golden(GRANT))
    await until_or_heal(world, lambda: _charged(world), "the pod has its place")
    await until_or_heal(world, lambda: _is_shifted(world), "the override's weights are on the route")
    await _meddle(world)
    for key in (cordon, grant, weights):
        await world.sleep(5 * world.rng.random())
        await _delete(world, key)
    world.heal()
    await world.until(lambda: _left(world, grant), within_s=300, what=f"{GRANT} is named as what is left")
    await world.delete(PODS, GRANT)
    for key in (cordon, grant, weights):
        await world.until(
            lambda key=key: world.get(OVERRIDES.name, key) is None,  # type: ignore[misc]
            within_s=300,
            what=f"the end of {key.name} is proven",
        )
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


async def _furnish(world: World) -> None:
    for name in MANAGERS:
        run_controllers(
            world, name, Overrides, Acknowledgements,
            account=User(accounts.CONTROLLERS), lease="fathom-system/controllers", timing=TIMING,
        )  # fmt: skip
    for name in SCHEDULERS:
        run_scheduler(world, name, account=User(accounts.SCHEDULER), lease=LEASE, timing=TIMING)
    run_controllers(world, AGENT, SimulatedNodes)
    await world.apply(NODES, node(CORDONED))
    aside = node(SET_ASIDE)
    aside["metadata"]["labels"]["pool"] = GOLD
    await world.apply(NODES, aside)
    spec = {"nodeSelector": {"pool": GOLD}, "tenants": []}
    await world.apply(CAPACITY_CLASSES, own("CapacityClass", GOLD, spec))
    # Nobody makes pods of it: the override is about the route of its Service.
    await world.apply(DEPLOYMENTS, workload(WEIGHTS, 1))
    await world.apply(SERVICES, service(WEIGHTS))
    if world.rng.random() < 0.7:  # Otherwise the override makes one.
        routed = {"service": WEIGHTS, "routes": _weighted(60, 40)}
        await world.apply(ROUTES, own("TrafficRoute", WEIGHTS, routed))


async def _meddle(world: World) -> None:
    """`kubectl cordon`, `kubectl annotate pod … fathom.dev/overrides-` and changes of the route, in any
    order."""
    unmarked: Obj = {"metadata": {"annotations": {USED: None}}}
    acts = [
        (NODES, "", CORDONED, {"spec": {"unschedulable": True}}),
        (PODS, "default", GRANT, unmarked),
        *[(ROUTES, *key_of(route), change) for route in world.list(ROUTES.name) for change in _edits(world)],
    ]
    world.rng.shuffle(acts)
    for resource, namespace, name, change in acts:
        await world.sleep(5 * world.rng.random())
        await world.api.patch(resource, namespace, name, change)


def _edits(world: World) -> list[Obj]:
    """Nothing, other weights, the override's own ones, or two of these; or the route gets a label."""
    possible: list[Obj] = [{"spec": {"routes": routes}} for routes in (HALVES, MOSTLY_WEST, SHIFTED)]
    labelled: Obj = {"metadata": {"labels": {"team": "a"}}}
    return world.rng.sample([*possible, labelled], world.rng.randrange(3))


def _is_shifted(world: World) -> bool:
    return SHIFTED in [lookup(route, "spec", "routes") for route in world.list(ROUTES.name)]


def _weighted(west: int, east: int) -> list[Obj]:
    return [{"region": "east", "weight": east}, {"region": "west", "weight": west}]


HALVES, MOSTLY_WEST, SHIFTED = _weighted(50, 50), _weighted(90, 10), _weighted(0, 100)


def _override(name: str, target: str, changes: Obj) -> Obj:
    spec = {
        "target": target,
        "scope": "cluster",
        "reason": "a test",
        "expiresAfter": "30m",
        "changes": changes,
    }
    return own("SchedulerOverride", name, spec)


async def _delete(world: World, key: Key) -> None:
    """It stays until its end is proven."""
    while (obj := world.get(OVERRIDES.name, key)) is not None and not is_deleting(obj):
        await world.api.delete(OVERRIDES, key.namespace, key.name, uid=uid_of(obj))


def _charged(world: World) -> bool:
    obj = world.get("pods", Key("default", GRANT))
    return str((metadata(obj or {}).get("annotations") or {}).get("fathom.dev/account") or "").count("/") == 3


def _left(world: World, key: Key) -> bool:
    residue = lookup(world.get(OVERRIDES.name, key), "status", "residue") or ()
    return [each["object"] for each in residue] == [f"Pod default/{GRANT}"]


SCENARIOS: tuple[Scenario, ...] = (others_cordons_and_marks,)
