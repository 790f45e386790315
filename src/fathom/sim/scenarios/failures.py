"""How control planes fail in operation, one scenario each, with the real processes.

timeout-means-failure             a write committed but its reply is lost: the write is not repeated
retry-storm                       a server is down: retries back off, and not in step
duplicate-ownership               a leader resumes after its lease has expired: none of its writes is accepted
permanent-partial-state           objects that belong to nothing any more are found and removed
progress-hidden-in-logs           the WorkloadProgress says where a workload is stuck
failure-detector-too-aggressive   many heartbeats are late at once: no pod is evicted
late-heartbeats                   single heartbeats are late: no pod is evicted
a-persons-decision                repair proposes, and acts only after a person has approved
"""

from __future__ import annotations

from fathom.client.api import Resource
from fathom.model import resources
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of
from fathom.model.resources import DEPLOYMENTS, PODS
from fathom.sim.scenarios.own_requests import begin_deletion, until_committed
from fathom.sim.scenarios.real import (
    DECIDERS,
    MANAGERS,
    NODES,
    SCHEDULERS,
    checkers,
    deployment,
    ready_pods,
    run_real_cluster,
    standard,
    until_ready,
)
from fathom.sim.scenarios.staff import all_but
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import LoseReply, Partition, Pause, Refuse
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

PROPOSALS = Resource("fathom.dev", "v1alpha1", "repairproposals")
RESERVATIONS = Resource("fathom.dev", "v1alpha1", "reservations")
QUIET_S = 90.0
MENU = Menu(processes=DECIDERS)


@scenario(
    MENU,
    checkers=checkers,
    scripted=[
        LoseReply(at_s=0.0, target=target, match="POST", times=3, told_s=told_s)
        for target, told_s in ((SCHEDULERS[0], 0.0), (MANAGERS[0], 1.0))
    ],
)
async def timeout_means_failure(world: World) -> None:
    """Creates and bindings commit but their replies are lost: each is carried out once."""
    run_real_cluster(world)
    await world.apply(DEPLOYMENTS, deployment("web", 5))
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    assert len(world.list("pods", "default")) == 5


STORM_S = 40.0
# Requests per second and process that are no storm yet.
CALM = 2.0


@scenario(
    MENU,
    checkers=checkers,
    scripted=[Refuse(at_s=10.0, for_s=STORM_S, target="*", status=503, times=1_000_000)],
)
async def retry_storm(world: World) -> None:
    """The API server answers everything with 503 for forty seconds: processes back off and send few requests,
    and the cluster recovers afterwards."""
    run_real_cluster(world)
    await world.apply(DEPLOYMENTS, deployment("web", 5))
    await world.sleep(10.0 + STORM_S)
    requests = sum(count for (fault, _), count in world.engine.faults.fired.items() if fault == "refuse")
    processes = len(DECIDERS) + len(NODES)
    assert requests <= CALM * STORM_S * processes, (
        f"{requests} requests from {processes} processes in {STORM_S:g} s"
    )
    assert requests, "no request was sent: the scenario tests nothing"
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


@scenario(
    MENU,
    checkers=checkers,
    scripted=[
        Pause(at_s=12.3, for_s=15.0, target=MANAGERS[0]),
        Pause(at_s=12.1, for_s=15.0, target=SCHEDULERS[0]),
    ],
)
async def duplicate_ownership(world: World) -> None:
    """Leaders pause in the middle of a rollout, others take over, and the old leaders resume: none of their
    writes is accepted."""
    run_real_cluster(world)
    await world.apply(DEPLOYMENTS, deployment("web", 5))
    await world.sleep(12)
    await world.apply(DEPLOYMENTS, deployment("web", 5, tag=2))
    await world.sleep(25)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


@scenario(
    Menu(processes=DECIDERS, kinds=("/pods", "/reservations", "/nodes"), seconds=20, most=4),
    checkers=checkers,
)
async def permanent_partial_state(world: World) -> None:
    """A reservation whose pod is gone, an expired reservation and a pod on a deleted node: in the end all
    three are removed."""
    run_real_cluster(world)
    await world.apply(DEPLOYMENTS, deployment("web", 3))
    await world.apply(RESERVATIONS, reservation("orphan", pod="gone", uid="gone-uid"))
    await world.apply(RESERVATIONS, reservation("late", expires="2026-01-01T00:01:00Z"))
    await world.apply(resources.NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "ghost"}})
    await world.apply(PODS, pod_on("stranded", "ghost"))
    await world.delete(resources.NODES, "ghost")
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    await world.until(
        lambda: world.get("pods", Key("default", "stranded")) is None,
        within_s=120,
        what="the pod on the deleted node goes",
    )
    await world.until(
        lambda: not world.list("reservations.fathom.dev"), within_s=180, what="the reservations are released"
    )


def reservation(name: str, *, pod: str = "", uid: str = "", expires: str = "") -> Obj:
    notes = {"fathom.dev/pod": pod, "fathom.dev/pod-uid": uid} if pod else {}
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "namespace": "default", "annotations": notes},
        "spec": {
            "workload": {"uid": f"workload-of-{name}", "name": name, "generation": 1},
            "intent": "recovery",
            "nodeName": "node-1",
            "resources": {"cpu": "100m"},
            **({"expiresAt": expires} if expires else {}),
        },
    }


def pod_on(name: str, node: str) -> Obj:
    container = {"name": "main", "image": "main:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [container]},
    }


@scenario(
    MENU,
    checkers=checkers,
    scripted=[Partition(at_s=20.0, for_s=120.0, target=node) for node in NODES[:3]],
)
async def failure_detector_too_aggressive(world: World) -> None:
    """Three of five nodes are silent for two minutes, all at once: the brake holds, all three are treated
    alike, and no pod is evicted."""
    run_real_cluster(world)
    await world.apply(DEPLOYMENTS, deployment("web", 5))
    await until_ready(world, "web", 5)
    before = {pod["metadata"]["uid"] for pod in ready_pods(world, "web")}
    await world.sleep(120 - world.now_s)
    treated = {name: _conditions_and_taints(world, name) for name in NODES[:3]}
    assert len(set(treated.values())) == 1, treated
    await world.sleep(40)
    node = world.get("nodes", Key("", NODES[0]))
    assert node is not None
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    assert {pod["metadata"]["uid"] for pod in ready_pods(world, "web")} == before
    if any(
        condition["type"] == "fathom.dev/Suspect" for condition in lookup(node, "status", "conditions") or ()
    ):
        world.sometimes("the brake noticed many silent nodes")


def _conditions_and_taints(world: World, name: str) -> tuple[object, ...]:
    """The conditions and taints of a silent node."""
    node = world.get("nodes", Key("", name)) or {}
    conditions = {
        (condition["type"], condition["status"]) for condition in lookup(node, "status", "conditions") or ()
    }
    taints = {(taint["key"], taint["effect"]) for taint in lookup(node, "spec", "taints") or ()}
    return tuple(sorted(conditions)), tuple(sorted(taints))


@scenario(
    Menu(
        processes=NODES,
        kinds=("/leases", "/nodes"),
        seconds=60,
        most=8,
        without=all_but("partition", "pause", "slow-request", "lose-request"),
    ),
    checkers=checkers,
)
async def late_heartbeats(world: World) -> None:
    """Single heartbeats come late, now from one node and now from another: no node is declared lost."""
    run_real_cluster(world, spare=False)
    await world.apply(DEPLOYMENTS, deployment("web", 5))
    await world.sleep(90)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


HOLDERS = [f"{'very-' * 8}long-name-{number}.example.com/disk" for number in range(4)]


@scenario(
    Menu(processes=DECIDERS, kinds=("/repairproposals", "/deployments"), seconds=30, most=3),
    checkers=standard,
)
async def a_persons_decision(world: World) -> None:
    """Finalizers hold a deleted workload: repair proposes to remove them, does nothing by itself, and acts
    when a person has approved."""
    run_real_cluster(world)
    blocked = deployment("held", 0)
    blocked["metadata"]["finalizers"] = HOLDERS
    created = await world.apply(DEPLOYMENTS, blocked)
    await begin_deletion(world, DEPLOYMENTS, created)
    await world.sleep(60)
    world.heal()
    await world.until(
        lambda: proposed(world) == ["Proposed"], within_s=900, what="repair proposes to remove the finalizers"
    )
    await world.sleep(60)
    assert world.get("deployments.apps", Key("default", "held")) is not None, (
        "the workload was removed without approval"
    )
    (proposal,) = world.list(PROPOSALS.name)
    await approve(world, proposal)
    await world.until(lambda: proposed(world) == ["Done"], within_s=120, what="the approved proposal is done")
    assert world.get("deployments.apps", Key("default", "held")) is None


async def approve(world: World, proposal: Obj) -> None:
    """Approve the proposal; retry until a server accepts it."""
    namespace, name = key_of(proposal)
    decision = {"metadata": {"uid": uid_of(proposal)}, "status": {"approved": True}}
    await until_committed(
        world, lambda: world.api.patch(PROPOSALS, namespace, name, decision, subresource="approval")
    )


def proposed(world: World) -> list[str]:
    return [str(lookup(proposal, "status", "phase") or "") for proposal in world.list(PROPOSALS.name)]


# What a workload's containers do; its key is where its progress must say that it is stuck.
HELD = {"image": '{"fail": "image"}', "probe": '{"fail": "readiness"}', "crash": '{"fail": "crash"}'}


@scenario(
    Menu(processes=DECIDERS, kinds=("/pods", "/workloadprogresses"), seconds=30, most=3), checkers=standard
)
async def progress_hidden_in_logs(world: World) -> None:
    """Workloads cannot pull their image, fail their probe or crash: the WorkloadProgress of each says where
    it is stuck, for the generation that it names."""
    run_real_cluster(world)
    for name, script in HELD.items():
        await world.apply(DEPLOYMENTS, deployment(name, 2, notes={"fathom.dev/simulated": script}))
    await world.sleep(60)
    world.heal()
    for name in HELD:
        await world.until(
            lambda name=name: stuck_at(world, name) == name,  # type: ignore[misc]  # Bound for this turn.
            within_s=600,
            what=f"the WorkloadProgress of {name} says stuckAt {name!r} (now {stuck_at(world, name)!r})",
        )


def stuck_at(world: World, name: str) -> str:
    for progress in world.list("workloadprogresses.fathom.dev", "default"):
        if lookup(progress, "spec", "workload", "name") == name:
            return str(lookup(progress, "status", "current", "stuckAt") or "")
    return "nobody"


SCENARIOS: tuple[Scenario, ...] = (
    timeout_means_failure,
    retry_storm,
    duplicate_ownership,
    permanent_partial_state,
    progress_hidden_in_logs,
    failure_detector_too_aggressive,
    late_heartbeats,
    a_persons_decision,
)
