"""Why a pod waits, told on a running cluster by `fathom why`: each rule, how many nodes it rejects, which
they are; and who is woken when the reason goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.clients.kubectl import Kubectl
from tests.cluster.living import Cluster, Obj
from tests.cluster.programs import own, pod

from fathom.cli.main import run

READY_IN = "--timeout=40s"
Why = Callable[[str], list[str]]

ALL = "node-1, node-2, node-3"


@pytest.fixture
def why(cluster: Cluster, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> Why:
    def ask(name: str) -> list[str]:
        capsys.readouterr()
        run(["why", f"pod/{name}", "-n", kubectl.namespace, "--kubeconfig", str(cluster.data / "kubeconfig")])
        return capsys.readouterr().out.splitlines()

    return ask


def waits(kubectl: Kubectl, name: str) -> None:
    """The scheduler has looked, and found nothing."""
    kubectl.ok(f"wait pod/{name} --for=condition=PodScheduled=False {READY_IN}")


def affinity() -> Obj:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "nobody"}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(name: str) -> Obj:
    return {
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}}, "minDomains": 9,
    }  # fmt: skip


REASONS = {
    "selector": (
        pod("selector", nodeSelector={"disk": "none"}),
        f"3  NodeAffinity: node(s) didn't match Pod's node affinity/selector: {ALL}",
    ),
    "resources": (
        pod("resources", of={"resources": {"requests": {"cpu": "900"}}}),
        f"3  NodeResourcesFit: Insufficient cpu: {ALL}",
    ),
    "affinity": (
        pod("affinity", affinity=affinity()),
        f"3  InterPodAffinity: node(s) didn't match pod affinity rules: {ALL}",
    ),
}  # fmt: skip


def test_every_rule_is_named_with_its_count_and_its_nodes(kubectl: Kubectl, why: Why) -> None:
    kubectl.create(*(made for made, _ in REASONS.values()))
    for name, (_, line) in REASONS.items():
        waits(kubectl, name)
        told = why(name)
        assert "is not scheduled: 3 of 3 nodes " in told[0]
        assert line in [one.strip() for one in told]


def test_ports_and_spread_count_who_is_there(kubectl: Kubectl, why: Why) -> None:
    port = {"ports": [{"containerPort": 80, "hostPort": 18099}]}
    labels = {"app": "spread"}
    kubectl.create(
        *(pod(f"port-{number}", of=port) for number in range(3)),
        *(pod(f"spread-{n}", labels=labels, topologySpreadConstraints=[spread("spread")]) for n in range(3)),
    )
    kubectl.ok(f"wait pods --all --for=condition=Ready {READY_IN}")
    kubectl.create(
        pod("port", of=port), pod("spread", labels=labels, topologySpreadConstraints=[spread("spread")])
    )
    waits(kubectl, "port")
    waits(kubectl, "spread")
    taken = f"3  NodePorts: node(s) didn't have free ports for the requested pod ports: {ALL}"
    assert taken in [one.strip() for one in why("port")]
    uneven = f"3  PodTopologySpread: node(s) didn't match pod topology spread constraints: {ALL}"
    assert uneven in [one.strip() for one in why("spread")]
    kubectl.ok("delete pod port-1")
    kubectl.ok(f"wait pod/port --for=condition=Ready {READY_IN}")
    woken = next(line for line in why("port") if "woken by" in line)
    assert f"pods {kubectl.namespace}/port-1 PodGone" in woken


def test_a_gate_holds_a_pod_until_it_is_opened(kubectl: Kubectl, why: Why) -> None:
    kubectl.create(pod("gated", schedulingGates=[{"name": "example.com/ready"}]))
    waits(kubectl, "gated")
    assert "Change: remove the scheduling gate example.com/ready" in why("gated")[0]
    kubectl.ok("patch pod gated --type=json", "-p", '[{"op":"remove","path":"/spec/schedulingGates/0"}]')
    kubectl.ok(f"wait pod/gated --for=condition=Ready {READY_IN}")


def test_a_quota_is_named_and_who_it_holds_back_is_woken_when_it_grows(kubectl: Kubectl, why: Why) -> None:
    space, shared = kubectl.namespace, kubectl.within("")
    shared.create(own("TenantQuota", space, limits=[{"resources": {"pods": 1}}]))
    kubectl.create(pod("first"))
    kubectl.ok(f"wait pod/first --for=condition=Ready {READY_IN}")
    kubectl.create(pod("second"), pod("never", nodeSelector={"disk": "none"}))
    waits(kubectl, "second")
    waits(kubectl, "never")
    told = why("second")
    assert f"3  TenantQuota: quota/{space}: {ALL}" in [one.strip() for one in told]
    assert f"Change: raise pods of quota/{space} from 1 to 2" in told[0]
    before = next(line for line in why("never") if "attempt" in line)
    shared.ok(
        f"patch tenantquota {space} --type=merge", "-p", '{"spec":{"limits":[{"resources":{"pods":2}}]}}'
    )
    kubectl.ok(f"wait pod/second --for=condition=Ready {READY_IN}")
    assert f"woken by event: tenantquotas.fathom.dev {space} QuotaChanged" in next(
        line for line in why("second") if "woken by" in line
    )
    assert next(line for line in why("never") if "attempt" in line) == before
    shared.ok(f"delete tenantquota {space}")


@pytest.mark.full
def test_an_override_is_named_and_holds_for_its_time(kubectl: Kubectl, why: Why) -> None:
    avoid = own("SchedulerOverride", "avoid", target="workload/held", scope="cluster", reason="a drill",
                expiresAfter="6s", changes={"avoidZones": ["a", "b"]})  # fmt: skip
    kubectl.create(avoid)
    kubectl.create(pod("held"))  # A pod without an owner is a workload of its own.
    waits(kubectl, "held")
    line = next(one.strip() for one in why("held") if "Override:" in one and one.startswith(" "))
    assert line.startswith(f"3  Override: override/{kubectl.namespace}/avoid: node(s) are to be avoided")
    assert line.endswith(ALL)
    kubectl.ok(f"wait pod/held --for=condition=Ready {READY_IN}")
