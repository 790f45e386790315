"""Worlds that end with a question: replicas pending after a rollback, and workloads that are stuck."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.control.process import Controller, load_controller
from fathom.controllers.all import CONTROLLERS
from fathom.explain.status import StatusView, explain_status
from fathom.explain.why_of.stuck import stuck
from fathom.model.conditions import is_true
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.resources import (
    AUTOSCALERS,
    BUDGETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    RESOURCE_QUOTAS,
    SERVICES,
)
from fathom.sim.checkers.explanations import troubles
from fathom.sim.scenarios.loads import HIGH, AutoscalersOfLoad, Load
from fathom.sim.scenarios.real import (
    DECIDERS,
    SCHEDULERS,
    checkers,
    deployment,
    ready_pods,
    run_real_cluster,
    standard,
    until_ready,
)
from fathom.sim.scenarios.real import NODES as CLUSTER
from fathom.sim.scenarios.scheduling import POLICIES, QUOTAS, ROLLOUTS, own
from fathom.sim.scenarios.steering import OVERRIDES, override
from fathom.sim.scenarios.workloads import autoscaler
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, HoldWatch
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World
from fathom.sim.world_evidence import RecordedDecisions, world_evidence

NAME, TENANT, BEFORE, WANTED = "risk-api", "risk", 6, 9
IDLE = 50_000_000  # Nanos of a CPU: exactly the target.
ZONE = "topology.kubernetes.io/zone"
HELD_AT_S, HELD_S = 300.0, 120.0

# The schedulers' watches of quotas are silent: everything else that they know is fresh.
QUOTA_WATCH_HELD: tuple[AnyFault, ...] = tuple(
    HoldWatch(at_s=HELD_AT_S, target=name, match="/tenantquotas", for_s=HELD_S) for name in SCHEDULERS
)


def recorded() -> Sequence[Checker]:
    return [*checkers(), RecordedDecisions()]


@scenario(Menu(processes=DECIDERS), scripted=QUOTA_WATCH_HELD, checkers=recorded)
async def pending_after_rollback(world: World) -> None:
    """A policy is rolled back, then one replica stays pending: its quota was raised, but the scheduler's
    watch of quotas is held. The status view shows that the last decision used an older quota."""
    load = Load()
    load.nanos = IDLE
    run_real_cluster(world, controllers=with_load(load))
    # While there are nodes of one zone only, all pods go there.
    await world.until(
        lambda: sum(is_true(node, "Ready") for node in world.list("nodes")) == len(CLUSTER),
        within_s=60,
        what="all nodes are ready",
    )
    await world.apply(NAMESPACES, {"metadata": {"name": "default", "labels": {"fathom.dev/tenant": TENANT}}})
    await world.apply(QUOTAS, own("TenantQuota", TENANT, limits(zone_c="200m")))
    await world.apply(DEPLOYMENTS, spread_over_zones(deployment(NAME, BEFORE)))
    await world.apply(AUTOSCALERS, autoscaler(NAME, WANTED))
    await until_ready(world, NAME, BEFORE)
    await roll_back(world)
    load.nanos = HIGH
    await world.until(lambda: len(ready_pods(world, NAME)) == WANTED - 1, within_s=120, what="one is pending")
    await world.until(lambda: world.now_s > HELD_AT_S + 1, within_s=300, what="the watch is held")
    await world.apply(QUOTAS, own("TenantQuota", TENANT, limits(zone_c="10")))
    await world.sleep(20)
    see_the_stale_quota(world, status_of(world))
    load.nanos = IDLE
    await until_ready(world, NAME, WANTED, within_s=300)
    after = status_of(world)
    assert after.pending_replicas.value == [], after.pending_replicas
    await world.heal_and_settle(quiet_s=90.0, within_s=900)


def see_the_stale_quota(world: World, view: StatusView) -> None:
    """The lesson's debug view, in substance."""
    workload = world.get(DEPLOYMENTS.name, Key("default", NAME))
    assert workload is not None
    assert view.generation.value == metadata(workload)["generation"], view.generation
    assert view.rollback_observed.value is True, view.rollback_observed
    assert len(view.pending_replicas.value) == 1, view.pending_replicas
    assert view.last_reason.value == f"quota/{TENANT}-zone-c", view.last_reason
    used, latest = view.cache_revision["TenantQuota"], view.latest_revision["TenantQuota"]
    assert used.value < latest.value, (used, latest)
    assert "TenantQuota" in view.kinds_behind, view.kinds_behind
    assert "HeldByQuota" in str(view.autoscaler_reason.value), view.autoscaler_reason
    repair = view.repair_condition.value
    assert (repair["type"], repair["status"]) == ("RepairComplete", "True"), repair
    assert repair["observedGeneration"] == view.generation.value, repair


def status_of(world: World) -> StatusView:
    return explain_status(world_evidence(world, DEPLOYMENTS.name, Key("default", NAME)))


def with_load(load: Load) -> list[Controller]:
    """The controllers of a cluster, but an autoscaler that measures this load."""
    names = [name for name in CONTROLLERS if name != "controllers/autoscaler"]
    return [*(load_controller(name) for name in names), AutoscalersOfLoad(load)]


def limits(*, zone_c: str) -> Obj:
    return {"limits": [{"zone": "zone-c", "resources": {"cpu": zone_c}}]}


def spread_over_zones(workload: Obj) -> Obj:
    spec = workload["spec"]["template"]["spec"]
    spec["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": metadata(workload)["name"]}},
        }
    ]
    return workload


async def roll_back(world: World) -> None:
    """Policy v5 lets zones differ by one pod only. Zone-c is cordoned, so a pod waits: v5 is rolled back."""
    await world.apply(POLICIES, own("SchedulingPolicy", "v4", {}))
    await world.apply(POLICIES, own("SchedulingPolicy", "v5", {"maxZoneSkew": 1}))
    steps = [{"percent": 100, "hold": "40s"}]
    await world.apply(ROLLOUTS, own("PolicyRollout", "to-v5", {"from": "v4", "to": "v5", "steps": steps}))
    await world.until(lambda: _phase(world) == "Canary", within_s=60, what="v5 is tried")
    await world.sleep(5)
    await cordon(world, "node-3", cordoned=True)
    await world.apply(DEPLOYMENTS, deployment("batch", 3))
    await world.until(lambda: _phase(world) == "RolledBack", within_s=120, what="v5 is rolled back")
    await until_ready(world, "batch", 3, within_s=180)
    await cordon(world, "node-3", cordoned=False)


async def cordon(world: World, node: str, *, cordoned: bool) -> None:
    await world.apply(NODES, {"metadata": {"name": node}, "spec": {"unschedulable": cordoned or None}})


def _phase(world: World) -> str:
    return str(lookup(world.get(ROLLOUTS.name, Key("", "to-v5")), "status", "phase") or "")


# Workloads that are stuck, each for another reason.


@scenario(
    Menu(processes=DECIDERS, kinds=("/pods", "/replicasets", "/nodes"), seconds=60, most=5), checkers=standard
)
async def stuck_workloads_are_explained(world: World) -> None:
    """Workloads wait for capacity, a quota, an image and a readiness probe; a rollout is paused, a Job is
    suspended, a Service selects nothing, an autoscaler has no target, nor has an override, a policy does not
    exist, the pods of a budget are not ready, a node is cordoned: none of them is said to be well, and the
    list of what is stuck has them all."""
    run_real_cluster(world)
    await world.apply(DEPLOYMENTS, deployment("well", 2))
    await world.apply(DEPLOYMENTS, deployment("large", 2, cpu="500"))
    await world.apply(
        DEPLOYMENTS, deployment("unready", 2, notes={"fathom.dev/simulated": '{"fail": "readiness"}'})
    )
    # Whoever comes later is refused: these are to have their pods.
    await world.until(lambda: len(world.list("pods")) == 6, within_s=120, what="the first pods are created")
    await world.apply(RESOURCE_QUOTAS, {"metadata": {"name": "room"}, "spec": {"hard": {"pods": "9"}}})
    await world.apply(DEPLOYMENTS, deployment("refused", 6))
    await world.apply(SERVICES, service("nothing"))
    await world.apply(JOBS, suspended("later"))
    await world.apply(AUTOSCALERS, autoscaler("astray", 3))
    await world.apply(BUDGETS, budget("guard", "large"))
    await world.apply(ROLLOUTS, own("PolicyRollout", "to-none", {"to": "none"}))
    changes = {"avoidNodes": ["node-4"]}
    await world.apply(OVERRIDES, override("aside", changes, target="deployment/none", lasts="24h"))
    await world.sleep(60)
    await world.apply(
        DEPLOYMENTS, {**deployment("well", 2, tag=2), "spec": paused(deployment("well", 2, tag=2))}
    )
    await cordon(world, "node-5", cordoned=True)
    await world.heal_and_settle(quiet_s=90.0, within_s=1500)
    listed = {answer.subject.key.name for answer in stuck(world_evidence(world, "", Key("", "")))}
    names = {key.name for resource, key, _ in troubles(world) if resource not in {"pods", "replicasets.apps"}}
    stuck_ones = {"well", "large", "unready", "refused", "nothing", "later", "node-5", "astray", "to-none"}
    assert names == {*stuck_ones, "guard", "aside"}, sorted(names)
    assert stuck_ones <= listed, f"not listed: {sorted(stuck_ones - listed)}"


def paused(workload: Obj) -> Obj:
    return {**workload["spec"], "paused": True}


def service(selects: str) -> Obj:
    return {
        "metadata": {"name": selects},
        "spec": {"selector": {"app": selects}, "ports": [{"port": 80, "targetPort": 8080}]},
    }


def budget(name: str, app: str) -> Obj:
    return {
        "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    }


def suspended(name: str) -> Obj:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job:1"}]}}
    return {"metadata": {"name": name}, "spec": {"suspend": True, "template": template}}


SCENARIOS: tuple[Scenario, ...] = (pending_after_rollback, stuck_workloads_are_explained)
