"""What the scenarios about overrides share: the processes of a cluster, with the accounts of live ones, one
workload, and what the status of an override says."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.client.api import Resource
from fathom.control.process import Controller
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.overrides.acknowledging import Acknowledgements
from fathom.controllers.overrides.controller import Overrides
from fathom.controllers.pod_states import is_active, is_ready
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model import accounts
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import Key, Obj, is_deleting, lookup, uid_of
from fathom.model.user import User
from fathom.sim.checkers.overrides import of_overrides
from fathom.sim.scenarios import scheduling
from fathom.sim.scenarios.scheduling import LEASE, SCHEDULERS, node, own, run_scheduler
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, MANAGERS, TIMING
from fathom.sim.scenarios.workloads import autoscaler, unplaced
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.invariants import Checker
from fathom.sim.world.world import World

OVERRIDES = Resource("fathom.dev", "v1alpha1", "scheduleroverrides")
CAPACITY_CLASSES = Resource("fathom.dev", "v1alpha1", "capacityclasses", namespaced=False)
LIMITS = Resource("fathom.dev", "v1alpha1", "steeringlimits")
KINDS = ("/pods", "/scheduleroverrides", "/deployments", "/replicasets", "bindingbatches")
PROCESSES = (*SCHEDULERS, *MANAGERS)
# The controllers that carry workloads and overrides.
CONTROLLERS: tuple[Controller, ...] = (
    Deployments,
    ReplicaSets,
    DeploymentProgress,
    Overrides,
    Acknowledgements,
)
ZONES = {"node-a": "a", "node-b": "b"}


def checkers() -> Sequence[Checker]:
    return [*scheduling.checkers(), *of_overrides()]


def run_cluster(world: World, *more: Controller, servers: int = 1, signals: str = "") -> None:
    """Run schedulers, controllers and the agent, with the accounts of live ones: only the controllers may
    move a pod to another account, and both write only while they lead."""
    for number, name in enumerate(MANAGERS):
        run_controllers(
            world,
            name,
            *CONTROLLERS,
            *more,
            server=1 + number % servers,
            account=User(accounts.CONTROLLERS),
            lease=f"{SYSTEM_NAMESPACE}/controllers",
            timing=TIMING,
            signals=signals,
        )
    for number, name in enumerate(SCHEDULERS):
        run_scheduler(
            world,
            name,
            server=1 + number % servers,
            account=User(accounts.SCHEDULER),
            lease=LEASE,
            timing=TIMING,
        )
    run_controllers(world, AGENT, SimulatedNodes)


def in_zone(name: str, zone: str, *, cpu: str = "4", pods: str = "110", **labels: str) -> Obj:
    obj = node(name, zone=zone, more={"cpu": cpu, "memory": "4Ti", "pods": pods})
    obj["metadata"]["labels"] |= labels
    return obj


def workload(name: str, replicas: int, *, cpu: str = "1") -> Obj:
    """A Deployment whose pods the scheduler places."""
    obj = unplaced(name, replicas)
    obj["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return obj


def busy_autoscaler(name: str, fewest: int, most: int) -> Obj:
    """Its workload always has more load than it wants, so that it grows unless something holds it."""
    obj = autoscaler(name, most)
    obj["spec"]["minReplicas"] = fewest
    obj["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] = 5
    return obj


def override(name: str, changes: Obj, *, target: str, lasts: str, scope: str = "cluster", **spec: str) -> Obj:
    required = {"target": target, "scope": scope, "reason": "an incident", "expiresAfter": lasts}
    return own("SchedulerOverride", name, {**required, "changes": changes, **spec})


async def end_override(world: World, name: str, namespace: str = "default") -> None:
    """Delete it. It stays until its end is proven."""
    while (obj := world.get(OVERRIDES.name, Key(namespace, name))) is not None and not is_deleting(obj):
        await world.api.delete(OVERRIDES, namespace, name, uid=uid_of(obj))


def status_of(world: World, name: str, namespace: str = "default") -> Obj:
    return lookup(world.get(OVERRIDES.name, Key(namespace, name)), "status") or {}


def condition(status: Obj, kind: str) -> Obj:
    """A condition of an override; empty where it has none of this type."""
    listed = status.get("conditions") or ()
    return next((each for each in listed if each["type"] == kind), {})


def is_proven(status: Obj) -> bool:
    return condition(status, "RepairComplete").get("status") == "True"


def pods_of(world: World, name: str) -> list[Obj]:
    return [
        each
        for each in world.list("pods", "default")
        if lookup(each, "metadata", "labels", "app") == name and is_active(each)
    ]


def ready_pods(world: World, name: str) -> list[Obj]:
    return [each for each in pods_of(world, name) if is_ready(each)]


def is_lent(pod: Obj) -> bool:
    """Whether the pod is on the account of an override."""
    return str(lookup(pod, "metadata", "annotations", "fathom.dev/account") or "").count("/") == 3
