"""Pods without a node on a running cluster, each with something else that is wrong: the first line names the
cause, and the change that it proposes is typed and gives the pod a node.

Each trouble has a namespace and two nodes to itself. Names and numbers are drawn; containers are simulated.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_cluster import Cluster
from tests.clients.kubectl import Kubectl
from tests.cluster.living import until
from tests.cluster.programs import own
from tests.cluster.simulated_nodes import AT_ONCE, HOST, NODE_CPU, POOL, ZONES, Place
from tests.cluster.troubles import READY_S, Ask, Step, Trouble, answer_with, asking, solve, table

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def shown_milli(milli: int) -> str:
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


# The troubles.


def gate(place: Place) -> Trouble:
    """The pod also requests more than any node has, so the change has two parts. Decoy: a cordoned node."""
    place.cordon(1)
    name = f"example.com/{place.word}"
    place.create(place.pod(cpu=NODE_CPU + 1, schedulingGates=[{"name": name}]))
    says = (
        "is not scheduled: it has a scheduling gate",
        f"remove the scheduling gate {name}",
        "lower cpu of container main to 8",
    )
    return Trouble(steps=(Step(says=says, never=("uncordon",)),))


def tenant_quota(place: Place) -> Trouble:
    """Decoy: a taint keeps the pod from the other node."""
    used, more = place.rng.randrange(100, 900), place.rng.randrange(100, 900)
    limits = [{"resources": {"cpu": f"{used}m"}}]
    place.shared.create(own("TenantQuota", place.namespace, limits=limits))
    place.taint(1)
    place.placed(place.pod("old", cpu=f"{used}m", on=0))
    place.create(place.pod(cpu=f"{more}m"))
    raised = f"raise cpu of quota/{place.namespace} from {used}m to"
    return Trouble(
        steps=(Step(says=(f"quota/{place.namespace} has no room left", raised), never=("taint",)),)
    )


def topology_spread(place: Place) -> Trouble:
    """Decoy: the node where it should go has a taint."""
    skew = place.rng.randrange(1, 4)
    labels = {"tier": place.word}
    constraint = {
        "maxSkew": skew, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }  # fmt: skip
    place.taint(1)
    place.placed(*(place.pod(f"old-{n}", on=0, labels=labels) for n in range(skew)))
    place.create(place.pod(labels=labels, topologySpreadConstraints=[constraint]))
    raised = f"raise maxSkew over {HOST} from {skew} to {skew + 1}"
    return Trouble(
        steps=(Step(says=("didn't match pod topology spread constraints", raised), never=("taint",)),)
    )


def taint(place: Place) -> Trouble:
    """Decoy: the other node has another taint, and is cordoned."""
    place.taint(0, "pool", place.word)
    place.taint(1)
    place.cordon(1)
    place.create(place.pod())
    shown = f"untolerated taint {{pool: {place.word}}}"
    return Trouble(
        steps=(
            Step(
                says=(shown, f"tolerate the taint pool={place.word}:NoSchedule"), never=("decoy", "uncordon")
            ),
        )
    )


def taint_of_a_deployment(place: Place) -> Trouble:
    """Decoy: as before. The API server adds tolerations to pods and not to their template."""
    (step,) = taint(place).steps
    place.kubectl.ok("delete pod web")
    place.create(place.deployment())
    until(lambda: bool(place.kubectl.json("get pods")["items"]), place.cluster.logs)
    (pod,) = place.kubectl.json("get pods")["items"]
    owned = Step(says=(*step.says, "(the owner of deployment/web)"), never=step.never)
    return Trouble(subject=f"pod/{pod['metadata']['name']}", steps=(owned,), wanted="deployment/web")


def node_affinity(place: Place) -> Trouble:
    """Decoy: one of the nodes that it means is cordoned."""
    place.cordon(1)
    expressions = [
        {"key": POOL, "operator": "In", "values": [place.word]},
        {"key": "disk", "operator": "In", "values": ["ssd"]},
    ]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    place.create(place.pod(nodeSelector=None, affinity={"nodeAffinity": {REQUIRED: terms}}))
    says = ("didn't match Pod's node affinity/selector", "drop disk from its required node affinity")
    return Trouble(steps=(Step(says=says, never=("cordon",)),))


def wrong_selector(place: Place) -> Trouble:
    """Decoy: one of the nodes that it means has a taint."""
    place.taint(1)
    place.node(place.nodes[0], {"metadata": {"labels": {"disk": "ssd"}}})
    place.create(place.pod(nodeSelector={POOL: place.word, "disk": place.word}))
    says = ("didn't match Pod's node affinity/selector", f"drop disk={place.word} from the nodeSelector")
    return Trouble(steps=(Step(says=says, never=("taint",)),))


def resources(place: Place) -> Trouble:
    """Decoys: a taint on the other node; a ConfigMap that the pod names does not exist."""
    place.taint(1)
    free = place.rng.randrange(1000, 7000)
    place.placed(place.pod("old", cpu=f"{1000 * NODE_CPU - free}m", on=0))
    reference = {"configMapKeyRef": {"name": "settings", "key": "LEVEL"}}
    of = {"env": [{"name": "LEVEL", "valueFrom": reference}]}
    place.create(place.pod(cpu=f"{free + place.rng.randrange(1, 500)}m", of=of))
    says = ("too little free cpu", f"lower cpu of container main to {shown_milli(free)} ")
    return Trouble(steps=(Step(says=says, never=("taint", "ConfigMap")),))


def host_port(place: Place) -> Trouble:
    """Decoy: a taint on the other node."""
    port = place.rng.randrange(20000, 30000)
    of = {"ports": [{"containerPort": 80, "hostPort": port}]}
    place.taint(1)
    place.placed(place.pod("old", on=0, of=of))
    place.create(place.pod(of=of))
    freed = f"free host port {port} on {place.nodes[0]}: delete pod {place.namespace}/old"
    return Trouble(steps=(Step(says=("didn't have free ports", freed), never=("taint",)),))


def policy(place: Place) -> Trouble:
    """Decoy: the node of the other zone has a taint."""
    name, labels = f"policy-{place.word}", {"app": "web"}
    scope = {"namespaces": [place.namespace]}
    place.taint(1)
    place.shared.create(
        own("SchedulingPolicy", name, maxZoneSkew=1),
        own("PolicyRollout", name, to=name, scope=scope, steps=[{"percent": 100}], automaticRollback=False),
    )
    path = f"/apis/fathom.dev/v1alpha1/policyrollouts/{name}"
    until(
        lambda: place.cluster.request("GET", path).get("status", {}).get("phase") == "Complete",
        place.cluster.logs,
    )
    place.placed(place.pod("old", on=0, labels=labels))
    place.create(place.pod(labels=labels))
    says = (f"policy/{name}: zones would differ", f"raise maxZoneSkew of policy {name} from 1 to 2")
    return Trouble(steps=(Step(says=says, never=("taint",)),))


def override(place: Place) -> Trouble:
    """Decoy: a taint on the other node."""
    place.taint(1)
    changes = {"avoidNodes": [place.nodes[0]]}
    place.create(
        own("SchedulerOverride", place.word, target="workload/web", scope="cluster", reason="a drill",
            expiresAfter="10m", changes=changes)
    )  # fmt: skip
    place.create(place.pod())
    named = f"{place.namespace}/{place.word}"
    return Trouble(steps=(Step(says=(f"override/{named}", f"end override {named}"), never=("taint",)),))


def cordon(place: Place) -> Trouble:
    """Decoy: a taint on the other node."""
    place.cordon(0)
    place.taint(1)
    place.create(place.pod())
    says = ("were unschedulable", f"Change: kubectl uncordon {place.nodes[0]} (a cluster operator)")
    return Trouble(steps=(Step(says=says, never=("taint",)),))


def pod_affinity(place: Place) -> Trouble:
    """Decoy: a taint on the other node."""
    place.taint(1)
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": place.word}}}
    place.create(place.pod(affinity={"podAffinity": {REQUIRED: [term]}}))
    says = ("didn't match pod affinity rules", "drop its required pod affinity")
    return Trouble(steps=(Step(says=says, never=("taint",)),))


def pod_anti_affinity(place: Place) -> Trouble:
    """Decoy: a taint on the other node."""
    place.taint(1)
    place.placed(place.pod("old", on=0, labels={"app": place.word}))
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": place.word}}}
    place.create(place.pod(affinity={"podAntiAffinity": {REQUIRED: [term]}}))
    says = ("didn't match pod anti-affinity rules", f"delete pod {place.namespace}/old")
    return Trouble(steps=(Step(says=says, never=("taint",)),))


def claim(place: Place) -> Trouble:
    """Decoy: a node is cordoned. fathom provides no volumes: the command creates one with the claim."""
    place.cordon(1)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": place.word}}
    place.create(place.pod(volumes=[volume]))
    says = (
        f'persistentvolumeclaim "{place.word}" not found',
        f"create PersistentVolumeClaim {place.word}",
    )
    return Trouble(steps=(Step(says=says, never=("cordon",)),))


def resource_quota(place: Place) -> Trouble:
    """Decoys: another quota that is nearly full, and a node that is cordoned."""
    place.cordon(1)
    place.kubectl.ok("create quota names --hard=count/configmaps=2")
    place.kubectl.ok(f"create quota {place.word} --hard=pods=1")
    place.create(place.deployment())
    place.kubectl.ok("scale deployment/web --replicas=3")
    says = ("refused by quota", f"exceeded quota: {place.word}", f"ResourceQuota {place.word}")
    return Trouble(subject="deployment/web", steps=(Step(says=says, never=("names", "cordon")),))


def paused_by_an_override(place: Place) -> Trouble:
    """Decoy: a node is cordoned."""
    place.cordon(1)
    place.create(place.deployment())
    place.kubectl.ok("wait deployment/web --for=condition=Available --timeout=40s")
    place.create(
        own("SchedulerOverride", place.word, target="deployment/web", scope="cluster", reason="a drill",
            expiresAfter="10m", changes={"pauseRollout": True})
    )  # fmt: skip
    place.kubectl.ok("set image deployment/web main=app:2")
    says = ("is paused", f"the override {place.word} pauses its rollout", "end the override")
    return Trouble(subject="deployment/web", steps=(Step(says=says, never=("cordon",)),))


def scheduler_of_another_name(place: Place) -> Trouble:
    """Decoy: a node is cordoned."""
    place.cordon(1)
    place.create(place.pod(schedulerName=place.word))
    says = (f"no scheduler named '{place.word}'", f"start a scheduler named {place.word}")
    return Trouble(steps=(Step(says=says, never=("cordon",), background=True),))


def crowded(place: Place, *, slow_s: float) -> str:
    """A node that a pod of low priority fills, which takes its time to end. The other node is cordoned."""
    place.cordon(1)
    script = json.dumps({**json.loads(AT_ONCE), "stop_s": slow_s})
    place.placed(place.pod("low", cpu=7, on=0, script=script))
    place.kubectl.ok("wait pod/low --for=condition=Ready --timeout=40s")
    return place.priority_class()


def preemption_under_way(place: Place) -> Trouble:
    """Decoy: the other node is cordoned."""
    high = crowded(place, slow_s=4)
    place.create(place.pod(cpu=6, priorityClassName=high))
    evicted = f"{place.namespace}/low is being evicted from {place.nodes[0]} for it"
    return Trouble(
        steps=(Step(says=(evicted, "wait for the eviction to end"), never=("uncordon",), waits=True),)
    )


def preempted_victim(place: Place) -> Trouble:
    """Decoy: its node is cordoned, as if somebody drained it."""
    high = crowded(place, slow_s=6)
    place.create(place.pod(cpu=6, priorityClassName=high))
    until(lambda: bool(place.get("low")["metadata"].get("deletionTimestamp")), place.cluster.logs)
    place.cordon(0)
    says = (
        f"is being preempted: pod {place.namespace}/web of priority",
        f"takes its place on {place.nodes[0]}",
    )
    return Trouble(subject="pod/low", steps=(Step(says=says, never=("cordon",), waits=True),), wanted="")


def room_held_for_others(place: Place) -> Trouble:
    """Decoy: a taint on the other node. A pod of higher priority gets the room as soon as it is free. The pod
    selects its node in two ways, so that no single change lets it go elsewhere."""
    script = json.dumps({**json.loads(AT_ONCE), "stop_s": 600})
    place.taint(1)
    place.placed(place.pod("low", cpu=7, on=0, script=script, terminationGracePeriodSeconds=600))
    place.create(place.pod("vip", cpu=8, priorityClassName=place.priority_class()))
    until(lambda: bool(place.get("vip").get("status", {}).get("nominatedNodeName")), place.cluster.logs)
    of_pool = {"matchExpressions": [{"key": POOL, "operator": "In", "values": [place.word]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [of_pool]}}
    place.create(place.pod(cpu=2, on=0, affinity={"nodeAffinity": required}))

    def end_both() -> None:
        place.kubectl.ok("delete pod vip --wait=false")
        place.kubectl.run("delete pod low --force --grace-period=0")

    says = ("too little free cpu", f"room on {place.nodes[0]} is held for pod {place.namespace}/vip")
    return Trouble(steps=(Step(says=says, never=("taint",), waits=True, act=end_both),))


TROUBLES: dict[str, Callable[[Place], Trouble]] = {
    make.__name__.replace("_", " "): make
    for make in (
        gate, tenant_quota, topology_spread, taint, taint_of_a_deployment, node_affinity, wrong_selector,
        resources, host_port, policy, override, cordon, pod_affinity, pod_anti_affinity, claim,
        resource_quota, paused_by_an_override, scheduler_of_another_name, preemption_under_way,
        preempted_victim, room_held_for_others,
    )
}  # fmt: skip


# The cluster.


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("parts"), nodes=2 * len(TROUBLES) + 2, zones=ZONES)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def pools(parts: Cluster) -> Iterator[tuple[str, str]]:
    names = [f"node-{number}" for number in range(1, 2 * len(TROUBLES) + 3)]
    return iter(list(zip(names[::2], names[1::2], strict=True)))


@pytest.fixture
def place(
    parts: Cluster,
    kubectl_binary: str,
    pools: Iterator[tuple[str, str]],
    kubectl_home: Path,
    record_property: Callable[[str, Any], None],
) -> Iterator[Place]:
    seed = random.SystemRandom().randrange(1 << 32)
    record_property("seed", seed)
    admin = Kubectl(kubectl_binary, parts.data / "kubeconfig", kubectl_home)
    drawn = Place(parts, admin, next(pools), random.Random(seed))
    yield drawn
    for process in drawn.background:
        process.terminate()
        process.wait(20)


@pytest.fixture
def ask(parts: Cluster, place: Place, capsys: pytest.CaptureFixture[str]) -> Ask:
    return asking(parts.data / "kubeconfig", place.namespace, capsys)


DEEP = ("taint of a deployment", "scheduler of another name", "room held for others", "pod anti affinity")


@pytest.mark.parametrize("name", table(TROUBLES, deep=DEEP))
def test_the_first_line_names_the_cause_and_the_change_gives_the_pod_a_node(
    name: str, place: Place, ask: Ask, record_property: Callable[[str, Any], None]
) -> None:
    trouble = TROUBLES[name](place)
    record_property(READY_S, (name, solve(trouble, ask, place, place.cluster.logs)))


def test_whatever_is_stuck_is_listed_worst_first_and_wide_output_has_every_node(
    place: Place, ask: Ask
) -> None:
    """What people have paused comes last. A workload stands for its pods."""
    place.create(place.deployment("calm"), place.deployment("well"))
    place.kubectl.ok("wait deployment --all --for=condition=Available --timeout=40s")
    assert ask("why") == (0, "nothing is stuck\n")
    place.kubectl.ok("rollout pause deployment/calm")
    place.kubectl.ok("set image deployment/calm main=app:2")
    place.create(place.pod("big", cpu=NODE_CPU + 1))
    answer_with("pod/big", Step(says=("too little free cpu",)), ask, place.cluster.logs)
    answer_with("deployment/calm", Step(says=("is paused",)), ask, place.cluster.logs)
    code, text = ask("why")
    first, last = [line for line in text.splitlines() if not line.startswith("  $ ")]
    assert code == 1
    assert first.startswith(f"pod {place.namespace}/big is not scheduled: ")
    assert f"{place.namespace}/calm is paused" in last
    wide = ask("why", "pod/big", "-o", "wide")[1]
    rows = {line.split()[0] for line in wide.splitlines() if line.startswith("  node-")}
    assert rows == {f"node-{number}" for number in range(1, 2 * len(TROUBLES) + 3)}
