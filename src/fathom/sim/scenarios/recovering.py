"""The worked example of the lesson on human overrides, with the real scheduler and controllers.

risk-api has room for two of its four replicas: one zone is full, and the recovery nodes are reserved. An
operator makes an override, which ends: nothing of it is left then, whatever has failed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from fathom.controllers.repair.controller import RepairReservations
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.resources import AUTOSCALERS, DEPLOYMENTS, NODES, PODS
from fathom.model.well_known import POOL_LABEL, REGION_LABEL
from fathom.sim.scenarios.scheduling import node, own, pod
from fathom.sim.scenarios.staff import QUIET_S
from fathom.sim.scenarios.steering import (
    CAPACITY_CLASSES,
    KINDS,
    OVERRIDES,
    PROCESSES,
    busy_autoscaler,
    checkers,
    end_override,
    is_lent,
    is_proven,
    override,
    pods_of,
    ready_pods,
    run_cluster,
    status_of,
    workload,
)
from fathom.sim.scenarios.workloads import LoadedAutoscalers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

REGION, STALE, OPEN = "eu-west", "eu-west-a", "eu-west-b"
WORKLOAD, REPLICAS, MOST = "risk-api", 4, 6
NAME = f"{WORKLOAD}-{REGION}-recovery"
RECOVERY = "recovery"
LASTS_S = 90
# What becomes of the replicas: they stay where they may not be, or may be there by then, or are moved.
KEEP, OPENED, MOVE = "keep", "opened", "move"
AFFECTED = ["scheduler", "autoscaler", "quota-controller"]


@scenario(Menu(processes=PROCESSES, kinds=KINDS, seconds=60, most=6), checkers=checkers)
async def safe_recovery(world: World) -> None:
    """An override lets two replicas use recovery capacity, keeps new ones out of a zone and pauses the
    autoscaler: every affected controller acknowledges it, and when it has ended, nothing of it is left."""
    run_cluster(world, LoadedAutoscalers, RepairReservations)
    await place(world)
    await world.apply(DEPLOYMENTS, workload(WORKLOAD, REPLICAS))
    await world.apply(AUTOSCALERS, busy_autoscaler(WORKLOAD, REPLICAS, MOST))
    # 1. The blocker is confirmed: replicas wait although the recovery nodes are free.
    await _until(
        world, lambda: len(ready_pods(world, WORKLOAD)) == REPLICAS - 2, "two replicas are ready, two wait"
    )
    # 2. to 5. One override, scoped to the workload in its region.
    end = world.rng.choice((KEEP, OPENED, MOVE))
    on_end, deleted = MOVE if end == MOVE else KEEP, world.rng.random() < 0.5
    await world.apply(OVERRIDES, recovery_override(on_end=on_end, lasts="30m" if deleted else f"{LASTS_S}s"))
    # 6. It is observed, and the replicas are ready.
    await _until_active(world)
    wanted = _replicas(world)  # A process that had not observed the override may have scaled until then.
    status = status_of(world, NAME)
    assert status.get("affectedControllers") == AFFECTED, status
    assert {entry["controller"] for entry in status["acknowledgements"]} == set(AFFECTED), status
    await _until(world, lambda: len(ready_pods(world, WORKLOAD)) == REPLICAS, "all replicas are ready")
    lent = pods_lent(world)
    assert len(lent) == 2, f"recovery capacity is used by {lent}"
    # The zone has room again, and is avoided; the load is high, and the autoscaler is paused.
    await world.delete(PODS, "other")
    await world.sleep(15 * world.rng.random())
    if status_of(world, NAME).get("active"):
        assert _replicas(world) == wanted, "the autoscaler scaled although an override pauses it"
        there = [
            metadata(each)["name"]
            for each in pods_of(world, WORKLOAD)
            if lookup(each, "spec", "nodeName") == "node-a"
        ]
        assert not there, f"{there} were placed in the zone that the override avoids"
    # 7. Normal scheduling resumes, and the override is removed, or expires.
    await world.apply(NODES, placed("node-c", OPEN, cpu="8"))
    if end == OPENED:
        await world.apply(CAPACITY_CLASSES, recovery_class("default"))
    if deleted:
        await end_override(world, NAME)
    else:
        await world.sleep(LASTS_S)
    world.heal()
    # 8. No emergency capacity remains; what was kept there is named until it goes.
    if end == KEEP:
        await _until(world, lambda: pods_left(world) == lent, f"{lent} are named as what is left")
        for name in lent:
            await world.delete(PODS, name)
    await _until(world, lambda: _is_over(world, deleted=deleted), "the end is proven")
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    assert not pods_lent(world), "pods are charged to the override after its proof"
    assert len(ready_pods(world, WORKLOAD)) == MOST, "normal scheduling and scaling did not resume"


async def place(world: World) -> None:
    """Nodes with room for two of the replicas, and reserved ones for more."""
    await world.apply(NODES, placed("node-a", STALE, cpu="2"))
    await world.apply(NODES, placed("node-b", OPEN, cpu="2"))
    await world.apply(NODES, placed("node-r", OPEN, cpu="4", pool=RECOVERY))
    await world.apply(CAPACITY_CLASSES, recovery_class())
    other = pod("other", cpu="2")
    other["spec"]["nodeName"] = "node-a"
    await world.apply(PODS, other)


def placed(name: str, zone: str, *, cpu: str, pool: str = "") -> Obj:
    obj = node(name, zone=zone, more={"cpu": cpu})
    obj["metadata"]["labels"] |= {REGION_LABEL: REGION, **({POOL_LABEL: pool} if pool else {})}
    return obj


def recovery_class(*tenants: str) -> Obj:
    spec = {"nodeSelector": {POOL_LABEL: RECOVERY}, "tenants": list(tenants)}
    return own("CapacityClass", RECOVERY, spec)


def recovery_override(*, on_end: str, lasts: str) -> Obj:
    """The lesson's, with the number of replicas of its worked example."""
    changes = {
        "pauseAutoscaler": True,
        "avoidZones": [STALE],
        "allowReservedCapacityClass": RECOVERY,
        "reservedReplicas": 2,
    }
    target, scope = f"workload/{WORKLOAD}", f"region/{REGION}"
    return override(NAME, changes, target=target, scope=scope, lasts=lasts, onEnd=on_end)


async def _until_active(world: World) -> None:
    """Faults end in time for it: an override that expires before all have observed it is never active."""
    heal_s = world.now_s + LASTS_S / 2

    def is_active() -> bool:
        if world.now_s >= heal_s:
            world.heal()
        return status_of(world, NAME).get("active") is True

    await _until(world, is_active, "the override is active")


async def _until(world: World, check: Callable[[], bool], what: str) -> None:
    await world.until(check, within_s=300, what=what)


def _is_over(world: World, *, deleted: bool) -> bool:
    if deleted:
        return world.get(OVERRIDES.name, Key("default", NAME)) is None
    return is_proven(status_of(world, NAME))


def pods_left(world: World) -> list[str]:
    """Names of what the proof of its end still finds."""
    return sorted(each["object"].rpartition("/")[2] for each in status_of(world, NAME).get("residue") or ())


def pods_lent(world: World) -> list[str]:
    """Names of the pods on the account of any override."""
    return sorted(str(metadata(each)["name"]) for each in pods_of(world, WORKLOAD) if is_lent(each))


def _replicas(world: World) -> object:
    return lookup(world.get(DEPLOYMENTS.name, Key("default", WORKLOAD)), "spec", "replicas")


SCENARIOS: tuple[Scenario, ...] = (safe_recovery,)
