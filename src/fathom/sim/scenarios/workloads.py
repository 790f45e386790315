"""The real controllers of workloads, with the shared agent: rollouts, jobs, endpoints and autoscalers under
faults. Pods name their node themselves, except where the scenario is about a scheduler that lags."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fathom.control.kit import Kit
from fathom.controllers.autoscaler.controller import Autoscalers
from fathom.controllers.autoscaler.samples import PodSample
from fathom.controllers.budget.controller import DisruptionBudgets
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.endpoints.controller import EndpointSlices, EndpointsOfServices
from fathom.controllers.job.controller import Jobs
from fathom.controllers.pod_states import is_active, is_ready
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.resources import AUTOSCALERS, DEPLOYMENTS, JOBS, NODES, PODS, REPLICA_SETS, SERVICES
from fathom.sim.checkers import at_home
from fathom.sim.checkers.final_state import WhenSettled, unfinished_jobs, untrue_endpoints
from fathom.sim.checkers.rollouts import (
    ChildrenWithinSurge,
    GrowthIsEarned,
    MinimumAvailable,
    OneRevisionPerTemplate,
    RolledOut,
)
from fathom.sim.checkers.workloads import CountedOnce, JobsWithinBounds, OnePodPerSlot
from fathom.sim.scenarios.crashes import nth_write
from fathom.sim.scenarios.jobs import job
from fathom.sim.scenarios.objects import node, replica_set, template
from fathom.sim.scenarios.serving import service
from fathom.sim.scenarios.staff import (
    AGENT,
    AT_THE_TOP,
    MANAGERS,
    all_but,
    come_to_rest,
    run_managers_and_agents,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Crash, CrashAtWrite, HoldWatch
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

KINDS = ("/pods", "/replicasets", "/deployments")
OF_JOBS = ("/pods", "/jobs")
WORKLOADS = ("web", "api")


def deployment(name: str, replicas: int, *, tag: int = 1, surge: int = 1, missing: int = 1) -> Obj:
    rolling = {"maxSurge": surge, "maxUnavailable": missing}
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": {"app": name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": template(name, tag=str(tag)),
        },
    }


# Rollouts.


def checkers() -> Sequence[Checker]:
    return [
        *at_home(),
        ChildrenWithinSurge(),
        MinimumAvailable(MANAGERS),
        OneRevisionPerTemplate(),
        OnePodPerSlot(),
        RolledOut(),
    ]


@scenario(
    Menu(processes=(*MANAGERS, AGENT), kinds=KINDS, happenings=AT_THE_TOP, seconds=25, most=8),
    checkers=checkers,
    scale=12,
)
async def rollouts(world: World) -> None:
    """Deployments are rolled forward and back and scaled while everything fails: never too many pods, never
    too few available ones, and in the end what was specified."""
    troubles = run_managers_and_agents(world, Deployments, ReplicaSets, kinds=KINDS)
    await _roll_at_random(world)
    await come_to_rest(world, troubles)


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=KINDS,
        happenings=("handover", "lose-lease"),
        seconds=15,
        most=6,
        without=all_but("hold-watch", "happening", "crash-at-write"),
    ),
    checkers=checkers,
    scale=12,
)
async def rollouts_seen_late(world: World) -> None:
    """Deployments are rolled and scaled while managers receive events of one kind late and of another at
    once, and leaders change: never too many pods, never too few available ones, and in the end what was
    specified."""
    troubles = run_managers_and_agents(world, Deployments, ReplicaSets, kinds=KINDS)
    await _roll_at_random(world)
    await come_to_rest(world, troubles)


async def _roll_at_random(world: World) -> None:
    bounds = {name: world.rng.choice(((1, 0), (0, 1), (1, 1), (2, 1))) for name in WORKLOADS}
    for name, (surge, missing) in bounds.items():
        await world.apply(DEPLOYMENTS, deployment(name, 3, surge=surge, missing=missing))
    for _ in range(world.scale):
        await world.sleep(3 * world.rng.random())
        name = world.rng.choice(WORKLOADS)
        surge, missing = bounds[name]
        # Three templates, so that some rollouts go back to an existing revision.
        tag, replicas = world.rng.randrange(1, 4), world.rng.randrange(2, 6)
        await world.apply(DEPLOYMENTS, deployment(name, replicas, tag=tag, surge=surge, missing=missing))


@scenario(Menu(processes=(*MANAGERS, AGENT), kinds=KINDS), faults_of=nth_write, checkers=checkers)
async def a_crash_at_any_write_of_a_rollout(world: World) -> None:
    """A Deployment is created, rolled forward and back and scaled. The controllers, the agent or the API
    server crash after one of their writes (the seed says which; seeds 0, 1, 2, … go through all): the
    rollouts complete within their limits."""
    troubles = run_managers_and_agents(world, Deployments, ReplicaSets, kinds=KINDS)
    await let_the_first_lead(world)
    await world.apply(DEPLOYMENTS, deployment("web", 3))
    await world.sleep(6)
    await world.apply(DEPLOYMENTS, deployment("web", 3, tag=2))
    await world.sleep(10)
    await world.apply(DEPLOYMENTS, deployment("web", 2, tag=1))
    await world.sleep(10)
    await come_to_rest(world, troubles)


async def let_the_first_lead(world: World) -> None:
    """So that the faults of the scenario hit the leader."""
    await world.sleep(0.01)
    world.pause(MANAGERS[1], 4.0)


# Jobs and endpoints.


def of_jobs() -> Sequence[Checker]:
    ended = WhenSettled("every Job ends", unfinished_jobs)
    return [*at_home(), CountedOnce(), JobsWithinBounds(), ended]


@scenario(
    Menu(processes=(*MANAGERS, AGENT), kinds=OF_JOBS, happenings=AT_THE_TOP, seconds=20, most=8),
    checkers=of_jobs,
    scale=8,
)
async def real_jobs(world: World) -> None:
    """Many short pods of Jobs run, and some of them, and some Jobs, are deleted: no success is counted twice,
    and every Job ends."""
    await _run_jobs(world)


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=OF_JOBS,
        happenings=("handover",),
        seconds=10,
        most=8,
        without=all_but("hold-watch", "happening", "crash-at-write", "slow-request"),
    ),
    checkers=of_jobs,
    scale=6,
)
async def real_jobs_seen_late(world: World) -> None:
    """Many short pods of Jobs run while managers receive events of one kind late, their writes are slow and
    leaders change: no success is counted twice, and every Job ends."""
    await _run_jobs(world)


def deaf_successor(seed: str) -> Sequence[AnyFault]:
    """The first leader crashes after its n-th write about Jobs; the next one receives no events of pods for a
    while."""
    number = int(seed) if seed.isdigit() else 0
    crash = CrashAtWrite(at_s=0.0, target=MANAGERS[0], match="/jobs", times=1 + number, for_s=30.0)
    return (crash, HoldWatch(at_s=4.2, target=MANAGERS[1], match="/pods", for_s=14.0))


@scenario(Menu(processes=MANAGERS, kinds=OF_JOBS), faults_of=deaf_successor, checkers=of_jobs)
async def a_job_with_a_deaf_successor(world: World) -> None:
    """The new leader of a Job has received no events of its pods for a while: it counts none of them
    twice."""
    troubles = run_managers_and_agents(world, Jobs, kinds=OF_JOBS)
    await let_the_first_lead(world)
    await world.sleep(4.1)
    await world.apply(JOBS, job("once", completions=6, parallelism=2, runs_s=1.0))
    await world.sleep(25)
    await come_to_rest(world, troubles)


async def _run_jobs(world: World) -> None:
    troubles = run_managers_and_agents(world, Jobs, kinds=OF_JOBS)
    for number in range(3):
        # Short ones and many, so that at every moment some pod is being counted.
        short_job = job(f"job-{number}", completions=6 + number, parallelism=3, runs_s=world.rng.random())
        await world.apply(JOBS, short_job)
    for number in range(world.scale):
        await world.sleep(2 * world.rng.random())
        await disturb(world, number)
    await come_to_rest(world, troubles)


async def disturb(world: World, number: int) -> None:
    """Delete a pod; or delete a Job with its pods, and create another one."""
    if world.rng.random() < 0.7:
        pods = [pod for pod in world.list("pods", "default") if is_active(pod)]
        if pods:
            meta = metadata(world.rng.choice(pods))
            await world.api.delete(PODS, "default", meta["name"], uid=meta["uid"])
        return
    name = f"job-{world.rng.randrange(3)}"
    await world.delete(JOBS, name)
    await world.apply(JOBS, job(name, completions=1 + number % 4, parallelism=2, runs_s=1.0))


def of_endpoints() -> Sequence[Checker]:
    return [
        *at_home(),
        WhenSettled("endpoints converge", untrue_endpoints),
        WhenSettled("slices converge", untrue_slices),
    ]


def untrue_slices(world: World) -> list[str]:
    """Each ready pod is in one slice of its Service, as ready, and no other pod is."""
    wrong = []
    for service_obj in world.list("services", "default"):
        name = metadata(service_obj)["name"]
        pods = [pod for pod in _pods(world, name) if is_active(pod) and is_ready(pod)]
        wanted = sorted(str(metadata(pod)["uid"]) for pod in pods)
        slices = [part for part in world.list("endpointslices.discovery.k8s.io", "default")
                  if metadata(part)["labels"].get("kubernetes.io/service-name") == name]  # fmt: skip
        listed = sorted(
            str(lookup(endpoint, "targetRef", "uid"))
            for part in slices
            for endpoint in part.get("endpoints") or ()
            if lookup(endpoint, "conditions", "ready")
        )
        if listed != wanted and lookup(service_obj, "spec", "selector"):
            wrong.append(f"{name} has {listed}, ready are {wanted}")
    return wrong


def _pods(world: World, app: str) -> list[Obj]:
    return [pod for pod in world.list("pods", "default") if lookup(pod, "metadata", "labels", "app") == app]


OF_ENDPOINTS = (*KINDS, "/services", "/endpoints", "/endpointslices")


@scenario(
    Menu(
        processes=(*MANAGERS, AGENT),
        kinds=OF_ENDPOINTS,
        happenings=(*AT_THE_TOP, "failing-probe", "blink", "fair"),
        seconds=20,
        most=8,
    ),
    checkers=of_endpoints,
    scale=8,
)
async def real_endpoints(world: World) -> None:
    """Pods of Deployments come, go, fail their probes and recover: in the end each Service has exactly its
    ready pods, as Endpoints and in slices."""
    await _serve_deployments(world)


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=OF_ENDPOINTS,
        happenings=("handover", "blink"),
        seconds=20,
        most=6,
        without=all_but("hold-watch", "happening"),
    ),
    checkers=of_endpoints,
    scale=8,
)
async def real_endpoints_seen_late(world: World) -> None:
    """Pods of Deployments come and go while managers receive events of one kind late and of another at once,
    and leaders change: in the end each Service has exactly its ready pods, as Endpoints and in slices."""
    await _serve_deployments(world)


def deaf_to_endpoints(seed: str) -> Sequence[AnyFault]:
    """The first leader crashes at some moment; the next one receives no events of endpoints until long
    after."""
    number = int(seed) if seed.isdigit() else 0
    crash = Crash(at_s=7.0 + 0.25 * (number % 16), target=MANAGERS[0], for_s=60.0)
    return (HoldWatch(at_s=5.0, target=MANAGERS[1], match="/endpoints", for_s=25.0), crash)


@scenario(Menu(processes=MANAGERS, kinds=OF_ENDPOINTS), faults_of=deaf_to_endpoints, checkers=of_endpoints)
async def endpoints_with_a_deaf_successor(world: World) -> None:
    """A new leader compares with old endpoints: when it receives their events, it looks again, and in the end
    they are the ready pods."""
    troubles = run_managers_and_agents(
        world, ReplicaSets, EndpointSlices, EndpointsOfServices, kinds=OF_ENDPOINTS
    )
    await let_the_first_lead(world)
    await world.apply(SERVICES, service("web"))
    await world.sleep(5.2)
    await world.apply(REPLICA_SETS, replica_set("web", 2))
    await world.sleep(4)
    await world.delete(REPLICA_SETS, "web")  # The garbage collector deletes its pods, whoever leads.
    await world.sleep(30)
    await come_to_rest(world, troubles)


async def _serve_deployments(world: World) -> None:
    controllers = (Deployments, ReplicaSets, EndpointSlices, EndpointsOfServices, DisruptionBudgets)
    troubles = run_managers_and_agents(world, *controllers, kinds=OF_ENDPOINTS)
    for name in WORKLOADS:
        await world.apply(SERVICES, service(name))
        await world.apply(DEPLOYMENTS, deployment(name, 2))
    for step in range(world.scale):
        await world.sleep(3 * world.rng.random())
        name = world.rng.choice(WORKLOADS)
        await world.apply(
            DEPLOYMENTS, deployment(name, world.rng.randrange(0, 5), tag=world.rng.randrange(1, 2 + step))
        )
    await come_to_rest(world, troubles)


# Autoscaling.


class LoadedAutoscalers(Autoscalers):
    """Every ready pod uses six times its target: more than any number of pods could carry, also when pods
    that are not ready yet count as using nothing."""

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._own = kit

    async def _fetch_samples(self, namespace: str) -> tuple[dict[str, PodSample], str]:
        pods = self._own.snapshot().list("Pod", namespace)
        use = PodSample({"main": {"cpu": 300_000_000}})
        return {str(metadata(pod)["name"]): use for pod in pods if is_active(pod) and is_ready(pod)}, ""


def autoscaler(name: str, most: int) -> Obj:
    target = {"type": "Utilization", "averageUtilization": 50}
    return {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def unplaced(name: str, replicas: int) -> Obj:
    """Its pods wait to be bound to a node."""
    obj = deployment(name, replicas)
    spec = {key: value for key, value in obj["spec"]["template"]["spec"].items() if key != "nodeName"}
    containers = [{**spec["containers"][0], "resources": {"requests": {"cpu": "100m"}}}]
    obj["spec"]["template"] = {**obj["spec"]["template"], "spec": {**spec, "containers": containers}}
    return obj


def of_growth() -> Sequence[Checker]:
    return [*at_home(), GrowthIsEarned(MANAGERS)]


MOST = 12


@scenario(
    Menu(
        processes=(*MANAGERS, AGENT),
        kinds=(*KINDS, "/workloadprogresses", "/horizontalpodautoscalers"),
        happenings=AT_THE_TOP,
        seconds=90,
        most=8,
    ),
    checkers=of_growth,
    scale=3,
)
async def autoscaler_under_lag(world: World) -> None:
    """The load is high and the scheduler lags: the autoscaler asks for more replicas only when those that it
    asked for are ready, and still reaches its limit."""
    troubles = run_managers_and_agents(world, Deployments, ReplicaSets, DeploymentProgress, LoadedAutoscalers)
    await world.apply(NODES, node("node-1"))
    await world.apply(DEPLOYMENTS, unplaced("web", 2))
    await world.apply(AUTOSCALERS, autoscaler("web", MOST))
    for _ in range(world.scale):
        await world.sleep(10 + 30 * world.rng.random())
        await _bind_waiting_pods(world, "web")
    world.heal()
    troubles.clear_up()
    for _ in range(20):
        await world.sleep(15)
        await _bind_waiting_pods(world, "web")
    await come_to_rest(world, troubles)
    web = world.get(DEPLOYMENTS.name, Key("default", "web"))
    assert web is not None
    assert web["spec"]["replicas"] == MOST, (
        f"the Deployment has {web['spec']['replicas']} replicas, not {MOST}"
    )


async def _bind_waiting_pods(world: World, app: str) -> None:
    """Bind the waiting pods, in place of the scheduler."""
    for pod in _pods(world, app):
        if lookup(pod, "spec", "nodeName") or not is_active(pod):
            continue
        name = metadata(pod)["name"]
        binding = {
            "kind": "Binding",
            "apiVersion": "v1",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": "node-1"},
        }
        await world.api.create(PODS, "default", binding, subresource="binding")
        await asyncio.sleep(0)


SCENARIOS: tuple[Scenario, ...] = (
    rollouts,
    rollouts_seen_late,
    a_crash_at_any_write_of_a_rollout,
    real_jobs,
    real_jobs_seen_late,
    a_job_with_a_deaf_successor,
    real_endpoints,
    real_endpoints_seen_late,
    endpoints_with_a_deaf_successor,
    autoscaler_under_lag,
)
