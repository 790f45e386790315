"""The smallest change: fewer changes before more, each tried, several together where one is not enough."""

from __future__ import annotations

from typing import Any

import pytest
from tests.schedule.test_remedy import APART, ZONE, away, node, pod, table_of

from fathom.model.objects import Obj
from fathom.schedule.decide.context import Avoided, PlacementContext, Quota, QuotaLimit
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.pods import PodView, pod_view
from fathom.schedule.decide.remedy import Remedy, remedies

pytestmark = pytest.mark.slow

SPOT: Obj = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
GPU: Obj = {"key": "gpu", "effect": "NoSchedule"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def offered(view: PodView, table: NodeTable, world: PlacementContext | None = None) -> list[Remedy]:
    return remedies(view.shape, table, world or PlacementContext())


def large(cpu: str, memory: str, **spec: Any) -> PodView:
    requests = {"cpu": cpu, "memory": memory}
    obj: Obj = {
        "metadata": {"name": "new", "uid": "new", "namespace": "risk", "labels": {"app": "risk-api"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}], **spec},
    }
    return pod_view(obj, tenant="risk")


def test_one_change_comes_before_two_of_less_effort() -> None:
    nodes = (node("small", cpu="1", memory="1Gi", labels={"disk": "ssd"}), node("large"))
    found = offered(large("2", "2Gi", nodeSelector={"disk": "ssd"}), table_of(*nodes))
    assert [(remedy.rule, remedy.count) for remedy in found] == [("NodeAffinity", 1), ("NodeResourcesFit", 2)]


def test_a_request_is_lowered_to_what_both_the_node_and_the_quota_leave() -> None:
    world = PlacementContext(quota=Quota("risk", (QuotaLimit((("cpu", 800),)),)))
    found = offered(pod(cpu="3"), table_of(node("a", cpu="2")), world)
    assert [(remedy.rule, remedy.count, remedy.short) for remedy in found] == [
        ("NodeResourcesFit", 1, (("cpu", 3000, 800),))
    ]


def test_a_quota_of_pods_is_not_met_by_requesting_less() -> None:
    world = PlacementContext(quota=Quota("risk", (QuotaLimit((("pods", 0),)),)))
    found = offered(pod(cpu="3"), table_of(node("a", cpu="2")), world)
    assert [[part.rule for part in remedy.parts] for remedy in found] == [["NodeResourcesFit", "TenantQuota"]]


def test_a_pod_that_is_to_request_less_needs_less_quota() -> None:
    limits = (QuotaLimit((("cpu", 100), ("pods", 0))),)
    table = table_of(node("a", cpu="300m"))
    (together,) = offered(pod(cpu="3"), table, PlacementContext(quota=Quota("risk", limits)))
    assert [part.short for part in together.parts] == [
        (("cpu", 3000, 300),),
        (("cpu", 100, 300), ("pods", 0, 1)),
    ]
    assert together.count == 3


def test_all_taints_of_one_node_are_tolerated_where_one_is_not_enough() -> None:
    table = table_of(node("a", taints=[SPOT, GPU]), node("b", taints=[SPOT, GPU, {**GPU, "key": "arm"}]))
    (both,) = offered(pod(), table)
    assert [part.about for part in both.parts] == [
        ("spot", "yes", "NoSchedule"),
        ("gpu", "", "NoSchedule"),
    ]
    assert (both.count, both.node) == (2, "a")


def test_two_taints_count_among_all_that_a_node_needs() -> None:
    (together,) = offered(pod(cpu="2"), table_of(node("a", cpu="1", taints=[SPOT, GPU])))
    assert together.count == 3
    assert [part.count for part in together.parts] == [2, 1]


def test_of_two_cordoned_nodes_either_may_be_uncordoned() -> None:
    table = table_of(node("a", unschedulable=True), node("b", unschedulable=True))
    (uncordon,) = offered(pod(), table)
    assert (uncordon.nodes, uncordon.ways) == (1, 2)


def test_each_selector_that_is_enough_is_offered() -> None:
    table = table_of(node("a", labels={"disk": "ssd"}), node("b", labels={"arch": "arm"}))
    found = offered(pod(nodeSelector={"disk": "ssd", "arch": "arm"}), table)
    assert [remedy.about for remedy in found] == [("arch", "arm"), ("disk", "ssd")]


def test_where_no_single_selector_is_enough_all_of_them_go_at_once() -> None:
    found = offered(pod(nodeSelector={"disk": "ssd", "arch": "arm"}), table_of(node("a")))
    assert [(remedy.about, remedy.count) for remedy in found] == [(("nodeSelector",), 1)]


def affinity(*expressions: tuple[str, str]) -> Obj:
    listed = [{"key": key, "operator": "In", "values": [value]} for key, value in expressions]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": listed}]}}}


def test_one_expression_of_the_node_affinity_is_dropped_where_that_is_enough() -> None:
    view = pod(affinity=affinity((ZONE, "zone-a"), ("disk", "ssd")))
    found = offered(view, table_of(node("a")))
    assert [remedy.about for remedy in found] == [("nodeAffinity", "0", "1", "disk")]


def test_the_node_affinity_goes_alone_where_the_selector_is_met() -> None:
    view = pod(affinity=affinity(("disk", "ssd")), nodeSelector={ZONE: "zone-a"})
    found = offered(view, table_of(node("a")))
    assert [(remedy.about, remedy.count) for remedy in found] == [(("nodeAffinity",), 1)]


def test_only_the_overrides_that_concern_the_node_are_to_end() -> None:
    avoided = (
        Avoided("risk/first", ZONE, ("zone-a",)),
        Avoided("risk/second", ZONE, ("zone-a",)),
        Avoided("risk/other", ZONE, ("zone-b",)),
    )
    table = table_of(node("a", cpu="100m"), node("b", zone="zone-b", cpu="50m", taints=[SPOT, GPU]))
    (together,) = offered(pod(), table, PlacementContext(avoided=avoided))
    assert [part.about for part in together.parts] == [("risk/first", "risk/second"), ()]


def test_ports_are_freed_where_the_fewest_pods_hold_them_or_one_is_dropped() -> None:
    def holding(name: str, on: str, port: int) -> PodView:
        return pod(name, on=on, ports=[{"hostPort": port}])

    held = (holding("a1", "a", 80), holding("a2", "a", 81), holding("b1", "b", 80))
    found = offered(
        pod(ports=[{"hostPort": 80}, {"hostPort": 81}]), table_of(node("a"), node("b"), pods=held)
    )
    assert [(remedy.about, remedy.node, remedy.count) for remedy in found] == [
        (("risk/b1",), "b", 1),
        (("hostPort", "80", "TCP"), "b", 1),
    ]


def test_a_pod_that_is_needed_near_is_not_moved_out_of_the_way() -> None:
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}
    view = pod(affinity={"podAffinity": terms, "podAntiAffinity": terms})
    found = offered(view, table_of(node("a"), pods=(pod("friend", on="a"),)))
    assert [remedy.about for remedy in found] == [("podAntiAffinity", "0")]


def test_the_pods_own_anti_affinity_may_be_dropped_too() -> None:
    table = table_of(node("a"), pods=(pod("b1", on="a"),))
    found = offered(pod(affinity=away()), table)
    assert [remedy.about for remedy in found] == [("risk/b1",), ("podAntiAffinity", "0")]


def test_a_full_node_takes_nothing_by_requesting_less() -> None:
    table = table_of(
        node("full", cpu="1"), node("b", labels={"x": "y"}), pods=(pod("old", cpu="1", on="full"),)
    )
    found = offered(pod(nodeSelector={ZONE: "zone-a", "kubernetes.io/hostname": "full"}), table)
    assert [(remedy.rule, remedy.effort) for remedy in found] == [
        ("NodeAffinity", 4),
        ("NodeResourcesFit", 5),
    ]
