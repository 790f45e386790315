"""What would admit a pod: each rule's smallest change, and that it is one."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.model.objects import Obj
from fathom.schedule.context import Avoided, Context, Policy, Quota, QuotaLimit, Reserved
from fathom.schedule.place import place
from fathom.schedule.pods import PodView, pod_view
from fathom.schedule.remedy import Remedy, remedies, smallest_change
from fathom.schedule.table import NodeTable

ZONE = "topology.kubernetes.io/zone"


def node(name: str, cpu: str = "4", memory: str = "8Gi", **spec: Any) -> Obj:
    labels = {"kubernetes.io/hostname": name, ZONE: spec.pop("zone", "zone-a"), **spec.pop("labels", {})}
    room = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": room}}


def pod(
    name: str = "new", *, cpu: str = "500m", on: str = "", ports: list[Obj] | None = None, **spec: Any
) -> PodView:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}, "ports": ports or []}
    obj = {
        "metadata": {"name": name, "uid": name, "namespace": "risk", "labels": {"app": "risk-api"}},
        "spec": {"containers": [container], **spec, **({"nodeName": on} if on else {})},
    }
    return pod_view(obj, tenant="risk")


def table_of(*nodes: Obj, pods: tuple[PodView, ...] = ()) -> NodeTable:
    table = NodeTable()
    for one in nodes:
        table.put_node(one)
    for view in pods:
        table.put_pod(view)
    return table


def advice(view: PodView, table: NodeTable, world: Context | None = None) -> str:
    world = world or Context()
    assert place(view, table, world).node is None
    return smallest_change(view.shape, table, world)


def test_the_nearest_node_is_named_with_what_it_lacks() -> None:
    table = table_of(node("far", cpu="100m"), node("near", cpu="300m"))
    assert (
        advice(pod(), table)
        == "node near lacks 200m cpu (500m cpu asked for, 300m free) (by a cluster operator)"
    )


def test_a_pod_that_fits_needs_no_change() -> None:
    table = table_of(node("a"))
    assert (remedies(pod().shape, table, Context()), smallest_change(pod().shape, table, Context())) == (
        [],
        "",
    )


def test_the_taint_that_keeps_most_nodes_closed_is_named() -> None:
    spot: Any = {"taints": [{"key": "spot", "value": "yes", "effect": "NoSchedule"}]}
    gpu: Any = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    table = table_of(node("a", **spot), node("b", **spot), node("c", **gpu))
    assert remedies(pod().shape, table, Context())[0] == Remedy(
        "TaintToleration",
        "tolerate the taint spot=yes:NoSchedule of 2 nodes, or remove it",
        "the pod's owner",
        2,
        2,
    )


def test_quota_says_by_how_much_it_is_short() -> None:
    table = table_of(node("a"), node("c", zone="zone-c"), pods=(pod("old", cpu="900m", on="c"),))
    quota = Quota("risk", (QuotaLimit((("cpu", 1000),), "zone-c"), QuotaLimit((("cpu", 100),), "zone-a")))
    found = remedies(pod().shape, table, Context(quota=quota))
    assert [one.change for one in found] == [
        "quota/risk-zone-a is short by 400m cpu",
        "quota/risk-zone-c is short by 400m cpu",
    ]
    placement = place(pod(), table, Context(quota=quota))
    assert placement.rejected == {"quota/risk-zone-a": 1, "quota/risk-zone-c": 1}
    assert "QuotaChanged" in placement.helped_by


@pytest.mark.parametrize(
    ("nodes", "view", "world", "expected"),
    [
        ([node("a", unschedulable=True)], pod(), Context(), "uncordon a (by a cluster operator)"),
        (
            [node("a")],
            pod(nodeSelector={"disk": "ssd"}),
            Context(),
            "drop disk=ssd from the nodeSelector, or label one of 1 node with it (by the pod's owner)",
        ),
        (
            [node("a")],
            pod(),
            Context(avoided=(Avoided("risk/calm", ZONE, ("zone-a",)),)),
            "end override risk/calm, or let it expire (by a cluster operator)",
        ),
        (
            [node("a")],
            pod(),
            Context(trust_lost={"a": 100}),
            "repair a and lift the quarantine (by a cluster operator)",
        ),
        (
            [node("a")],
            pod(),
            Context(policy=Policy(max_view_age_ms=100), view_age_ms=2500),
            "wait until the scheduler's view is fresh again (it is 2500 ms old) (by time)",
        ),
        ([], pod(), Context(), "add a node: there is none"),
    ],
)
def test_each_rule_has_its_own_advice(nodes: list[Obj], view: PodView, world: Context, expected: str) -> None:
    assert advice(view, table_of(*nodes), world) == expected


def test_a_port_that_is_taken_is_named() -> None:
    ports = [{"hostPort": 80}]
    table = table_of(node("a"), pods=(pod("old", on="a", ports=ports),))
    text = "free host port 80/TCP on one of 1 node (such as a) (by a cluster operator)"
    assert advice(pod(ports=ports), table) == text


def test_reserved_nodes_name_the_class_that_an_override_would_have_to_open() -> None:
    table = table_of(node("a", labels={"pool": "spare"}))
    table.set_reserved([Reserved("recovery", (("pool", "spare"),))])
    text = "an override that allows capacity class recovery would open 1 node (by a cluster operator)"
    assert advice(pod(), table) == text


def test_where_two_rules_object_on_every_node_both_are_named() -> None:
    table = table_of(node("a", cpu="100m", unschedulable=True))
    assert advice(pod(), table).startswith("no single change admits it: NodeUnschedulable")
