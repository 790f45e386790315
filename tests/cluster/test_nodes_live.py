"""Nodes, priorities and disruption on a running cluster, with kubectl."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.clients.kubectl import Kubectl, eventually
from tests.cluster.living import Cluster
from tests.cluster.programs import deployment, pod

READY_IN = "--timeout=40s"
NODES = ("node-1", "node-2", "node-3")


@pytest.fixture(autouse=True)
def tidy(cluster: Cluster) -> Iterator[None]:
    """The nodes belong to all tests."""
    yield
    for node in NODES:
        cluster.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None, "taints": None}})


def on(name: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": name}


def test_a_drain_waits_for_the_budget(kubectl: Kubectl) -> None:
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "kept"}}},
    }  # fmt: skip
    kubectl.create(deployment("kept", replicas=2), budget)
    kubectl.ok(f"rollout status deployment/kept {READY_IN}")
    eventually(lambda: kubectl.value("get pdb kept", ".status.currentHealthy") == "2")
    node = kubectl.json("get pods")["items"][0]["spec"]["nodeName"]
    drain = f"drain {node} --ignore-daemonsets --force --pod-selector=app=kept"
    refused = kubectl.within("").run(f"{drain} --timeout=1s")
    assert refused.code == 1
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused.err
    kubectl.ok("patch pdb kept --type=merge", "-p", '{"spec":{"minAvailable":1}}')
    eventually(lambda: kubectl.value("get pdb kept", ".status.disruptionsAllowed") == "1")
    assert kubectl.within("").run(f"{drain} --timeout=30s").code == 0
    kubectl.ok(f"rollout status deployment/kept {READY_IN}")
    assert node not in {one["spec"]["nodeName"] for one in kubectl.json("get pods")["items"]}


@pytest.mark.full
def test_a_taint_drives_away_who_does_not_bear_it_when_their_time_is_over(kubectl: Kubectl) -> None:
    def bears(**more: object) -> list[dict[str, object]]:
        return [{"key": "bad", "operator": "Exists", "effect": "NoExecute", **more}]

    kubectl.create(
        pod("goes", nodeSelector=on("node-2")),
        pod("later", nodeSelector=on("node-2"), tolerations=bears(tolerationSeconds=3)),
        pod("stays", nodeSelector=on("node-2"), tolerations=bears()),
    )
    kubectl.ok(f"wait pods --all --for=condition=Ready {READY_IN}")
    kubectl.within("").ok("taint node node-2 bad=yes:NoExecute")
    kubectl.run(f"wait pod/goes --for=delete {READY_IN}")
    assert {row["NAME"] for row in kubectl.rows("get pods")} == {"later", "stays"}
    kubectl.run(f"wait pod/later --for=delete {READY_IN}")
    assert [row["NAME"] for row in kubectl.rows("get pods")] == ["stays"]
    told = f"Marking for deletion Pod {kubectl.namespace}/goes: evicted by NoExecute taint bad"
    events = kubectl.json("get events --field-selector involvedObject.name=goes")["items"]
    assert ("TaintManagerEviction", told) in {(one["reason"], one["message"]) for one in events}


def test_a_job_may_say_that_who_was_driven_away_has_not_failed(kubectl: Kubectl) -> None:
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    template = pod("x", nodeSelector=on("node-1"), restartPolicy="Never")
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "patient"},
        "spec": {"backoffLimit": 0, "podFailurePolicy": {"rules": [ignored]},
                 "template": {"spec": template["spec"]}},
    }  # fmt: skip
    kubectl.create(job)

    def running() -> str:
        return kubectl.value(
            "get pods -l job-name=patient --field-selector status.phase=Running", "..metadata.uid"
        )

    eventually(running)
    first = running()
    kubectl.within("").ok("taint node node-1 bad=yes:NoExecute")
    eventually(lambda: running() != first)
    kubectl.within("").ok("taint node node-1 bad-")
    eventually(lambda: running() not in {"", first})
    assert kubectl.value("get job patient", ".status.failed") == ""


def test_who_is_more_important_gets_the_room_and_the_others_are_told(kubectl: Kubectl) -> None:
    whole = kubectl.within("").json("get node node-3")["status"]["allocatable"]["cpu"]
    milli = int(whole[:-1]) if whole.endswith("m") else 1000 * int(whole)
    half = {"resources": {"requests": {"cpu": f"{milli * 6 // 10}m"}}}
    named = f"high-{kubectl.namespace}"
    important = {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": named}, "value": 1000,
    }  # fmt: skip
    kubectl.create(pod("low", of=half, nodeSelector=on("node-3")))
    kubectl.ok(f"wait pod/low --for=condition=Ready {READY_IN}")
    kubectl.within("").create(important)
    kubectl.create(pod("vip", of=half, nodeSelector=on("node-3"), priorityClassName=named))
    kubectl.ok(f"wait pod/vip --for=condition=Ready {READY_IN}")
    assert [row["NAME"] for row in kubectl.rows("get pods")] == ["vip"]
    uid = kubectl.value("get pod vip", ".metadata.uid")

    def told() -> bool:
        events = kubectl.json("get events --field-selector involvedObject.name=low")["items"]
        return ("Preempted", f"Preempted by pod {uid} on node node-3") in {
            (one["reason"], one["message"]) for one in events
        }

    eventually(told)
    kubectl.within("").ok(f"delete priorityclass {named}")
