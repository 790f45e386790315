"""What is written down of attempts: every node's reason can be had back, and it stays small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fathom.model.cause import WakeCause
from fathom.model.decision import Decision, SeenVersions
from fathom.record.journal import DiskJournal, node_reasons, read_journal
from fathom.schedule.decide.pods import PodView
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.schedule.loop.decision_records import BatchContext, Recorder
from fathom.schedule.loop.queue import QueueEntry, WaitingPod

ZONE = "topology.kubernetes.io/zone"
SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


def cluster(nodes: int) -> ClusterView:
    known = ClusterView()
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    for number in range(nodes):
        labels = {ZONE: f"zone-{number % 3}", "kubernetes.io/hostname": f"n{number}"}
        node = {"metadata": {"name": f"n{number}", "labels": labels}, "status": {"allocatable": room}}
        known.put("Node", None, node)
    return known


def views(known: ClusterView, count: int, *, cpu: str, **spec: Any) -> list[PodView]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return [
        known.view(
            {
                "metadata": {"name": f"p{n}", "namespace": "a", "uid": f"u{n}", "labels": {"app": "web"}},
                "spec": {"containers": [container], **spec},
            }
        )
        for n in range(count)
    ]


def record(
    known: ClusterView, pods: list[PodView], directory: Path
) -> tuple[list[Decision], DiskJournal, list[Any]]:
    journal = DiskJournal(directory)
    recorder = Recorder(journal, prefix="t", controller="scheduler")
    context = known.context(pods[0], now_ns=0)
    seen = {"Pod": SeenVersions(9, 1)}
    around = BatchContext(5, 7, seen, seen, 3, "any", context, consulted=known.consulted.under(context))
    placements = known.decider.place_batch(pods, context)
    for pod, placement in zip(pods, placements, strict=True):
        waiting = WaitingPod(pod.uid, pod.key, pod.shape, pod.tenant, 0, 0)
        entry = QueueEntry(waiting, "in-hand", WakeCause("event", "it came"), 0, 0, attempt=1)
        verdict = "bind" if placement.node else "unschedulable"
        recorder.decided(
            entry, pod, placement, around,
            verdict=verdict, names=known.table.names, nodes_version=known.table.nodes_version,
        )  # fmt: skip
    journal.close()
    return [kept.decision for kept in read_journal(directory)], journal, placements


@pytest.mark.parametrize("spec", [{}, {"topologySpreadConstraints": [SPREAD]}], ids=["plain", "spread"])
def test_every_nodes_reason_at_every_decision_can_be_had_back(tmp_path: Path, spec: dict[str, Any]) -> None:
    known = cluster(7)
    decisions, _, placements = record(known, views(known, 20, cpu="2", **spec), tmp_path)
    assert len(decisions) == 20
    for decision, placement in zip(decisions, placements, strict=True):
        listed = placement.verdicts.reasons()
        expected = {
            name: f"{listed[code].rule}: {', '.join(listed[code].texts)}" if code else ""
            for name, code in zip(known.table.names, placement.verdicts.codes().tolist(), strict=True)
        }
        assert node_reasons(tmp_path, decision) == expected
        assert decision.node == (placement.node or "")


def test_a_decision_takes_less_than_a_kilobyte_over_many(tmp_path: Path) -> None:
    known = cluster(2000)
    _, journal, _ = record(known, views(known, 1000, cpu="100m"), tmp_path)
    assert journal.bytes / 1000 < 1024
    assert sum(path.stat().st_size for path in tmp_path.glob("*.seg")) / 1000 < 300


def test_a_decision_says_who_why_and_from_what(tmp_path: Path) -> None:
    known = cluster(2)
    (decision,), _, _ = record(known, views(known, 1, cpu="9"), tmp_path)
    assert (decision.subject.name, decision.attempt, decision.cause) == (
        "p0", 1, WakeCause("event", "it came"),
    )  # fmt: skip
    assert (decision.verdict, decision.filters, decision.nodes) == (
        "unschedulable",
        {"Insufficient cpu": 2},
        2,
    )
    assert (decision.epoch, decision.need, decision.seen) == (3, "any", {"Pod": SeenVersions(9, 1)})
    assert decision.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_a_rule_is_decisive_by_its_reasons_and_not_by_words_in_others(tmp_path: Path) -> None:
    """A taint may be named after anything."""
    known = cluster(1)
    spec = {"taints": [{"key": "quota-policy", "value": "strict", "effect": "NoSchedule"}]}
    known.put("Node", None, {"metadata": {"name": "n0"}, "spec": spec})
    limit = {"resources": {"cpu": "100"}}
    quota = {"metadata": {"name": "a"}, "spec": {"limits": [limit]}}
    known.put("TenantQuota", None, quota)
    decisions, _, _ = record(known, views(known, 1, cpu="1"), tmp_path)
    (decision,) = decisions
    assert [one.decisive for one in (*decision.policies, *decision.quotas)] == [False, False]
