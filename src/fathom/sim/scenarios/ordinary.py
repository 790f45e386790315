"""People do ordinary things to workloads of all kinds, and many remain halfway: rollouts whose new pods never
get ready, Jobs that are suspended, pods that lose a label, nodes whose zone is known late. At rest each
status says what is there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from fathom.client.api import Resource
from fathom.controllers.budget.controller import DisruptionBudgets
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.endpoints.controller import EndpointSlices, EndpointsOfServices
from fathom.controllers.job.controller import Jobs
from fathom.controllers.pod_states import is_active
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, lookup, uid_of
from fathom.model.resources import (
    BUDGETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SECRETS,
    SERVICES,
)
from fathom.sim.checkers import at_home
from fathom.sim.checkers.available import AvailableIsEarned
from fathom.sim.checkers.rollouts import ChildrenWithinSurge, OneRevisionPerTemplate
from fathom.sim.checkers.workloads import CountedOnce, OnePodPerSlot
from fathom.sim.scenarios.jobs import job
from fathom.sim.scenarios.objects import node, pod_spec, replica_set
from fathom.sim.scenarios.simulated_nodes import FAILS_AT, NEVER_READY
from fathom.sim.scenarios.staff import (
    AGENT,
    AT_THE_TOP,
    MANAGERS,
    QUIET_S,
    run_managers_and_agents,
)
from fathom.sim.scenarios.workloads import WORKLOADS, deployment
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

KINDS = ("/pods", "/replicasets", "/deployments", "/jobs", "/nodes", "/services", "/poddisruptionbudgets")
ZONE = "topology.kubernetes.io/zone"
BARE = "bare"  # A ReplicaSet of its own.
NODE_NAMES = ("node-1", "node-2")
TIER = {"tier": "front"}
# What is selected, by name: those of one app, and those of all.
SELECTORS: dict[str, Obj] = {name: {"app": name} for name in (*WORKLOADS, BARE)} | {"front": TIER}
LIMITS: tuple[Obj, ...] = (
    {"minAvailable": 2, "maxUnavailable": None},
    {"minAvailable": "50%", "maxUnavailable": None},
    {"maxUnavailable": 1, "minAvailable": None},
    {"maxUnavailable": "30%", "minAvailable": None},
)
POLICIES = ("Background", "Foreground", "Foreground", "Orphan")
JOB_NAMES = ("plain", "indexed", "per-index")
LASTING = ((REPLICA_SETS, BARE), *((DEPLOYMENTS, name) for name in WORKLOADS))
WORKLOAD_NAMES = (*LASTING, *((JOBS, name) for name in JOB_NAMES))


def checkers() -> Sequence[Checker]:
    of_workloads = (ChildrenWithinSurge(), OneRevisionPerTemplate(), OnePodPerSlot(), AvailableIsEarned())
    return [*at_home(), *of_workloads, CountedOnce()]


@scenario(
    Menu(
        processes=(*MANAGERS, AGENT),
        kinds=KINDS,
        happenings=AT_THE_TOP,
        seconds=30,
        most=6,
        without=("skew",),
    ),
    checkers=checkers,
    scale=12,
)
async def ordinary_days(world: World) -> None:
    """Workloads of all kinds are made, and then anything ordinary is done to them, in any order. At rest all
    counts are those of the pods that are there, and again after each of some last touches."""
    run_all(world)
    await begin(world)
    for _ in range(world.scale):
        await world.sleep(3 * world.rng.random())
        await world.rng.choice(TOUCHES)(world)
    await world.sleep(2)
    await world.heal_and_settle(quiet_s=QUIET_S)
    for _ in range(2):  # Nothing comes after these that would make good what they leave.
        await world.rng.choice(TOUCHES)(world)
        await world.settle(quiet_s=QUIET_S)


def run_all(world: World) -> None:
    controllers = (Deployments, ReplicaSets, Jobs, DeploymentProgress)
    beside = (DisruptionBudgets, EndpointSlices, EndpointsOfServices)
    run_managers_and_agents(world, *controllers, *beside, kinds=KINDS)


async def begin(world: World) -> None:
    """Make what is not there."""
    for name in SELECTORS:
        await world.apply(SERVICES, _service(name))
        await world.apply(BUDGETS, _budget(world, name))
    for name in NODE_NAMES:
        await world.apply(NODES, node(name))
    for name in WORKLOADS:
        await world.apply(DEPLOYMENTS, _deployment(world, name, tag=1))
    await world.apply(REPLICA_SETS, _bare(world))
    for name in JOB_NAMES:
        if world.get(JOBS.name, Key("default", name)) is None:
            await world.apply(JOBS, _job(world, name))


# What people do.


async def _roll_out(world: World) -> None:
    """To a revision whose pods get ready, or never do, or back."""
    await world.apply(
        DEPLOYMENTS, _deployment(world, world.rng.choice(WORKLOADS), tag=world.rng.randrange(1, 5))
    )


async def _scale(world: World) -> None:
    """Also in the middle of a rollout."""
    replicas = world.rng.randrange(1, 6)
    await _edit(world, DEPLOYMENTS, world.rng.choice(WORKLOADS), {"replicas": replicas})


async def _edit(world: World, resource: Resource, name: str, spec: Obj) -> None:
    """Unless it is gone. What is refused is not tried again."""
    await world.api.patch(resource, "default", name, {"spec": spec})


async def _pause_or_go_on(world: World) -> None:
    name = world.rng.choice(WORKLOADS)
    paused = lookup(world.get(DEPLOYMENTS.name, Key("default", name)) or {}, "spec", "paused")
    await _edit(world, DEPLOYMENTS, name, {"paused": not paused})


async def _edit_bare_set(world: World) -> None:
    """Its size, or only the template of pods to come."""
    await world.apply(REPLICA_SETS, _bare(world))


async def _relabel_pod(world: World) -> None:
    """It leaves budgets and Services; or also its workload, which makes another one."""
    pods = [pod for pod in world.list("pods", "default") if is_active(pod) and "tier" in labels_of(pod)]
    if pods:
        pod = world.rng.choice(pods)
        change = world.rng.choice(({"tier": None}, {"tier": "back"}, {"app": "nobody"}))
        patch = {"metadata": {"uid": uid_of(pod), "labels": change}}
        await world.api.patch(PODS, "default", key_of(pod).name, patch)


async def _delete_pod(world: World) -> None:
    pods = [pod for pod in world.list("pods", "default") if is_active(pod)]
    if pods:
        pod = world.rng.choice(pods)
        await world.api.delete(PODS, "default", key_of(pod).name, uid=uid_of(pod))


async def _change_budget(world: World) -> None:
    await world.apply(BUDGETS, _budget(world, world.rng.choice(sorted(SELECTORS))))


async def _change_zone(world: World) -> None:
    """A node gets its zone late, or another one, or loses it."""
    zone = world.rng.choice(("zone-a", "zone-b", None))
    await world.apply(NODES, {"metadata": {"name": world.rng.choice(NODE_NAMES), "labels": {ZONE: zone}}})


async def _suspend_or_resume(world: World) -> None:
    name = world.rng.choice(JOB_NAMES)
    suspended = lookup(world.get(JOBS.name, Key("default", name)) or {}, "spec", "suspend")
    await _edit(world, JOBS, name, {"suspend": not suspended})


async def _change_parallelism(world: World) -> None:
    parallelism = world.rng.randrange(1, 4)
    await _edit(world, JOBS, world.rng.choice(JOB_NAMES), {"parallelism": parallelism})


async def _remove_or_make_job(world: World) -> None:
    await _remove_or_make(world, JOBS, _job(world, world.rng.choice(JOB_NAMES)))


async def _repeat_job(world: World) -> None:
    """A person does not wait for the old one to be gone, and tries once more when it is still there."""
    name = world.rng.choice(JOB_NAMES)
    await remove(world, JOBS, name)
    for _ in range(2):
        await world.sleep(world.rng.choice((0.0, 1.0, 5.0)))
        await world.api.create(JOBS, "default", _job(world, name))


async def remove(world: World, resource: Resource, name: str) -> None:
    """With its children, before or after it, or without them."""
    current = world.get(resource.name, Key("default", name))
    if current is not None:
        policy = world.rng.choice(POLICIES)
        await world.api.delete(resource, "default", name, uid=uid_of(current), policy=policy)


async def _remove_workload(world: World) -> None:
    """Another one of the same name may be made later, by a rollout or an edit."""
    resource, name = world.rng.choice(LASTING)
    await remove(world, resource, name)


async def _remove_or_make_service(world: World) -> None:
    """Or the budget of that name."""
    name = world.rng.choice(sorted(SELECTORS))
    resource, obj = world.rng.choice(((SERVICES, _service(name)), (BUDGETS, _budget(world, name))))
    await _remove_or_make(world, resource, obj)


async def _remove_or_make(world: World, resource: Resource, obj: Obj) -> None:
    """What is being removed is made by a later call."""
    if world.get(resource.name, Key("default", key_of(obj).name)) is not None:
        await remove(world, resource, key_of(obj).name)
    else:
        await world.api.create(resource, "default", obj)


async def _leave_namespace(world: World) -> None:
    """It is deleted, and what is in it takes its time: a pod has a long grace period, and somebody else's
    finalizer is removed late."""
    space = f"space-{world.now_s * 1000:.0f}"
    created = await world.apply(NAMESPACES, {"metadata": {"name": space}})
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await world.apply(SECRETS, held, space)
    if world.rng.random() < 0.5:
        spec = {**pod_spec(), "terminationGracePeriodSeconds": 10}
        await world.apply(PODS, {"metadata": {"name": "slow"}, "spec": spec}, space)
    while not is_deleting(world.get(NAMESPACES.name, Key("", space)) or created):
        await world.api.delete(NAMESPACES, "", space, uid=uid_of(created))
    await world.sleep(8 * world.rng.random())
    while world.get(SECRETS.name, Key(space, "held")) is not None:
        await world.api.patch(SECRETS, space, "held", {"metadata": {"finalizers": None}})
        await world.sleep(0.5)


Touch = Callable[[World], Awaitable[None]]
REMOVALS: tuple[Touch, ...] = (
    _repeat_job,
    _remove_or_make_job,
    _remove_workload,
    _remove_or_make_service,
)
TOUCHES: tuple[Touch, ...] = (
    _roll_out,
    _roll_out,
    _scale,
    _pause_or_go_on,
    _edit_bare_set,
    _relabel_pod,
    _delete_pod,
    _change_budget,
    _change_zone,
    _suspend_or_resume,
    _suspend_or_resume,
    _change_parallelism,
    *REMOVALS,
    _leave_namespace,
)


# What they make.


def _deployment(world: World, name: str, *, tag: int) -> Obj:
    """Pods of every second revision never get ready."""
    surge, missing = world.rng.choice(((1, 0), (1, 1), (2, 1), ("50%", "50%")))
    obj = deployment(name, world.rng.randrange(2, 6), tag=tag)
    obj["spec"]["strategy"]["rollingUpdate"] = {"maxSurge": surge, "maxUnavailable": missing}
    template = obj["spec"]["template"]
    template["metadata"]["labels"] |= TIER
    template["metadata"]["annotations"] = {NEVER_READY: "always" if tag % 2 == 0 else ""}
    template["spec"]["nodeName"] = NODE_NAMES[tag % 2]
    return obj


def _bare(world: World) -> Obj:
    obj = replica_set(BARE, world.rng.randrange(1, 4))
    obj["spec"]["template"]["metadata"]["labels"] |= TIER
    obj["spec"]["template"]["metadata"]["annotations"] = {NEVER_READY: world.rng.choice(("", "", "always"))}
    return obj


def _service(name: str) -> Obj:
    return {"metadata": {"name": name}, "spec": {"selector": SELECTORS[name], "ports": [{"port": 80}]}}


def _budget(world: World, name: str) -> Obj:
    selector = {"matchLabels": SELECTORS[name]}
    return {"metadata": {"name": name}, "spec": {**world.rng.choice(LIMITS), "selector": selector}}


def _job(world: World, name: str) -> Obj:
    """Some are over soon, and some go on while much else happens."""
    runs_s = world.rng.choice((1 + 5 * world.rng.random(), 25.0))
    obj = job(name, completions=4, parallelism=2, runs_s=runs_s)
    obj["spec"]["suspend"] = world.rng.random() < 0.3
    if name != "plain":
        obj["spec"]["completionMode"] = "Indexed"
    if name == "per-index":
        # Longer than the back-off after its first failure, with indexes to spare.
        obj["spec"] |= {"completions": 7, "backoffLimitPerIndex": world.rng.randrange(2)}
        failing = world.rng.sample(range(4), world.rng.randrange(1, 3))
        obj["spec"]["template"]["metadata"]["annotations"][FAILS_AT] = ",".join(map(str, failing))
    return obj


SCENARIOS: tuple[Scenario, ...] = (ordinary_days,)
