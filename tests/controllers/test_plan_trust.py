"""A node on which starts fail that succeed elsewhere."""

from __future__ import annotations

from fathom.control.plan import NOTHING, Plan
from fathom.controllers.node_health.plan_trust import TAINT, may_quarantine, plan_trust, points_now
from fathom.model.objects import Obj
from fathom.model.trust import ANNOTATION, LostTrust, lost_of

NOW = "2026-01-01T00:00:00Z"
NOW_NS = 1_767_225_600 * 1_000_000_000
MINUTE_NS = 60 * 1_000_000_000


def node(note: str = "", *taints: Obj) -> Obj:
    return {
        "metadata": {"name": "n1", "annotations": {ANNOTATION: note} if note else {}},
        "spec": {"taints": list(taints)},
        "status": {"conditions": []},
    }


def pod(name: str, reason: str = "StartError", restarts: int = 0, owner: str = "w") -> Obj:
    waiting = {"restartCount": restarts, "state": {"waiting": {"reason": reason}}}
    return {
        "metadata": {"name": name, "ownerReferences": [{"uid": owner, "controller": True}]},
        "status": {"phase": "Pending", "containerStatuses": [waiting]},
    }


def planned(on: Obj, *pods: Obj, elsewhere: bool = True, now_ns: int = NOW_NS) -> Plan:
    return plan_trust(on, pods, lambda uid: elsewhere, now_ns=now_ns, now=NOW)


def test_one_failed_start_costs_some_trust_and_three_all_of_it() -> None:
    (patch,) = planned(node(), pod("a")).patches
    assert patch.patch == {
        "metadata": {"annotations": {ANNOTATION: f'{{"points":34,"at_ns":{NOW_NS},"why":"a"}}'}}
    }
    plan = planned(node(), pod("a"), pod("b"), pod("c"))
    assert (plan.patches[0].patch["spec"], plan.statuses) == ({"taints": [TAINT]}, ())


def test_that_a_node_is_quarantined_is_said_once_the_taint_is_there_and_until_it_is_gone() -> None:
    """Not with the patch: that would be a status for a node that the patch has changed."""
    note = f'{{"points":100,"at_ns":{NOW_NS},"why":"a, b, c"}}'
    ill = node(note, TAINT)
    (said,) = planned(ill).statuses
    (condition,) = said.status["conditions"]
    assert (condition["type"], condition["status"], condition["message"]) == (
        "fathom.dev/Quarantined",
        "True",
        "pods fail to start here while their workloads run on other nodes: a, b, c",
    )
    assert planned({**ill, "status": said.status}) == NOTHING
    well = {**node(), "status": said.status}
    (forgiven,) = planned(well).statuses
    assert forgiven.status["conditions"][0]["status"] == "False"
    assert planned({**well, "status": forgiven.status}) == NOTHING


def test_what_runs_nowhere_is_not_the_nodes_fault() -> None:
    assert planned(node(), pod("a"), pod("b"), pod("c"), elsewhere=False) == NOTHING


def test_a_crash_or_two_is_bad_luck() -> None:
    assert planned(node(), pod("a", "CrashLoopBackOff", restarts=2)) == NOTHING
    assert planned(node(), pod("a", "CrashLoopBackOff", restarts=3)).patches
    assert planned(node(), pod("a", "ImagePullBackOff")) == NOTHING


def test_trust_comes_back_by_half_every_ten_minutes_and_ends_the_quarantine() -> None:
    left = [
        points_now(LostTrust(100, NOW_NS), now_ns=NOW_NS + minutes * MINUTE_NS) for minutes in (0, 10, 20)
    ]
    assert left == [100, 50, 25]
    ill = node(f'{{"points":100,"at_ns":{NOW_NS},"why":"a"}}', TAINT)
    assert planned(ill, now_ns=NOW_NS + MINUTE_NS // 2).patches == ()
    later = planned(ill, now_ns=NOW_NS + 11 * MINUTE_NS)
    assert later.patches[0].patch["spec"] == {"taints": None}


def test_taking_the_annotation_away_forgives_at_once() -> None:
    assert planned(node("", TAINT)).patches[0].patch["spec"] == {"taints": None}


def test_an_annotation_that_cannot_be_read_is_no_annotation() -> None:
    assert lost_of(node("nonsense")) == LostTrust()


def test_at_most_a_tenth_of_the_nodes_is_quarantined_and_always_one_may_be() -> None:
    def named(name: str, *taints: Obj) -> Obj:
        return {"metadata": {"name": name}, "spec": {"taints": list(taints)}}

    ill, well = [named("a", TAINT), named("b")], [named(f"n{number}") for number in range(18)]
    assert [may_quarantine(one, ill) for one in ill] == [True, False]
    assert may_quarantine(ill[1], [*ill, *well])
    assert may_quarantine(well[0], well[:3])


def test_who_is_being_quarantined_counts_before_that_is_seen() -> None:
    nodes: list[Obj] = [{"metadata": {"name": name}} for name in ("a", "b")]
    assert [may_quarantine(one, nodes, {"a"}) for one in nodes] == [True, False]


def test_a_node_that_may_not_be_quarantined_only_comes_last() -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    plan = plan_trust(node(), pods, lambda uid: True, now_ns=NOW_NS, now=NOW, is_allowed=lambda: False)
    (patch,) = plan.patches
    assert patch.patch == {
        "metadata": {"annotations": {ANNOTATION: f'{{"points":100,"at_ns":{NOW_NS},"why":"a, b, c"}}'}}
    }
