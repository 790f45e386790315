"""The scheduler in the world: with stale views, with other schedulers beside it, through everything that
fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from fathom.client.api import Resource
from fathom.controllers.repair.controller import RepairReservations
from fathom.model.objects import Key, Obj, is_deleting, lookup, metadata, uid_of
from fathom.model.resources import NODES, PODS
from fathom.model.well_known import ZONE_LABEL
from fathom.schedule.loop.process import SchedulerProcess, SchedulerSettings
from fathom.schedule.policy_rollout.controller import PolicyRollouts
from fathom.seams.process import Inside
from fathom.sim.checkers import at_home
from fathom.sim.checkers.caches import CacheInspector, CachesAreTrue
from fathom.sim.checkers.leaders import WritesWithinTheTerm
from fathom.sim.checkers.pod_messages import WaitingPodsSayWhatIsSo
from fathom.sim.checkers.scheduling import NoSchedulablePodIdles, WaitingPodsSayWhy
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, OF_WATCHES, QUIET_S, TIMING, all_but
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, HoldWatch
from fathom.sim.world.invariants import Checker
from fathom.sim.world.process import SimProcess
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

SCHEDULERS = ("scheduler-1", "scheduler-2")
LEASE = "fathom-system/scheduler"
NODE_COUNT = 3  # Few, so that they are full most of the time.
TIMEOUT_S = 1.5  # Shorter than a slow request takes, so that outcomes are unknown.
KINDS = ("/pods", "/nodes", "/tenantquotas", "bindingbatches")

QUOTAS = Resource("fathom.dev", "v1alpha1", "tenantquotas", namespaced=False)
CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)
POLICIES = Resource("fathom.dev", "v1alpha1", "schedulingpolicies", namespaced=False)
ROLLOUTS = Resource("fathom.dev", "v1alpha1", "policyrollouts", namespaced=False)


def checkers() -> Sequence[Checker]:
    return [*at_home(), NoSchedulablePodIdles(), WaitingPodsSayWhy(), WaitingPodsSayWhatIsSo()]


def run_scheduler(world: World, name: str, *, server: int = 1, **settings: Any) -> SimProcess:
    """Run a scheduler from now on. `settings` are those of `schedule.process`."""
    caches_checker = next((checker for checker in world.checkers if isinstance(checker, CachesAreTrue)), None)
    lease = str(settings.get("lease", ""))
    for checker in world.checkers:
        if lease and isinstance(checker, WritesWithinTheTerm):
            checker.elected[name] = Key(*lease.split("/"))

    def entry(inside: Inside) -> SchedulerProcess:
        sight = CacheInspector(caches_checker, world.engine, name) if caches_checker is not None else None
        options = {"who": name, "user_agent": name, **inside.options}
        running = SchedulerProcess(
            inside, msgspec.convert(options, SchedulerSettings, strict=False), observer=sight
        )
        if sight is not None:
            sight.over(running.caches)
        running.start()
        return running

    return world.process(name, entry, server=server, **{"bind_timeout_s": TIMEOUT_S, **settings})


@scenario(Menu(processes=(*SCHEDULERS, AGENT), kinds=KINDS, seconds=25, most=8), checkers=checkers, scale=30)
async def scheduling(world: World) -> None:
    """Pods come and go, nodes are cordoned, a quota changes, leaders change: no node and no quota exceeds its
    limit, and in the end no pod waits while there is a place for it."""
    for name in SCHEDULERS:
        run_scheduler(world, name, lease=LEASE, timing=TIMING)
    await _random_changes(world)


@scenario(
    Menu(
        processes=SCHEDULERS[:1],
        kinds=("/pods", "bindingbatches"),
        seconds=25,
        most=10,
        without=all_but("slow-request", "slow-reply", "lose-reply", "hold-watch", "drop-watch"),
    ),
    checkers=checkers,
    scale=30,
)
async def one_scheduler(world: World) -> None:
    """One scheduler, whose requests are slow and whose replies are lost: it remembers the bindings that are
    under way, and does not give their room away twice."""
    run_scheduler(world, SCHEDULERS[0])
    await _random_changes(world, high=0.0)


@scenario(
    Menu(processes=SCHEDULERS, kinds=KINDS, seconds=25, most=8, without=all_but(*OF_WATCHES, "lose-reply")),
    checkers=checkers,
    scale=30,
)
async def two_schedulers_stale_cache(world: World) -> None:
    """Two schedulers place the same pods from caches of different ages: the API server accepts one binding of
    each pod, and no node and no quota exceeds its limit."""
    for name in SCHEDULERS:
        run_scheduler(world, name)
    await _random_changes(world)


@scenario(
    Menu(
        processes=(*SCHEDULERS, AGENT),
        servers=("api-1", "api-2"),
        kinds=KINDS,
        seconds=25,
        most=8,
    ),
    servers=2,
    checkers=checkers,
    scale=30,
)
async def schedulers_behind_two_servers(world: World) -> None:
    """Two schedulers place the same pods through two API servers, of which one may be far behind: no node and
    no quota exceeds its limit, and in the end no pod waits while there is a place for it."""
    for number, name in enumerate(SCHEDULERS, start=1):
        run_scheduler(world, name, server=number)
    await _random_changes(world)


async def _random_changes(world: World, *, high: float = 0.3) -> None:
    run_controllers(world, AGENT, SimulatedNodes)
    if high:  # Pods preempt and reserve room: repair releases what a leader leaves behind.
        run_controllers(world, "repair", RepairReservations)
    for number in range(1, NODE_COUNT + 1):
        await world.apply(NODES, node(f"node-{number}", zone=f"zone-{number % 2}"))
    await world.apply(QUOTAS, quota("default", cpu="20"))
    await world.apply(CLASSES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
    for number in range(world.scale):
        await world.sleep(1.2 * world.rng.random())
        await _change(world, number, high=high)
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _change(world: World, number: int, *, high: float) -> None:
    action = world.rng.choice(
        ("pod", "pod", "burst", "burst", "delete", "delete", "delete", "cordon", "quota")
    )
    if action == "pod":
        cpu = world.rng.choice(("500m", "1", "2", "3"))
        await world.apply(PODS, pod(f"p-{number}", cpu=cpu, high=world.rng.random() < high))
    elif action == "burst":  # Several at once: two schedulers begin at different ends.
        pods = [pod(f"b-{number}-{index}", cpu=world.rng.choice(("2", "3"))) for index in range(3)]
        await asyncio.gather(*(world.apply(PODS, obj) for obj in pods))
    elif action == "delete":
        await delete_some(world)
    elif action == "cordon":
        name = f"node-{world.rng.randrange(1, NODE_COUNT + 1)}"
        await world.apply(NODES, node(name, zone=_zone(world, name), cordoned=world.rng.random() < 0.5))
    else:
        await world.apply(QUOTAS, quota("default", cpu=world.rng.choice(("6", "12", "20"))))


async def delete_some(world: World) -> None:
    pods = [obj for obj in world.list("pods", "default") if not is_deleting(obj)]
    if pods:
        chosen = world.rng.choice(pods)
        await world.api.delete(PODS, "default", str(metadata(chosen)["name"]), uid=uid_of(chosen))


def _zone(world: World, name: str) -> str:
    current = world.get("nodes", Key("", name))
    return str(lookup(current or {}, "metadata", "labels", ZONE_LABEL) or "")


def node(name: str, *, zone: str = "", cordoned: bool = False, more: dict[str, str] | None = None) -> Obj:
    room = {"cpu": "4", "memory": "32Gi", "pods": "110", **(more or {})}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE_LABEL: zone}},
        "spec": {"unschedulable": cordoned},
        "status": {"capacity": room, "allocatable": room},
    }


def pod(name: str, *, cpu: str = "1", labels: Obj | None = None, high: bool = False) -> Obj:
    container = {"name": "main", "image": "example/app", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [container],
            **({"priorityClassName": "high"} if high else {}),
        },
    }


def quota(name: str, *, cpu: str) -> Obj:
    return own("TenantQuota", name, {"limits": [{"resources": {"cpu": cpu}}]})


def own(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": "fathom.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


# The worked example of the lesson on staleness.

CANARY_FAULTS: tuple[AnyFault, ...] = (
    HoldWatch(at_s=4.0, target="scheduler-1", match="/api/v1/pods", for_s=20.0),
    HoldWatch(at_s=4.0, target="scheduler-1", match="/api/v1/nodes", for_s=20.0),
)
GPU = "example.com/gpu"


@scenario(
    Menu(processes=("scheduler-1",), kinds=KINDS, seconds=25), scripted=CANARY_FAULTS, checkers=checkers
)
async def stale_policy_canary(world: World) -> None:
    """Policy v5 is active for a canary while the view of nodes is twenty seconds old: the scheduler chooses a
    node whose GPU is taken, is refused, and then avoids it; the rollout waits for caches that have seen its
    activation."""
    await _set_up_canary(world)
    await world.sleep(5)  # Events of pods and nodes are held from now on.
    steps = [{"percent": 100, "hold": "3s"}]
    spec = {"from": "v4", "to": "v5", "steps": steps, "scope": {"namespaces": ["default"]}}
    await world.apply(ROLLOUTS, own("PolicyRollout", "canary", spec))
    # Another pod takes the GPU of node-b7. The scheduler does not see it.
    await world.apply(PODS, gpu_pod("other", cpu="0", node="node-b7"))
    await world.sleep(1)
    assert _rollout(world).get("canary") == "v5", f"the canary has not begun: {_rollout(world)}"
    await world.apply(QUOTAS, quota("default", cpu="100"))
    await world.sleep(6)
    placed = lookup(world.get("pods", Key("default", "risk-api-1")) or {}, "spec", "nodeName")
    assert placed == "node-c1", f"node-c1 was free, but risk-api-1 is on {placed}"
    refused = world.state("scheduler-1").scheduler.counts.refused  # type: ignore[attr-defined]  # Its own.
    assert refused == {"NodeFull": 1}, f"the stale binding was not refused exactly once: {refused}"
    assert _rollout(world).get("phase") == "Canary", (
        f"the rollout went on before caches had seen it: {_rollout(world)}"
    )
    await world.heal_and_settle(quiet_s=QUIET_S)
    assert _rollout(world).get("phase") == "Complete", (
        f"the rollout is not complete although every gate holds: {_rollout(world)}"
    )


async def _set_up_canary(world: World) -> None:
    """Two GPUs, of which the first is the better choice, and a pod that its quota keeps waiting."""
    for name in ("node-b7", "node-c1"):
        await world.apply(NODES, node(name, zone=name[5], more={GPU: "1"}))
    busy = pod("busy", cpu="2")
    busy["spec"]["nodeName"] = "node-c1"
    await world.apply(PODS, busy)
    await world.apply(POLICIES, own("SchedulingPolicy", "v4", {}))
    await world.apply(POLICIES, own("SchedulingPolicy", "v5", {"maxZoneSkew": 1}))
    await world.apply(QUOTAS, quota("default", cpu="2"))
    run_scheduler(world, "scheduler-1", names=("default-scheduler",))
    run_controllers(world, "rollouts", PolicyRollouts)
    run_controllers(world, AGENT, SimulatedNodes)
    await world.apply(PODS, gpu_pod("risk-api-1"))


def gpu_pod(name: str, *, cpu: str = "1", node: str = "") -> Obj:
    obj = pod(name, labels={"app": name})
    obj["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": cpu, GPU: "1"},
        "limits": {GPU: "1"},
    }
    if node:
        obj["spec"]["nodeName"] = node
    return obj


def _rollout(world: World) -> Obj:
    return (world.get(ROLLOUTS.name, Key("", "canary")) or {}).get("status") or {}


SCENARIOS: tuple[Scenario, ...] = (
    scheduling,
    one_scheduler,
    two_schedulers_stale_cache,
    schedulers_behind_two_servers,
    stale_policy_canary,
)
