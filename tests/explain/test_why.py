"""Why a pod is where it is, or nowhere: what was on record, and what would be decided now."""

from __future__ import annotations

from typing import Any

from fathom.explain.why import (
    ExplainedChange,
    NodeGroup,
    ReachedStage,
    Used,
    WhyEvidence,
    explain_gone,
    explain_pod,
)
from fathom.model.cause import WakeCause
from fathom.model.decision import Decision, KeptDecision, Outcome, Rejection, SeenVersions, Subject
from fathom.schedule.loop.cluster_view import ClusterView

Obj = dict[str, Any]


def cluster(**cpu: str) -> ClusterView:
    known = ClusterView()
    for name, amount in cpu.items():
        room = {"cpu": amount, "memory": "8Gi", "pods": "110"}
        known.put("Node", None, {"metadata": {"name": name}, "status": {"allocatable": room}})
    return known


def pod(cpu: str = "2", *, node: str = "", **spec: Any) -> Obj:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    placed = {"nodeName": node} if node else {}
    meta = {"name": "web", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": meta, "spec": {"containers": [container], **placed, **spec}}


def kept(verdict: str, *, node: str = "", message: str = "", **more: Any) -> KeptDecision:
    decision = Decision(
        id="d-1",
        time_ns=0,
        controller="scheduler",
        subject=Subject("pods", "shop", "web", "u"),
        verdict=verdict,
        cause=WakeCause("event", resource="pods", namespace="shop", name="web", revision=3),
        seen={"Node": SeenVersions(7, 20)},
        node=node,
        nodes=2,
        message=message,
        **more,
    )
    return KeptDecision(
        decision, (Outcome(id="d-1", time_ns=1, result="committed", revision=9),) if node else ()
    )


def why(known: ClusterView, obj: Obj, *records: KeptDecision, reasons: dict[str, str] | None = None) -> Any:
    evidence = WhyEvidence(
        pod=obj, kept=records, reasons=reasons, latest={"Node": ReachedStage(12, 6)}, now_ns=0
    )  # fmt: skip
    return explain_pod(evidence, known)


SHORT = "0/2 nodes are available: 2 Insufficient cpu."


def test_a_pod_that_fits_nowhere_is_told_the_rule_and_the_smallest_change() -> None:
    found = why(cluster(a="1", b="1500m"), pod())
    assert (found.state, found.schedulable) == ("unschedulable", False)
    assert found.decisive == "NodeResourcesFit: Insufficient cpu (2 of 2 nodes)"
    assert isinstance(found.change, ExplainedChange)
    assert found.change.rule == "NodeResourcesFit"
    assert "b lacks 500m cpu" in found.change.what  # The nearest of the two.
    assert found.summary.startswith(f"pod shop/web is not schedulable: {SHORT} Decisive: NodeResourcesFit")
    assert found.groups == (NodeGroup("NodeResourcesFit: Insufficient cpu", 2, ("a", "b")),)
    assert "PodGone" in found.next_trigger


def test_the_same_answer_now_as_on_record_does_not_differ() -> None:
    record = kept("unschedulable", message=SHORT)
    found = why(cluster(a="1", b="1"), pod(), record, reasons={"a": "Old: reason", "b": ""})
    assert found.now is not None
    assert not found.now.differs
    assert found.groups == (NodeGroup("Old: reason", 1, ("a",)),)
    assert found.freshness == (Used("Node", 7, 12, 20, 6),)


def test_a_view_that_was_stale_shows_in_another_answer_now() -> None:
    found = why(cluster(a="1", b="4"), pod(), kept("unschedulable", message=SHORT))
    assert found.now is not None
    assert (found.state, found.schedulable, found.now.node, found.now.differs) == ("waiting", True, "b", True)
    assert found.summary == (
        f"pod shop/web fits b now, though it did not when it was last tried ({SHORT}): it waits for its turn"
    )


def test_a_binding_that_was_refused_is_not_passed_over() -> None:
    refused = Outcome(id="d-1", time_ns=1, result="conflict", message="QuotaExceeded: quota/risk")
    record = KeptDecision(kept("bind", node="b").decision, (refused,))
    assert why(cluster(a="1", b="4"), pod(), record).summary == (
        "pod shop/web fits b now, though its last binding was refused (QuotaExceeded: quota/risk):"
        " it waits for its turn"
    )


def test_a_gated_pod_waits_for_its_gates() -> None:
    found = why(cluster(a="4"), pod(schedulingGates=[{"name": "x/y"}]))
    assert (found.state, found.decisive, found.next_trigger) == (
        "gated", "SchedulingGates (x/y)", "its gates are removed",
    )  # fmt: skip
    assert found.change == ExplainedChange(
        "remove the scheduling gates x/y", "the pod's owner", "SchedulingGates"
    )


def test_a_pod_on_its_node_is_told_why_there() -> None:
    record = kept("bind", node="a", scores={"a": 120, "b": 120})
    found = why(cluster(a="4", b="4"), pod(node="a"), record)
    assert (found.state, found.schedulable, found.node) == ("scheduled", True, "a")
    assert found.summary == (
        "pod shop/web is on a: the best of 2 nodes that fit, with 120 points (others: b 120); decision d-1"
    )
    assert found.attempt is not None
    assert found.attempt.outcome == "committed at 9"


def test_a_pod_that_somebody_else_placed_is_said_to_be_so() -> None:
    found = why(cluster(a="4"), pod(node="a"))
    assert found.summary == "pod shop/web is on a: no decision on record here placed it"


def test_the_place_in_line_is_the_one_on_record() -> None:
    record = kept("unschedulable", message=SHORT, place=(2, 20))
    assert why(cluster(a="1", b="1"), pod(), record).queue == (2, 20)
    assert why(cluster(a="1", b="1"), pod(), kept("unschedulable", message=SHORT)).queue is None
    assert why(cluster(a="1", b="1"), pod()).queue is None


def test_the_same_counts_are_the_same_answer_whatever_preemption_said_too() -> None:
    message = f"{SHORT} preemption: 0/2 nodes are available: 2 No preemption victims found."
    record = kept("unschedulable", message=message, filters={"Insufficient cpu": 2})
    now = why(cluster(a="1", b="1"), pod(), record).now
    assert now is not None
    assert not now.differs
    other = kept("unschedulable", message=message, filters={"Insufficient memory": 2})
    now = why(cluster(a="1", b="1"), pod(), other).now
    assert now is not None
    assert now.differs


def test_the_rules_in_the_way_are_told_as_data() -> None:
    found = why(cluster(a="1", b="1500m"), pod())
    assert found.rejected == (Rejection("NodeResourcesFit", "capacity", 2, "AddCapacity", "capacity"),)
    gated = why(cluster(a="4"), pod(schedulingGates=[{"name": "x/y"}]))
    assert gated.rejected == (Rejection("SchedulingGates", "gate", 0, "OpenGate", "gate"),)
    assert why(cluster(), pod()).rejected == (Rejection("", "nodes", 0, "AddNode", "nodes"),)


def test_a_quiet_kind_is_as_new_as_its_list_and_not_as_its_newest_object() -> None:
    """A list is never older than what a decision used, unless it is another server's that is behind."""
    record = kept("unschedulable", message=SHORT)
    for listed, latest in ((ReachedStage(12, 3), 12), (ReachedStage(5, 3), 7)):
        evidence = WhyEvidence(pod=pod(), kept=(record,), reasons=None, latest={"Node": listed}, now_ns=0)
        (used,) = explain_pod(evidence, cluster(a="1", b="1")).freshness
        assert used == Used("Node", 7, latest, 20, 3)


def test_of_a_pod_that_is_gone_the_record_is_told() -> None:
    found = explain_gone("shop/web", [kept("unschedulable", message=SHORT), kept("bind", node="a")], {})
    assert found.summary == (
        "pod shop/web no longer exists;"
        " the last decision d-1 at 1970-01-01T00:00:00Z was 'bind a': committed at 9"
    )
    assert (found.state, found.schedulable, found.node, found.attempts) == ("gone", False, "a", 2)


def test_a_scheduler_that_nobody_runs_is_named() -> None:
    evidence = WhyEvidence(
        pod=pod(schedulerName="nosuch"), kept=(), reasons=None, latest={}, now_ns=0, heard=False
    )
    assert explain_pod(evidence, cluster(a="4")).summary == (
        "pod shop/web fits a now: it waits for scheduler 'nosuch', which has no record here"
    )


def test_whom_a_pod_displaced_is_still_told_when_it_has_its_node() -> None:
    asked = kept("preempt", victims=("shop/low: preempted",))
    found = why(cluster(a="4"), pod(node="a"), asked, kept("bind", node="a", scores={"a": 1}))
    assert found.attempt is not None
    assert found.attempt.victims == ("shop/low: preempted",)


def test_decisive_is_the_rule_that_the_smallest_change_is_about() -> None:
    """It asked for b: that b is full is the answer, not that it asked for b."""
    known = cluster(a="4", b="1", c="4")
    for name in "abc":
        room = {"cpu": "1" if name == "b" else "4", "memory": "8Gi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name}
        known.put(
            "Node", None, {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room}}
        )
    found = why(known, pod(nodeSelector={"kubernetes.io/hostname": "b"}))
    assert found.decisive == "NodeResourcesFit: Insufficient cpu (1 of 3 nodes)"
