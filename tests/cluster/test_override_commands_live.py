"""An override from its creation to its proof, by the command line alone, on a running cluster."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable

import pytest
from tests.clients.kubectl import Kubectl
from tests.cluster.living import Cluster
from tests.cluster.programs import deployment

from fathom.cli.main import run

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("fathom.controllers.overrides") is None,
    reason="nobody acknowledges or ends overrides without the override controller",
)

Fathom = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def fathom(cluster: Cluster, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> Fathom:
    def typed(*words: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        config = str(cluster.data / "kubeconfig")
        code = run([*words, "-n", kubectl.namespace, "--kubeconfig", config])
        shown = capsys.readouterr()
        return code, [*shown.out.splitlines(), *shown.err.splitlines()]

    return typed


def zones_of(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Pod -> the zone that it is in."""
    nodes = {
        node["metadata"]["name"]: node["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for node in cluster.ask("GET", "/api/v1/nodes")["items"]
    }
    pods = cluster.ask("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {pod["metadata"]["name"]: nodes[pod["spec"]["nodeName"]] for pod in pods}


def test_an_override_is_acknowledged_honoured_named_and_proven_over(
    cluster: Cluster, kubectl: Kubectl, fathom: Fathom
) -> None:
    namespace = kubectl.namespace
    kubectl.create(deployment("web", replicas=1))
    kubectl.ok("rollout status deployment/web --timeout=60s")
    flags = ("--target=workload/web", "--scope=cluster", "--reason=zone a is stale", "--for=20m")
    code, shown = fathom(
        "override", "create", "avoid-a", *flags, "--avoid-zone=a", "--pause-rollout", "--yes", "--wait"
    )
    who = "scheduler, deployment-controller"
    assert (code, shown[:2]) == (
        0,
        [
            "scheduleroverride.fathom.dev/avoid-a created",
            f"override {namespace}/avoid-a: Active, acknowledged by {who}",
        ],
    )
    row = fathom("override", "list")[1][1].split()
    assert [*row[:3], *row[5:]] == [
        "avoid-a", "workload/web", "pauseRollout,avoidZones", "2/2", "Active",
    ]  # fmt: skip
    old = zones_of(cluster, namespace)
    kubectl.ok("scale deployment/web --replicas=4")
    kubectl.ok("wait deployment/web --for=jsonpath={.status.readyReplicas}=4 --timeout=60s")
    new = [zone for pod, zone in zones_of(cluster, namespace).items() if pod not in old]
    assert new == ["b", "b", "b"]
    line = r"override avoid-a \(by fathom-admin, ends in \S+\) is active for this workload: "
    assert re.fullmatch(f"{line}pauseRollout, avoidZones", fathom("status", "deployment/web")[1][2])
    code, shown = fathom("override", "end", "avoid-a", "--yes", "--wait", "--timeout", "4m")
    assert (code, shown) == (
        0,
        [
            "scheduleroverride.fathom.dev/avoid-a is ending",
            f"override {namespace}/avoid-a has ended, and it is proven that nothing is left of it",
        ],
    )
