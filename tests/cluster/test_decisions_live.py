"""A real cluster: after a rollout, an eviction, a preemption and a drain, every write of ours has its
decision on record, and the audit log says which part of the control plane made it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.living import Cluster, until

from fathom.model.accounts import is_own
from fathom.model.audit import AuditEntry
from fathom.model.decision import KeptDecision
from fathom.model.user import User
from fathom.record.audit_reading import read_entries
from fathom.record.journal import read_journal

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
# Nodes of simulated containers have 8 CPUs each.
CPU, URGENT_CPU = "2", "7"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, "--nodes", "3", "--driver", "simulated")
    try:
        cluster.start()
        yield cluster
        if cluster.process.poll() is None:
            cluster.stop()
    finally:
        cluster.end()


def deployment(replicas: int, word: str) -> dict[str, Any]:
    container = {"name": "web", "image": f"web:{word}", "resources": {"requests": {"cpu": CPU}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
            },
        },
    }


def roll_out(cluster: Cluster) -> None:
    cluster.ask("POST", DEPLOYMENTS, deployment(6, "one"))
    cluster.until_ready("web", 6)
    cluster.patch(f"{DEPLOYMENTS}/web", deployment(6, "two"))
    until(
        lambda: {pod["spec"]["containers"][0]["image"] for pod in cluster.pods("web")} == {"web:two"},
        cluster.told,
    )
    cluster.until_ready("web", 6)


def evict(cluster: Cluster, pod: dict[str, Any]) -> None:
    name = pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    cluster.ask("POST", f"{PODS}/{name}/eviction", eviction)


def preempt(cluster: Cluster) -> None:
    """A pod that fits only where others leave."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 9,
    }
    cluster.ask("POST", classes, high)
    container = {"name": "c", "image": "urgent:1", "resources": {"requests": {"cpu": URGENT_CPU}}}
    spec = {"priorityClassName": "high", "containers": [container], "terminationGracePeriodSeconds": 1}
    meta = {"name": "urgent", "labels": {"app": "urgent"}}
    cluster.ask("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    cluster.until_ready("urgent", 1)


def drain(cluster: Cluster, node: str) -> None:
    cluster.patch(f"{NODES}/{node}", {"spec": {"unschedulable": True}})
    for pod in cluster.pods("web"):
        if pod["spec"].get("nodeName") == node:
            evict(cluster, pod)
    until(
        lambda: not [pod for pod in cluster.pods("web") if pod["spec"].get("nodeName") == node], cluster.told
    )


def _waits(cluster: Cluster) -> bool:
    """Whether some pod has been told that it has no node: there is not enough room any more."""
    return any(
        condition["type"] == "PodScheduled" and condition["status"] == "False"
        for pod in cluster.pods("web")
        for condition in pod["status"].get("conditions", ())
    )


def journals(cluster: Cluster) -> dict[str, KeptDecision]:
    folders = (cluster.data / "journal").iterdir()
    return {kept.decision.id: kept for folder in folders for kept in read_journal(folder)}


def decides_nothing(entry: AuditEntry) -> bool:
    """Leases, Events, and heartbeats: a node's status in which only the time changed."""
    if entry.resource in {"leases.coordination.k8s.io", "events"}:
        return True
    return (entry.resource, entry.subresource) == ("nodes", "status") and not entry.decision


def ours(cluster: Cluster) -> list[AuditEntry]:
    return [
        entry
        for entry in read_entries(cluster.data / "audit")
        if is_own(User(entry.user, entry.groups)) and entry.wrote and not decides_nothing(entry)
    ]


def test_every_write_of_a_cluster_has_its_decision_on_record(cluster: Cluster) -> None:
    roll_out(cluster)
    evict(cluster, cluster.pods("web")[0])
    cluster.until_ready("web", 6)
    preempt(cluster)
    cluster.until_ready("web", 6)
    drain(cluster, cluster.pods("web")[0]["spec"]["nodeName"])
    until(lambda: _waits(cluster), cluster.told)
    cluster.ask("DELETE", f"{DEPLOYMENTS}/web")
    until(lambda: cluster.pods("web") == [], cluster.told)
    cluster.stop()  # Everything is written then.
    decisions, entries = journals(cluster), ours(cluster)
    assert [entry for entry in entries if entry.decision not in decisions] == []
    assert [entry for entry in entries if not entry.actor] == []
    assert {entry.actor for entry in entries} >= {
        "scheduler",
        "scheduler/endpoint",
        "gateway/endpoint",
        "controllers/deployments",
        "controllers/replicasets",
        "agent/node-1",
        "agent/node-2",
        "agent/node-3",
        "housekeeping/bootstrap",
        "housekeeping/garbage-collector",
    }
    bindings = [entry for entry in entries if entry.subresource == "binding"]
    assert len(bindings) > 12
    assert {decisions[entry.decision].decision.verdict for entry in bindings} == {"bind"}
    victims = [
        entry
        for entry in entries
        if (entry.actor, entry.resource, entry.verb) == ("scheduler", "pods", "delete")
    ]
    assert victims
    assert {decisions[entry.decision].decision.verdict for entry in victims} == {"preempt"}
    conditions = [entry for entry in entries if (entry.actor, entry.subresource) == ("scheduler", "status")]
    assert {decisions[entry.decision].decision.verdict for entry in conditions} >= {"unschedulable"}
    unstated = [entry for entry in entries if decisions[entry.decision].decision.cause.kind == "unstated"]
    assert unstated == []
