"""Trust is lost by failing different workloads, and comes back with time and good starts."""

from __future__ import annotations

from tests.schedule.test_remedy import node, table_of
from tests.schedule.test_remedy import pod as a_pod

from fathom.model.objects import Obj
from fathom.schedule.context import QUARANTINED, Context
from fathom.schedule.known import Known
from fathom.schedule.place import place
from fathom.schedule.trust import HALF_LIFE_S, Lost, Trust, after_failure, after_start, faded, start_outcome


def test_a_node_that_fails_four_workloads_is_quarantined() -> None:
    lost = Lost()
    for number in range(4):
        lost = after_failure(lost, f"web-{number}", now_s=number)
    assert (lost.points >= QUARANTINED, lost.blamed) == (True, ("web-0", "web-1", "web-2", "web-3"))


def test_one_workload_that_fails_for_ever_costs_a_node_little() -> None:
    lost = Lost()
    for number in range(100):
        lost = after_failure(lost, "crashes-everywhere", now_s=number)
    assert 0 < lost.points <= 30


def test_time_gives_back_what_was_lost_and_forgets_whom_it_blamed() -> None:
    lost = Lost(80, 0, ("a", "b"))
    assert faded(lost, now_s=HALF_LIFE_S) == Lost(40, HALF_LIFE_S, ("a", "b"))
    assert faded(lost, now_s=20 * HALF_LIFE_S) == Lost(0, 20 * HALF_LIFE_S)
    points = [faded(lost, now_s=second).points for second in range(0, 5 * HALF_LIFE_S, 7)]
    assert points == sorted(points, reverse=True)


def test_good_starts_give_trust_back() -> None:
    lost = after_failure(Lost(), "web", now_s=0)
    lost = after_start(lost, now_s=0)
    assert after_start(lost, now_s=0) == Lost(0, 0)


def pod(name: str, node: str = "n", *, waiting: str = "", running: bool = False, **status: str) -> Obj:
    state: Obj = {"running": {"startedAt": "now"}} if running else {"waiting": {"reason": waiting}}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"nodeName": node, "containers": []},
        "status": {"containerStatuses": [{"state": state}], **status},
    }


def test_a_start_is_news_once() -> None:
    creating, running = pod("p", waiting="ContainerCreating"), pod("p", running=True)
    failing = pod("p", waiting="CreateContainerError")
    assert start_outcome(creating, running) == "started"
    assert start_outcome(running, running) is None
    assert start_outcome(creating, failing) == "failed"
    assert start_outcome(failing, failing) is None
    assert start_outcome(None, pod("p", phase="Failed", reason="OutOfcpu")) == "failed"
    assert start_outcome(None, pod("p", node="", waiting="CreateContainerError")) is None


def test_a_node_that_fails_everyones_starts_is_avoided_then_quarantined_then_forgiven() -> None:
    table = table_of(node("good"), node("gray"))
    trust = Trust()
    assert trust.observe(None, pod("a", "gray", waiting="CreateContainerError"), now_s=0, nodes=2)
    newcomer = a_pod("new")
    assert place(newcomer, table, Context(trust_lost=trust.lost)).node == "good"
    table.remove_node("good")
    assert place(newcomer, table, Context(trust_lost=trust.lost)).node == "gray"
    for name in ("b", "c", "d"):
        trust.observe(None, pod(name, "gray", waiting="CreateContainerError"), now_s=1, nodes=2)
    found = place(newcomer, table, Context(trust_lost=trust.lost))
    assert (found.node, dict(found.rejected)) == (None, {"node(s) were quarantined after failed starts": 1})
    assert found.helped_by == ("NodeAdded", "TrustChanged")
    assert trust.fade(now_s=HALF_LIFE_S, nodes=2)
    assert place(newcomer, table, Context(trust_lost=trust.lost)).node == "gray"
    assert trust.pardon("gray", now_s=HALF_LIFE_S, nodes=2)
    assert trust.lost == {}


def test_good_starts_elsewhere_cost_nothing() -> None:
    trust = Trust()
    assert not trust.observe(pod("p"), pod("p", running=True), now_s=0, nodes=1)
    assert (trust.lost, trust.fade(now_s=10**6, nodes=1)) == ({}, False)


def fail(trust: Trust, workload: str, node: str) -> None:
    trust.observe(None, pod(workload, node, waiting="CreateContainerError"), now_s=0, nodes=20)


def test_a_workload_that_fails_everywhere_blames_two_nodes_at_most() -> None:
    trust = Trust()
    for number in range(10):
        fail(trust, "broken", f"n{number}")
    assert trust.lost == {"n0": 30, "n1": 30}


def test_when_many_nodes_fail_at_once_only_a_tenth_of_them_is_quarantined() -> None:
    trust = Trust()
    for number in range(6):
        for workload in range(4):
            fail(trust, f"w{number}-{workload}", f"n{number}")
    assert trust.lost == {"n0": 100, "n1": 100, "n2": 95, "n3": 95, "n4": 95, "n5": 95}


def test_what_a_scheduler_knows_includes_trust_until_time_has_given_it_back() -> None:
    known = Known()
    assert known.start_seen(None, pod("a", "gray", waiting="CreateContainerError"), now_ns=0)
    assert known.context(a_pod("new"), now_ns=0).trust_lost == {"gray": 30}
    assert known.passing(now_ns=0) == ()
    assert known.passing(now_ns=9 * HALF_LIFE_S * 10**9) == ("TrustChanged",)
    assert known.context(a_pod("new"), now_ns=0).trust_lost == {}
