"""Nodes fall silent and come back, agents restart in the middle of everything: what was written about them in
the meantime is taken back, and agents report what runs."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.conditions import SERVING_CONDITION, conditions_of, find_condition
from fathom.model.objects import Obj, key_of, labels_of, lookup, metadata, uid_of
from fathom.model.resources import DEPLOYMENTS, PODS
from fathom.model.times import timestamp
from fathom.sim.checkers.nodes import UnheardServeNobody
from fathom.sim.scenarios.failures import PROPOSALS, approve, proposed
from fathom.sim.scenarios.real import (
    DECIDERS,
    NODES,
    deployment,
    ready_pods,
    run_real_cluster,
    standard,
    until_ready,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Partition
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

QUIET_S = 90.0
SILENT_AT_S = 20.0
CUT_OFF_AT_S = 60.0
STAYS_S = 600
PROBED_EVERY_S = 8.0
DRIVING = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready", "fathom.dev/lost")


def silent_for_a_while(seed: str) -> Sequence[AnyFault]:
    """The seed says which node, and for how long: some nodes become suspect, some unreachable, some lost."""
    number = int(seed) if seed.isdigit() else 0
    return (Partition(at_s=SILENT_AT_S, for_s=30.0 + 7 * (number % 13), target=NODES[number % 3]),)


def listening() -> Sequence[Checker]:
    return [*standard(), UnheardServeNobody()]


@scenario(Menu(processes=NODES), faults_of=silent_for_a_while, checkers=listening)
async def a_node_comes_back(world: World) -> None:
    """A node is silent for 30 to 114 seconds and comes back: its pods, which tolerate that, are still there,
    and its taints and conditions are taken back."""
    run_real_cluster(world, spare=False)
    await world.apply(DEPLOYMENTS, patient("web", 6))
    await world.sleep(SILENT_AT_S - 1 - world.now_s)
    before = {uid_of(pod) for pod in ready_pods(world, "web")}
    await world.sleep(130)
    world.heal()
    await until_ready(world, "web", 6, within_s=300)
    assert before <= {uid_of(pod) for pod in ready_pods(world, "web")}, (
        "a pod was evicted although it tolerates the taint"
    )
    await world.settle(quiet_s=QUIET_S, within_s=900)


def cut_off(seed: str) -> Sequence[AnyFault]:
    """An agent does not reach the API server for minutes."""
    number = int(seed) if seed.isdigit() else 0
    return (Partition(at_s=CUT_OFF_AT_S, for_s=80.0 + 10 * (number % 5), target=NODES[0]),)


@scenario(Menu(processes=NODES), faults_of=cut_off, checkers=standard)
async def a_node_that_only_the_gateway_reaches(world: World) -> None:
    """The agent of a node cannot report, but the gateway goes on reaching its pods, and says so: they stay in
    service, and are not evicted."""
    run_real_cluster(world, spare=False)
    await world.apply(DEPLOYMENTS, deployment("web", 6))
    await until_ready(world, "web", 6, within_s=CUT_OFF_AT_S - 2)
    before = {uid_of(pod) for pod in ready_pods(world, "web")}
    await world.sleep(CUT_OFF_AT_S - world.now_s)
    # Probes go on until the agent is heard again.
    until_s = CUT_OFF_AT_S + 130
    while world.now_s < until_s:
        for pod in world.list("pods", "default"):
            if lookup(pod, "spec", "nodeName") == NODES[0]:
                await _probe(world, pod)
        await world.sleep(PROBED_EVERY_S)
    assert before <= {uid_of(pod) for pod in ready_pods(world, "web")}, (
        "a pod was taken out of service although the gateway reached it"
    )
    world.heal()
    await world.settle(quiet_s=QUIET_S, within_s=900)


async def _probe(world: World, pod: Obj) -> None:
    """As the gateway does, which the scenario stands in for: the pod serves."""
    now = timestamp(world.engine.epoch_ns + world.engine.now_ns)
    before = find_condition(conditions_of(pod), SERVING_CONDITION) or {"lastTransitionTime": now}
    serving = {
        **before,
        "type": SERVING_CONDITION,
        "status": "True",
        "reason": "Reached",
        "lastProbeTime": now,
    }
    others = [each for each in conditions_of(pod) if each.get("type") != SERVING_CONDITION]
    meta = {"uid": uid_of(pod), "resourceVersion": metadata(pod)["resourceVersion"]}
    patch = {"metadata": meta, "status": {"conditions": [*others, serving]}}
    await world.api.patch(PODS, *key_of(pod), patch, subresource="status")


def patient(name: str, replicas: int) -> Obj:
    workload = deployment(name, replicas)
    workload["spec"]["template"]["spec"]["tolerations"] = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": STAYS_S}
        for key in DRIVING
    ]
    return workload


SCRIPTS = {
    "sound": "{}",
    "unready": '{"fail": "readiness"}',
    "crashing": '{"fail": "crash", "fails": 2}',
    "slow": '{"ready_s": 6}',
}


class OnlyTheReadyAreReady(Checker):
    """A pod that never passes its probe is never reported as ready."""

    name = "agents report only ready pods as ready"
    resources = frozenset({"pods"})

    def commit(self, change: Seen) -> Found:
        if labels_of(change.new or {}).get("app") != "unready":
            return None
        conditions = lookup(change.new, "status", "conditions") or ()
        ready = any(
            condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions
        )
        return f"{change.by} reports that {change.key.name} is ready" if ready else None


def checkers() -> Sequence[Checker]:
    return [*standard(), OnlyTheReadyAreReady()]


@scenario(Menu(processes=(*NODES[:2], *DECIDERS), kinds=("/pods",), seconds=40, most=8), checkers=checkers)
async def agents_begin_anew(world: World) -> None:
    """Agents crash and stop while their pods start, fail, end and are deleted: they report what runs, and the
    workloads become ready."""
    run_real_cluster(world, nodes=NODES[:2])
    for name, script in SCRIPTS.items():
        await world.apply(DEPLOYMENTS, deployment(name, 2, notes={"fathom.dev/simulated": script}))
    await world.sleep(15 + 10 * world.rng.random())
    await world.apply(DEPLOYMENTS, deployment("sound", 3, tag=2, notes={"fathom.dev/simulated": "{}"}))
    await world.sleep(20)
    world.heal()
    for name, replicas in (("sound", 3), ("crashing", 2), ("slow", 2)):
        await until_ready(world, name, replicas, within_s=400)
    await world.settle(quiet_s=QUIET_S, within_s=1200)


def many_at_once(seed: str) -> Sequence[AnyFault]:
    """Three of five nodes; the seed says how long after each other they come back."""
    apart_s = 4.0 + 2 * ((int(seed) if seed.isdigit() else 0) % 8)
    return [
        Partition(at_s=SILENT_AT_S, for_s=150.0 + number * apart_s, target=node)
        for number, node in enumerate(NODES[:3])
    ]


@scenario(Menu(processes=NODES), faults_of=many_at_once, checkers=standard)
async def silent_nodes_come_back_in_turn(world: World) -> None:
    """Three of five nodes are silent for more than two minutes, and come back one after the other: when few
    are left, those get the time to come back too."""
    run_real_cluster(world, spare=False)
    await world.apply(DEPLOYMENTS, deployment("web", 5))
    await world.sleep(SILENT_AT_S + 150 + 60)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


def one_is_cut_off_for_long(seed: str) -> Sequence[AnyFault]:
    number = int(seed) if seed.isdigit() else 0
    return (Partition(at_s=CUT_OFF_AT_S, for_s=3600.0, target=NODES[number % 3]),)


@scenario(Menu(processes=NODES), faults_of=one_is_cut_off_for_long, checkers=standard, timed=True)
async def a_person_gives_pods_up(world: World) -> None:
    """A node is cut off, its pods are evicted and cannot be heard to end, and repair proposes to remove them.
    A person says yes to some of that: those are gone at once, and the others when the node is back."""
    run_real_cluster(world, spare=False)
    await world.apply(DEPLOYMENTS, deployment("web", 8))
    await world.until(lambda: bool(proposed(world)), within_s=1800, what="repair proposes to remove them")
    await world.sleep(30)
    proposals = world.list(PROPOSALS.name)
    given_up = proposals[: 1 + world.rng.randrange(len(proposals))]
    names = {lookup(proposal, "spec", "subject", "name") for proposal in given_up}
    for proposal in given_up:
        await approve(world, proposal)
    await world.until(
        lambda: not names & {key_of(pod).name for pod in world.list("pods", "default")},
        within_s=60,
        what="the pods that a person gave up are gone",
    )
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


SCENARIOS: tuple[Scenario, ...] = (
    a_node_comes_back,
    a_person_gives_pods_up,
    silent_nodes_come_back_in_turn,
    a_node_that_only_the_gateway_reaches,
    agents_begin_anew,
)
