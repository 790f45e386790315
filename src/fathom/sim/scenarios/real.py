"""The real processes in a simulated world: the scheduler, the controllers and an agent for every node, all
with the code that runs live. Only the containers are simulated."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.control.lease import Timing
from fathom.control.process import Controller, load_controller
from fathom.controllers.all import CONTROLLERS
from fathom.model import accounts
from fathom.model.objects import Obj
from fathom.model.user import User
from fathom.schedule.loop.process import begin as begin_scheduler
from fathom.sim.checkers import at_home
from fathom.sim.checkers.explanations import NoTroubleIsHidden
from fathom.sim.checkers.nodes import (
    EveryWorkloadIsServed,
    ManySilentNodesGetTime,
    NoEvictionOnWeakEvidence,
    OneRunPerPod,
)
from fathom.sim.checkers.workloads import OnePodPerSlot
from fathom.sim.scenarios.staff import run_agent
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.invariants import Checker
from fathom.sim.world.world import World

ZONES = ("zone-a", "zone-b", "zone-c")
NODES = tuple(f"node-{number}" for number in range(1, 6))
SCHEDULERS = ("scheduler-1", "scheduler-2")
MANAGERS = ("controllers-1", "controllers-2")
DECIDERS = (*SCHEDULERS, *MANAGERS)

# Shorter than live ones, so that leaders change while faults last.
TIMING = Timing(duration_s=6, renew_deadline_s=4.0, retry_s=1.0)


def standard() -> Sequence[Checker]:
    return [
        *at_home(),
        OneRunPerPod(),
        OnePodPerSlot(),
        NoEvictionOnWeakEvidence(),
        ManySilentNodesGetTime(),
        NoTroubleIsHidden(),
    ]


def checkers() -> Sequence[Checker]:
    """For scenarios that end well."""
    return [*standard(), EveryWorkloadIsServed()]


def run_real_cluster(
    world: World,
    *,
    nodes: Sequence[str] = NODES,
    servers: int = 1,
    spare: bool = True,
    events: bool = False,
    controllers: Sequence[Controller] = (),
) -> None:
    """Two schedulers and two controller processes, one leader of each, and the agents. `controllers`: in
    place of those of a cluster."""
    names = controllers or [load_controller(name) for name in CONTROLLERS]
    for index in range(2 if spare else 1):
        server = 1 + index % servers
        world.process(
            SCHEDULERS[index],
            begin_scheduler,
            server=server,
            account=User(accounts.SCHEDULER),
            lease="fathom-system/scheduler",
            who=SCHEDULERS[index],
            timing=TIMING,
        )
        run_controllers(
            world,
            MANAGERS[index],
            *names,
            server=server,
            account=User(accounts.CONTROLLERS),
            lease="fathom-system/controllers",
            signals="controllers",
            timing=TIMING,
            events=events,
        )
    for index, node in enumerate(nodes):
        run_agent(world, node, server=1 + index % servers, zone=ZONES[index % len(ZONES)])


def deployment(
    name: str, replicas: int, *, tag: int = 1, cpu: str = "100m", notes: dict[str, str] | None = None
) -> Obj:
    container = {
        "name": "main",
        "image": f"{name}:{tag}",
        "resources": {"requests": {"cpu": cpu}},
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 2},
    }
    template = {
        "metadata": {"labels": {"app": name}, "annotations": notes or {}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 5},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


async def until_ready(world: World, name: str, replicas: int, *, within_s: float = 120.0) -> None:
    await world.until(
        lambda: len(ready_pods(world, name)) == replicas,
        within_s=within_s,
        what=f"{name} has {replicas} ready pods",
    )


def ready_pods(world: World, name: str) -> list[Obj]:
    return [
        pod
        for pod in world.list("pods", "default")
        if pod["metadata"]["labels"].get("app") == name
        and not pod["metadata"].get("deletionTimestamp")
        and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in pod["status"].get("conditions", ())
        )
    ]
