"""Rules told as stories: what the random worlds seldom come to, and the words that people read."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.kinds import scheduling_policy
from fathom.model.objects import Obj
from fathom.schedule.decide.context import Allowed, PlacementContext, Policy, Quota, QuotaLimit, Reserved
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.place import Decider, Placement, place, place_batch, verdict_on
from fathom.schedule.decide.pods import PodView, pod_view
from fathom.schedule.decide.rules import RULES
from fathom.schedule.decide.verdicts import Reason

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def node(name: str, zone: str = "", *, cpu: str = "4", taints: Any = (), **labels: str) -> Obj:
    return {
        "metadata": {"name": name, "labels": {HOST: name, **({ZONE: zone} if zone else {}), **labels}},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
    }


def pod(
    name: str, *, on: str = "", cpu: str = "100m", app: str = "web", meta: Any = None, **spec: Any
) -> PodView:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    body = {"containers": [container], **spec, **({"nodeName": on} if on else {})}
    metadata = {"name": name, "uid": name, "namespace": "ns", "labels": {"app": app}, **(meta or {})}
    return pod_view({"metadata": metadata, "spec": body}, tenant="ns")


def table_of(*nodes: Obj, pods: tuple[PodView, ...] = ()) -> NodeTable:
    table = NodeTable()
    for one in nodes:
        table.put_node(one)
    for view in pods:
        table.put_pod(view)
    return table


def spread(max_skew: int = 1, key: str = ZONE, **more: Any) -> list[Obj]:
    selector = {"matchLabels": {"app": "web"}}
    return [
        {
            "maxSkew": max_skew,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
            **more,
        }
    ]


def brief(placement: Placement) -> tuple[str | None, dict[str, int]]:
    return placement.node, dict(placement.rejected)


SKEWED = "node(s) didn't match pod topology spread constraints"


def test_a_pod_that_claims_devices_is_refused_instead_of_bound_without_them() -> None:
    table = table_of(node("a"), node("b"))
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    found = place(pod("train", resourceClaims=claims), table, PlacementContext())
    refusal = "pod claims devices (resourceClaims), which this scheduler does not allocate"
    assert brief(found) == (None, {refusal: 2})


def test_fewer_domains_than_min_domains_count_as_if_one_were_empty() -> None:
    table = table_of(node("a", "x"), node("b", "y"), pods=(pod("p1", on="a"), pod("p2", on="b")))
    assert place(pod("new", topologySpreadConstraints=spread()), table, PlacementContext()).node is not None
    found = place(pod("new", topologySpreadConstraints=spread(minDomains=3)), table, PlacementContext())
    assert brief(found) == (None, {SKEWED: 2})
    table.put_node(node("c", "z"))
    assert (
        place(pod("new", topologySpreadConstraints=spread(minDomains=3)), table, PlacementContext()).node
        == "c"
    )


def test_tainted_nodes_count_for_spread_unless_the_constraint_honours_taints() -> None:
    taint = [{"key": "off", "effect": "NoSchedule"}]
    table = table_of(node("a", "x"), node("b", "y", taints=taint), pods=(pod("p1", on="a"),))
    ignoring = pod("new", topologySpreadConstraints=spread())
    honouring = pod("new", topologySpreadConstraints=spread(nodeTaintsPolicy="Honor"))
    assert place(ignoring, table, PlacementContext()).node is None
    assert place(honouring, table, PlacementContext()).node == "a"


def test_zones_differ_by_no_more_than_the_policy_says_whatever_the_pod_wants() -> None:
    table = table_of(node("a", "x"), node("b", "y"), pods=(pod("p1", on="a"),))
    world = PlacementContext(policy=Policy(name="v5-canary", max_zone_skew=1))
    placed = place_batch([pod(f"n{i}") for i in range(3)], table, world)
    assert [one.node for one in placed][:1] == ["b"]
    assert sum(one.node == "b" for one in placed) == 2
    text = "policy/v5-canary: zones would differ by more than maxZoneSkew=1"
    assert placed[0].rejected == {text: 1}


def test_the_first_of_a_group_that_wants_to_be_together_may_go_anywhere_and_the_rest_follow() -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    table = table_of(node("a", "x"), node("b", "y"), node("c", "y"), node("d"))
    placed = place_batch([pod(f"n{i}", affinity=affinity) for i in range(5)], table, PlacementContext())
    zones = {{"a": "x", "b": "y", "c": "y"}[one.node or ""] for one in placed}
    assert len(zones) == 1
    assert placed[0].rejected == {"node(s) didn't match pod affinity rules": 1}
    elsewhere = 3 if zones == {"x"} else 2
    assert placed[1].rejected == {"node(s) didn't match pod affinity rules": elsewhere}


def test_pods_that_are_there_keep_away_whom_they_do_not_want() -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "noisy"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    table = table_of(node("a", "x"), node("b", "y"), pods=(pod("quiet", on="a", affinity=affinity),))
    found = place(pod("new", app="noisy"), table, PlacementContext())
    assert brief(found) == ("b", {"node(s) didn't satisfy existing pods anti-affinity rules": 1})
    assert place(pod("new"), table, PlacementContext()).rejected == {}


def test_a_placed_pod_keeps_the_next_one_away_twice_as_a_neighbour_and_by_its_own_wish() -> None:
    """A plain pod counts once. So after one placement on 'b', 'a' with its two plain pods is as good."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    disliked = [{"weight": 50, "podAffinityTerm": term}]
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": disliked}}
    there = (*(pod(f"a{i}", on="a") for i in range(2)), *(pod(f"c{i}", on="c") for i in range(3)))
    nodes = (node("a"), node("b"), node("c"))
    together, in_turn = table_of(*nodes, pods=there), table_of(*nodes, pods=there)
    pods = [pod(f"n{i}", affinity=affinity) for i in range(5)]
    expected = []
    for one in pods:
        found = place(one, in_turn, PlacementContext())
        expected.append((found.node, found.scores))
        in_turn.assume(one, found.node or "")
    assert expected[0][0] == "b"
    assert [(one.node, one.scores) for one in place_batch(pods, together, PlacementContext())] == expected


def test_what_a_class_keeps_of_a_node_is_for_its_own_pods_and_shrinks_as_they_take_it() -> None:
    shared = Reserved("burst", (("pool", "blue"),), kept=(("cpu", 3000),), tenants=("*",))
    mine = {"annotations": {"fathom.dev/capacity-class": "burst"}}
    table = table_of(node("a", pool="blue"))
    table.set_reserved([shared])
    assert brief(place(pod("new", cpu="1500m"), table, PlacementContext())) == (None, {"Insufficient cpu": 1})
    found = place(pod("own", cpu="2", meta=mine), table, PlacementContext())
    assert (found.node, found.capacity_class) == ("a", "burst")
    table.put_pod(pod("own", cpu="2", on="a", meta=mine))
    # 4 CPU: 2 are used by the class, which keeps 1 more; 1 is left for others.
    assert place(pod("new", cpu="1"), table, PlacementContext()).node == "a"
    assert place(pod("new", cpu="1100m"), table, PlacementContext()).node is None


def test_an_override_opens_a_reserved_class_for_so_many_pods_and_the_placement_says_so() -> None:
    table = table_of(node("a", pool="spare"))
    table.set_reserved([Reserved("recovery", (("pool", "spare"),))])
    closed = place(pod("new"), table, PlacementContext())
    assert closed.rejected == {"capacity/recovery: node(s) were reserved for the capacity class": 1}
    world = PlacementContext(allowed=(Allowed("ns/incident", "recovery", left=2),))
    placed = place_batch([pod(f"n{i}") for i in range(3)], table, world)
    assert [(one.node, one.capacity_class, one.overrides) for one in placed] == [
        ("a", "recovery", ("ns/incident",)),
        ("a", "recovery", ("ns/incident",)),
        (None, "", ()),
    ]


def test_quota_is_counted_from_bound_and_assumed_pods_and_reservations() -> None:
    table = table_of(node("a", "zone-c"), pods=(pod("p1", on="a", cpu="500m"),))
    world = PlacementContext(quota=Quota("ns", (QuotaLimit((("cpu", 1000),), "zone-c"),)))
    assert place(pod("new", cpu="500m"), table, world).node == "a"
    table.claim("somebody", "a", (("cpu", 200),), priority=2**31, tenant="ns")
    assert brief(place(pod("new", cpu="500m"), table, world)) == (None, {"quota/ns-zone-c": 1})
    table.unclaim("somebody")
    table.assume(pod("p2", cpu="300m"), "a")
    assert place(pod("new", cpu="500m"), table, world).node is None
    table.forget("p2")
    assert place(pod("new", cpu="500m"), table, world).node == "a"


def test_a_pods_own_reservation_is_neither_its_obstacle_nor_counted_twice_against_its_quota() -> None:
    table = table_of(node("a", "zone-c", cpu="1"))
    world = PlacementContext(quota=Quota("ns", (QuotaLimit((("cpu", 1000),), "zone-c"),)))
    table.claim("new", "a", (("cpu", 1000), ("pods", 1)), priority=2**31, tenant="ns")
    assert place(pod("other", cpu="1"), table, world).node is None
    assert place(pod("new", cpu="1"), table, world).node == "a"


def test_a_node_that_is_not_ready_takes_nothing_even_without_a_taint() -> None:
    sick = node("a")
    sick["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    found = place(pod("new"), table_of(sick), PlacementContext())
    text = "node(s) had untolerated taint {node.kubernetes.io/unreachable: }"
    assert brief(found) == (None, {text: 1})
    tolerant = pod("new", tolerations=[{"operator": "Exists"}])
    assert place(tolerant, table_of(sick), PlacementContext()).node == "a"


def test_the_message_is_kube_schedulers_sentence() -> None:
    table = table_of(
        node("a", cpu="50m"), node("b", cpu="50m"), node("c", taints=[{"key": "k", "effect": "NoSchedule"}])
    )
    found = place(pod("new"), table, PlacementContext())
    assert found.message == (
        "0/3 nodes are available: 1 node(s) had untolerated taint {k: }, 2 Insufficient cpu."
    )
    assert found.helped_by == (
        "CapacityClassChanged", "NodeAdded", "NodeChanged", "OverrideChanged", "PodChanged", "PodGone",
    )  # fmt: skip
    assert place(pod("new"), NodeTable(), PlacementContext()).message == "no nodes available to schedule pods"


def test_a_node_short_of_two_things_is_counted_under_both() -> None:
    view = pod("new", cpu="9", overhead={"memory": "90Gi"})
    found = place(view, table_of(node("a")), PlacementContext())
    assert brief(found) == (None, {"Insufficient cpu": 1, "Insufficient memory": 1})


def test_a_gated_pod_is_not_looked_at() -> None:
    found = place(pod("new", schedulingGates=[{"name": "later"}]), table_of(node("a")), PlacementContext())
    assert (found.node, found.verdicts, found.helped_by) == (None, None, ("PodChanged",))
    assert found.message == "Scheduling is blocked due to non-empty scheduling gates"


def test_one_node_can_be_asked_about() -> None:
    table = table_of(node("a"), node("b", cpu="50m"))
    assert verdict_on(pod("new"), "a", table, PlacementContext()) is None
    assert verdict_on(pod("new"), "b", table, PlacementContext()) == Reason(
        "NodeResourcesFit", ("Insufficient cpu",), names=("cpu",)
    )
    with pytest.raises(KeyError):
        verdict_on(pod("new"), "nowhere", table, PlacementContext())


def test_ties_are_decided_by_the_seed_and_the_pod_and_nothing_else() -> None:
    nodes = [node(f"n{i}") for i in range(9)]
    chosen = [place(pod(f"p{i}"), table_of(*nodes), PlacementContext(tie_seed=5)).node for i in range(30)]
    again = [place(pod(f"p{i}"), table_of(*nodes), PlacementContext(tie_seed=5)).node for i in range(30)]
    assert chosen == again
    assert len(set(chosen)) > 4


def test_every_decision_of_a_batch_keeps_every_nodes_reason_as_it_was_then() -> None:
    table = table_of(node("a", cpu="100m"), node("b", cpu="200m"))
    placed = place_batch([pod(f"n{i}") for i in range(4)], table, PlacementContext())
    why = []
    for one in placed:
        assert one.verdicts is not None
        codes, reasons = one.verdicts.codes(), one.verdicts.reasons()
        why.append([reasons[int(codes[row])].texts for row in (0, 1)])
    assert [one.node is not None for one in placed] == [True, True, True, False]
    assert why[0] == [(), ()]
    assert why[3] == [("Insufficient cpu",), ("Insufficient cpu",)]
    assert sum(reason == () for row in why for reason in row) == 2 + sum(
        2 - one.rejected.get("Insufficient cpu", 0) for one in placed[1:]
    )


def test_passes_are_kept_within_bounds() -> None:
    decider = Decider(table_of(node("a")))
    for number in range(600):
        decider.place(pod("p", app=f"app-{number}"), PlacementContext())
    assert len(decider._scans) <= 256


def test_a_policy_can_help_whom_a_rule_rejects_that_it_may_switch_off() -> None:
    assert "PolicyChanged" in RULES.helped_by(["PodTopologySpread"])
    assert "PolicyChanged" not in RULES.helped_by(["NodeAffinity"])


def test_the_names_that_policies_are_checked_by_are_those_of_the_rules() -> None:
    assert tuple(one.name for one in RULES.filters if not one.optional) == scheduling_policy.FILTERS_ALWAYS
    assert tuple(one.name for one in RULES.filters if one.optional) == scheduling_policy.FILTERS_OPTIONAL
    assert tuple(one.name for one in RULES.scores) == scheduling_policy.SCORES


def test_the_rules_that_reject_nodes_are_named_the_one_that_rejects_most_first() -> None:
    taint = {"key": "dedicated", "value": "a", "effect": "NoSchedule"}
    small = [node(f"small-{number}", cpu="1") for number in range(4)]
    table = table_of(node("tainted", cpu="8", taints=(taint,)), *small)
    assert [each.rule for each in place(pod("new", cpu="2"), table, PlacementContext()).rejections] == [
        "NodeResourcesFit",
        "TaintToleration",
    ]
    assert place(pod("fits", cpu="1"), table, PlacementContext()).rejections == ()
