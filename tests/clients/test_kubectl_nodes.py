"""Nodes and what an operator does to them: cordon, taint, drain."""

from __future__ import annotations

import pytest
from tests.clients.kubectl import Kubectl
from tests.clients.objects import Obj, owned, pod, replica_set
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl


def test_cordon_and_uncordon(cluster: Kubectl, node_name: str) -> None:
    assert cluster.ok(f"cordon {node_name}") == f"node/{node_name} cordoned\n"
    assert cluster.ok(f"cordon {node_name}") == f"node/{node_name} already cordoned\n"
    made = cluster.json(f"get node {node_name}")
    assert made["spec"]["unschedulable"] is True
    assert cluster.ok(f"uncordon {node_name}") == f"node/{node_name} uncordoned\n"
    assert cluster.ok(f"uncordon {node_name}") == f"node/{node_name} already uncordoned\n"
    assert cluster.json(f"get node {node_name}")["spec"].get("unschedulable") is None
    assert cluster.fails("cordon none") == ('Error from server (NotFound): nodes "none" not found')


def test_taints(cluster: Kubectl, node_name: str) -> None:
    taint = f"taint node {node_name}"
    assert cluster.ok(f"{taint} a=b:NoSchedule") == f"node/{node_name} tainted\n"
    said = cluster.fails(f"{taint} a=c:NoSchedule")
    assert said.startswith(f"error: node {node_name} already has a taint(s)")
    assert cluster.ok(f"{taint} a=c:NoSchedule --overwrite") == f"node/{node_name} modified\n"
    assert cluster.ok(f"{taint} gone:NoExecute") == f"node/{node_name} tainted\n"
    taints = cluster.json(f"get node {node_name}")["spec"]["taints"]
    assert sorted((made["key"], made.get("value"), made["effect"]) for made in taints) == [
        ("a", "c", "NoSchedule"),
        ("gone", None, "NoExecute"),
    ]
    assert cluster.ok(f"{taint} a- gone-") == f"node/{node_name} untainted\n"
    assert "taints" not in cluster.json(f"get node {node_name}")["spec"]
    assert cluster.fails(f"{taint} a-") == 'error: taint "a" not found'
    assert cluster.fails(f"{taint} a=b:Nonsense").startswith("error: invalid taint effect: Nonsense")


@pytest.fixture
def workers(kubectl: Kubectl, server: Server, node_name: str) -> Kubectl:
    """Two healthy pods of a replica set, bound to the node."""
    kubectl.create(replica_set("web", replicas=2))
    owner: Obj = kubectl.json("get rs web")
    for name in ("web-a", "web-b"):
        kubectl.create(owned(pod(name, node=node_name, labels={"app": "web"}), owner))
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        server.patch(f"/api/v1/namespaces/{kubectl.namespace}/pods/{name}/status", {"status": status})
    return kubectl


def test_drain_evicts_what_a_controller_can_make_again(
    workers: Kubectl, cluster: Kubectl, node_name: str
) -> None:
    done = cluster.run(f"drain {node_name} --timeout=20s")
    assert done.code == 0, done
    lines = done.out.splitlines()
    assert lines[0] == f"node/{node_name} cordoned"
    assert sorted(lines[1:3]) == [f"evicting pod {workers.namespace}/web-{one}" for one in "ab"]
    assert sorted(lines[3:5]) == [f"pod/web-{one} evicted" for one in "ab"]
    assert lines[5] == f"node/{node_name} drained"
    assert workers.ok("get pods -o name") == ""


def test_drain_refuses_what_nobody_would_make_again(
    workers: Kubectl, cluster: Kubectl, namespace: str, node_name: str
) -> None:
    workers.create(pod("bare", node=node_name))
    done = cluster.run(f"drain {node_name} --timeout=5s")
    assert done.code == 1
    why = f"cannot delete Pods that declare no controller (use --force to override): {namespace}/bare"
    assert done.err.startswith(f'error: unable to drain node "{node_name}" due to error: ')
    assert f"There are pending nodes to be drained:\n {node_name}\n" in done.err
    assert done.err.endswith(f"{why}\n")
    done = cluster.run(f"drain {node_name} --force --timeout=20s")
    assert done.code == 0, done
    assert f"Warning: deleting Pods that declare no controller: {namespace}/bare\n" in done.err


def test_a_disruption_budget_holds_a_drain(
    workers: Kubectl, cluster: Kubectl, server: Server, namespace: str, node_name: str
) -> None:
    workers.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
        }
    )
    status = {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2}
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web/status"
    server.patch(path, {"status": {**status, "observedGeneration": 1}})
    with cluster.started(f"drain {node_name}") as draining:
        draining.matching(
            r'error when evicting pods/"web-[ab]" -n "\S+" \(will retry after 5s\): '
            r"Cannot evict pod as it would violate the pod's disruption budget\."
        )
    assert workers.ok("get pods -o name") == "pod/web-a\npod/web-b\n"
    server.patch(path, {"status": {"disruptionsAllowed": 2, "currentHealthy": 4}})
    assert cluster.run(f"drain {node_name} --timeout=20s").code == 0
    assert server.request("GET", path)["status"]["disruptionsAllowed"] == 0


def test_daemon_pods_are_left_alone(
    kubectl: Kubectl, cluster: Kubectl, namespace: str, node_name: str
) -> None:
    spec = replica_set("d")["spec"]
    daemon = {"selector": spec["selector"], "template": spec["template"]}
    kubectl.create({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": daemon})
    kubectl.create(owned(pod("d-1", node=node_name), kubectl.json("get ds d")))
    done = cluster.run(f"drain {node_name} --timeout=5s")
    assert "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)" in done.err
    done = cluster.run(f"drain {node_name} --ignore-daemonsets --timeout=5s")
    assert (done.code, done.err) == (0, f"Warning: ignoring DaemonSet-managed Pods: {namespace}/d-1\n")
    assert kubectl.ok("get pods -o name") == "pod/d-1\n"
