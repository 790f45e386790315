"""The worked example of the lesson on human overrides, with the real scheduler and controllers.

risk-api has room for two of its four replicas: one zone is full, and the recovery nodes are reserved. An
operator makes an override, which ends: nothing of it is left then, whatever has failed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fathom.client.api import Resource
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.overrides.acknowledging import Acknowledgements
from fathom.controllers.overrides.controller import Overrides
from fathom.controllers.pod_states import is_active, is_ready
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.repair.controller import RepairReservations
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model import accounts
from fathom.model.objects import Key, Obj, is_deleting, lookup, metadata, uid_of
from fathom.model.user import User
from fathom.model.well_known import POOL_LABEL, REGION_LABEL
from fathom.sim.checkers.overrides import of_overrides
from fathom.sim.scenarios import scheduling
from fathom.sim.scenarios.objects import NODES, PODS
from fathom.sim.scenarios.scheduling import LEASE, SCHEDULERS, node, own, pod, run_scheduler
from fathom.sim.scenarios.shared_agent import SharedAgent
from fathom.sim.scenarios.staff import AGENT, MANAGERS, QUIET_S, TIMING
from fathom.sim.scenarios.workloads import AUTOSCALERS, DEPLOYMENTS, LoadedAutoscalers, autoscaler, unplaced
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

OVERRIDES = Resource("fathom.dev", "v1alpha1", "scheduleroverrides")
CAPACITY_CLASSES = Resource("fathom.dev", "v1alpha1", "capacityclasses", namespaced=False)
KINDS = ("/pods", "/scheduleroverrides", "/deployments", "/replicasets", "bindingbatches")
REGION, STALE, OPEN = "eu-west", "eu-west-a", "eu-west-b"
WORKLOAD, REPLICAS, MOST = "risk-api", 4, 6
NAME = f"{WORKLOAD}-{REGION}-recovery"
RECOVERY = "recovery"
CONTROLLERS = (
    Deployments,
    ReplicaSets,
    DeploymentProgress,
    LoadedAutoscalers,
    RepairReservations,
    Overrides,
    Acknowledgements,
)
LASTS_S = 90
# What becomes of the replicas: they stay where they may not be, or may be there by then, or are moved.
KEEP, OPENED, MOVE = "keep", "opened", "move"
AFFECTED = ["scheduler", "autoscaler", "quota-controller"]


def checkers() -> Sequence[Checker]:
    return [*scheduling.checkers(), *of_overrides()]


@scenario(Menu(processes=(*SCHEDULERS, *MANAGERS), kinds=KINDS, seconds=60, most=6), checkers=checkers)
async def safe_recovery(world: World) -> None:
    """An override lets two replicas use recovery capacity, keeps new ones out of a zone and pauses the
    autoscaler: every affected controller acknowledges it, and when it has ended, nothing of it is left."""
    await _incident(world)
    # 1. The blocker is confirmed: replicas wait although the recovery nodes are free.
    await _until(world, lambda: len(_ready(world)) == REPLICAS - 2, "two replicas are ready, two wait")
    # 2. to 5. One override, scoped to the workload in its region.
    end = world.rng.choice((KEEP, OPENED, MOVE))
    on_end, deleted = MOVE if end == MOVE else KEEP, world.rng.random() < 0.5
    await world.apply(OVERRIDES, override(on_end=on_end, lasts="30m" if deleted else f"{LASTS_S}s"))
    # 6. It is observed, and the replicas are ready.
    await _until(world, lambda: _status(world).get("active") is True, "the override is active")
    status = _status(world)
    assert status.get("affectedControllers") == AFFECTED, status
    assert {entry["controller"] for entry in status["acknowledgements"]} == set(AFFECTED), status
    await _until(world, lambda: len(_ready(world)) == REPLICAS, "all replicas are ready")
    lent = [metadata(each)["name"] for each in _charged(world)]
    assert len(lent) == 2, f"recovery capacity is used by {lent}"
    # The zone has room again, and is avoided; the load is high, and the autoscaler is paused.
    await world.delete(PODS, "other")
    await world.sleep(15 * world.rng.random())
    if _status(world).get("active"):
        assert _replicas(world) == REPLICAS, "the autoscaler scaled although an override pauses it"
        there = [
            metadata(each)["name"] for each in _pods(world) if lookup(each, "spec", "nodeName") == "node-a"
        ]
        assert not there, f"{there} were placed in the zone that the override avoids"
    # 7. Normal scheduling resumes, and the override is removed, or expires.
    await world.apply(NODES, placed("node-c", OPEN, cpu="8"))
    if end == OPENED:
        await world.apply(CAPACITY_CLASSES, recovery_class("default"))
    if deleted:
        await _delete(world)
    else:
        await world.sleep(LASTS_S)
    world.heal()
    # 8. No emergency capacity remains; what was kept there is named until it goes.
    if end == KEEP:
        await _until(world, lambda: _left(world) == lent, f"{lent} are named as what is left")
        for name in lent:
            await world.delete(PODS, str(name))
    await _until(world, lambda: _is_over(world, deleted=deleted), "the end is proven")
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    assert not _charged(world), "pods are charged to the override after its proof"
    assert len(_ready(world)) == MOST, "normal scheduling and scaling did not resume"


async def _incident(world: World) -> None:
    """Processes have the accounts of live ones: only the controllers may move a pod to another account."""
    for name in MANAGERS:
        run_controllers(
            world,
            name,
            *CONTROLLERS,
            account=User(accounts.CONTROLLERS),
            lease="fathom-system/controllers",
            timing=TIMING,
        )
    for name in SCHEDULERS:
        run_scheduler(world, name, account=User(accounts.SCHEDULER), lease=LEASE, timing=TIMING)
    run_controllers(world, AGENT, SharedAgent)
    await world.apply(NODES, placed("node-a", STALE, cpu="2"))
    await world.apply(NODES, placed("node-b", OPEN, cpu="2"))
    await world.apply(NODES, placed("node-r", OPEN, cpu="4", pool=RECOVERY))
    await world.apply(CAPACITY_CLASSES, recovery_class())
    other = pod("other", cpu="2")
    other["spec"]["nodeName"] = "node-a"
    await world.apply(PODS, other)
    workload = unplaced(WORKLOAD, REPLICAS)
    requests = {"requests": {"cpu": "1"}}
    workload["spec"]["template"]["spec"]["containers"][0]["resources"] = requests
    await world.apply(DEPLOYMENTS, workload)
    scaler = autoscaler(WORKLOAD, MOST)
    scaler["spec"]["minReplicas"] = REPLICAS
    scaler["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] = 5
    await world.apply(AUTOSCALERS, scaler)


def placed(name: str, zone: str, *, cpu: str, pool: str = "") -> Obj:
    obj = node(name, zone=zone, more={"cpu": cpu})
    obj["metadata"]["labels"] |= {REGION_LABEL: REGION, **({POOL_LABEL: pool} if pool else {})}
    return obj


def recovery_class(*tenants: str) -> Obj:
    spec = {"nodeSelector": {POOL_LABEL: RECOVERY}, "tenants": list(tenants)}
    return own("CapacityClass", RECOVERY, spec)


def override(*, on_end: str, lasts: str) -> Obj:
    """The lesson's, with the number of replicas of its worked example."""
    changes = {
        "pauseAutoscaler": True,
        "avoidZones": [STALE],
        "allowReservedCapacityClass": RECOVERY,
        "reservedReplicas": 2,
    }
    spec = {
        "target": f"workload/{WORKLOAD}",
        "scope": f"region/{REGION}",
        "reason": "recovery-capacity",
        "expiresAfter": lasts,
        "onEnd": on_end,
        "changes": changes,
    }
    return own("SchedulerOverride", NAME, spec)


async def _until(world: World, check: Callable[[], bool], what: str) -> None:
    await world.until(check, within_s=300, what=what)


async def _delete(world: World) -> None:
    """It stays until its end is proven."""
    while (obj := world.get(OVERRIDES.name, Key("default", NAME))) is not None and not is_deleting(obj):
        await world.api.delete(OVERRIDES, "default", NAME, uid=uid_of(obj))


def _status(world: World) -> Obj:
    return lookup(world.get(OVERRIDES.name, Key("default", NAME)), "status") or {}


def _is_over(world: World, *, deleted: bool) -> bool:
    obj = world.get(OVERRIDES.name, Key("default", NAME))
    if deleted:
        return obj is None
    conditions = {each["type"]: each["status"] for each in _status(world).get("conditions") or ()}
    return conditions.get("RepairComplete") == "True"


def _left(world: World) -> list[str]:
    return sorted(each["object"].rpartition("/")[2] for each in _status(world).get("residue") or ())


def _pods(world: World) -> list[Obj]:
    return [
        each
        for each in world.list("pods", "default")
        if lookup(each, "metadata", "labels", "app") == WORKLOAD and is_active(each)
    ]


def _ready(world: World) -> list[Obj]:
    return [each for each in _pods(world) if is_ready(each)]


def _charged(world: World) -> list[Obj]:
    """Pods on the account of any override, by name."""
    accounts = [
        (each, str(lookup(each, "metadata", "annotations", "fathom.dev/account") or ""))
        for each in _pods(world)
    ]
    charged = [each for each, account in accounts if account.count("/") == 3]
    return sorted(charged, key=lambda each: str(metadata(each)["name"]))


def _replicas(world: World) -> object:
    return lookup(world.get(DEPLOYMENTS.name, Key("default", WORKLOAD)), "spec", "replicas")


SCENARIOS: tuple[Scenario, ...] = (safe_recovery,)
