"""What would admit a pod: each rule's smallest change, and that it is one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedule.worlds import THEMES, World, worlds
from tests.schedule.worlds import table_of as world_table

from fathom.model.objects import Obj
from fathom.schedule.decide.context import Avoided, PlacementContext, Policy, Quota, QuotaLimit, Reserved
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.place import place
from fathom.schedule.decide.pods import PodView, pod_view
from fathom.schedule.decide.remedies import REMEDIES
from fathom.schedule.decide.remedy import Remedy, remedies
from fathom.schedule.decide.rows import Rows
from fathom.schedule.decide.trial import GRANT, ROOM, WISH, Effect, Trial

pytestmark = pytest.mark.slow

ZONE = "topology.kubernetes.io/zone"


def node(name: str, cpu: str = "4", memory: str = "8Gi", **spec: Any) -> Obj:
    labels = {"kubernetes.io/hostname": name, ZONE: spec.pop("zone", "zone-a"), **spec.pop("labels", {})}
    room = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": room}}


def pod(
    name: str = "new", *, cpu: str = "500m", on: str = "", ports: list[Obj] | None = None, **spec: Any
) -> PodView:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}, "ports": ports or []}
    annotations = {"fathom.dev/capacity-class": spec.pop("capacity_class", "")}
    meta = {"name": name, "uid": name, "namespace": "risk", "labels": {"app": "risk-api"}}
    obj = {
        "metadata": {**meta, "annotations": annotations},
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


def advice(view: PodView, table: NodeTable, world: PlacementContext | None = None) -> str:
    world = world or PlacementContext()
    assert place(view, table, world).node is None
    first = remedies(view.shape, table, world)[0]
    return f"{first.change} (by {first.by})"


def without_effect(remedy: Remedy) -> Remedy:
    return msgspec.structs.replace(remedy, effect=Effect())


def test_the_nearest_node_is_named_with_what_it_lacks() -> None:
    table = table_of(node("far", cpu="100m"), node("near", cpu="300m"))
    assert (
        advice(pod(), table)
        == "node near lacks 200m cpu (500m cpu requested, 300m free) (by a cluster operator)"
    )


def test_a_pod_that_fits_needs_no_change() -> None:
    table = table_of(node("a"))
    assert remedies(pod().shape, table, PlacementContext()) == []


def test_the_taint_that_keeps_most_nodes_closed_is_named() -> None:
    spot: Any = {"taints": [{"key": "spot", "value": "yes", "effect": "NoSchedule"}]}
    gpu: Any = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    table = table_of(node("a", **spot), node("b", **spot), node("c", **gpu))
    assert without_effect(remedies(pod().shape, table, PlacementContext())[0]) == Remedy(
        "TaintToleration",
        "tolerate the taint spot=yes:NoSchedule of 2 nodes, or remove it",
        "the pod's owner",
        2,
        WISH,
        node="a",
        about=("spot", "yes", "NoSchedule"),
    )


def test_quota_says_by_how_much_it_is_short() -> None:
    table = table_of(node("a"), node("c", zone="zone-c"), pods=(pod("old", cpu="900m", on="c"),))
    quota = Quota("risk", (QuotaLimit((("cpu", 1000),), "zone-c"), QuotaLimit((("cpu", 100),), "zone-a")))
    found = remedies(pod().shape, table, PlacementContext(quota=quota))
    assert [one.change for one in found] == [
        "quota/risk-zone-a is short by 400m cpu",
        "quota/risk-zone-c is short by 400m cpu",
        "the quota for a lacks 400m cpu (500m cpu requested, 100m free)",
    ]
    placement = place(pod(), table, PlacementContext(quota=quota))
    assert placement.rejected == {"quota/risk-zone-a": 1, "quota/risk-zone-c": 1}
    assert "QuotaChanged" in placement.helped_by


def test_a_quota_of_all_zones_is_raised_once_for_all_their_nodes() -> None:
    table = table_of(node("a"), node("c", zone="zone-c"), node("d", zone="zone-c"))
    quota = Quota("risk", (QuotaLimit((("cpu", 100),)),))
    raised, lowered = remedies(pod().shape, table, PlacementContext(quota=quota))
    assert (raised.change, raised.nodes) == ("quota/risk is short by 400m cpu", 3)
    assert lowered.short == (("cpu", 500, 100),)


@pytest.mark.parametrize(
    ("nodes", "view", "world", "expected"),
    [
        ([node("a", unschedulable=True)], pod(), PlacementContext(), "uncordon a (by a cluster operator)"),
        (
            [node("a")],
            pod(nodeSelector={"disk": "ssd"}),
            PlacementContext(),
            "drop disk=ssd from the nodeSelector, or label a with it (by the pod's owner)",
        ),
        (
            [node("a")],
            pod(),
            PlacementContext(avoided=(Avoided("risk/calm", ZONE, ("zone-a",)),)),
            "end override risk/calm, or let it expire (by a cluster operator)",
        ),
        (
            [node("a")],
            pod(),
            PlacementContext(refused_nodes=("a",)),
            "wait until the scheduler's view of a is as new as the server's (by time)",
        ),
        (
            [node("a", taints=[{"key": "fathom.dev/quarantine", "effect": "NoSchedule"}])],
            pod(),
            PlacementContext(),
            "repair a and lift the quarantine (by a cluster operator)",
        ),
        (
            [node("a")],
            pod(),
            PlacementContext(policy=Policy(max_view_age_ms=100), view_age_ms=2500),
            "wait until the scheduler's view is fresh again (it is 2500 ms old) (by time)",
        ),
        ([], pod(), PlacementContext(), "add a node: the cluster has none (by a cluster operator)"),
    ],
)
def test_each_rule_has_its_own_advice(
    nodes: list[Obj], view: PodView, world: PlacementContext, expected: str
) -> None:
    assert advice(view, table_of(*nodes), world) == expected


def test_a_port_that_is_taken_is_named() -> None:
    ports = [{"hostPort": 80}]
    table = table_of(node("a"), pods=(pod("old", on="a", ports=ports),))
    text = "free host port 80/TCP on a (by a cluster operator)"
    assert advice(pod(ports=ports), table) == text


def class_changes(view: PodView, *reserved: Reserved) -> list[tuple[str, tuple[int, int, int]]]:
    """Two small nodes, of which one is of the pool `spare`."""
    table = table_of(node("a", cpu="1", labels={"pool": "spare"}), node("b", cpu="100m"))
    table.set_reserved(reserved)
    offered = remedies(view.shape, table, PlacementContext())
    return [(remedy.change, remedy.size) for remedy in offered if "capacity class" in remedy.change]


def test_reserved_nodes_are_opened_by_an_override_or_to_the_tenant() -> None:
    assert class_changes(pod(), Reserved("recovery", (("pool", "spare"),))) == [
        ("allow capacity class recovery by an override (opens 1 node)", (1, GRANT, 0)),
        ("admit tenant risk to capacity class recovery (opens 1 node)", (1, GRANT, 0)),
    ]


def test_a_class_that_the_pod_asks_for_is_opened_to_the_tenant_or_by_an_override() -> None:
    asking = pod(capacity_class="recovery")
    assert class_changes(asking, Reserved("recovery", (("pool", "spare"),))) == [
        ("admit tenant risk to capacity class recovery (opens 1 node)", (1, GRANT, 0)),
        ("allow capacity class recovery by an override (opens 1 node)", (1, GRANT, 0)),
    ]


def test_room_that_a_class_keeps_is_offered_once_though_another_class_has_nodes_of_its_own() -> None:
    """To admit the tenant would not be enough: the pod does not ask for the class."""
    kept = Reserved("recovery", (("pool", "spare"),), (("cpu", 800),))
    whole = Reserved("whole", (("kubernetes.io/hostname", "b"),))
    text = "allow capacity class recovery by an override (opens 1 node with room kept for the class)"
    assert class_changes(pod(), kept, whole) == [(text, (1, GRANT, 0))]


def test_a_pod_of_a_class_that_does_not_exist_needs_two_changes_on_a_reserved_node() -> None:
    table = table_of(node("a", labels={"pool": "spare"}))
    table.set_reserved([Reserved("recovery", (("pool", "spare"),), tenants=("other",))])
    asking = pod(capacity_class="shared")
    assert advice(asking, table) == (
        "drop capacity class shared from the pod; and allow capacity class recovery by an override"
        " (by the pod's owner and a cluster operator)"
    )


def test_where_two_rules_object_on_every_node_all_that_the_nearest_needs_is_named() -> None:
    cordoned: Any = {"unschedulable": True, "taints": [UNSCHEDULABLE]}
    table = table_of(node("a", cpu="100m", **cordoned), node("b", cpu="100m", labels={"x": "y"}, **cordoned))
    assert advice(pod(nodeSelector={"x": "y"}), table) == (
        "uncordon b; and node b lacks 400m cpu (500m cpu requested, 100m free) (by a cluster operator)"
    )


UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def test_a_cordon_is_one_change_though_it_puts_a_taint_on_the_node_too() -> None:
    table = table_of(node("a", unschedulable=True, taints=[UNSCHEDULABLE]), node("b", cpu="100m"))
    found = remedies(pod(cpu="4").shape, table, PlacementContext())
    assert [(one.rule, one.change, one.nodes) for one in found] == [
        ("NodeUnschedulable", "uncordon a", 1),
        ("NodeResourcesFit", "node b lacks 3900m cpu (4 cpu requested, 100m free)", 1),
    ]


def test_what_the_pod_asks_for_itself_is_changed_last() -> None:
    """It named its zone: the quota there is in its way, not its own wish."""
    table = table_of(node("a"), node("b", zone="zone-b"), node("c", zone="zone-c"))
    world = PlacementContext(quota=Quota("risk", (QuotaLimit((("cpu", 100),), "zone-c"),)))
    found = remedies(pod(nodeSelector={ZONE: "zone-c"}).shape, table, world)
    assert [(one.rule, one.change) for one in found] == [
        ("TenantQuota", "quota/risk-zone-c is short by 400m cpu"),
        ("TenantQuota", "the quota for c lacks 400m cpu (500m cpu requested, 100m free)"),
        (
            "NodeAffinity",
            f"drop {ZONE}=zone-c from the nodeSelector, or label one of 2 nodes (such as a) with it",
        ),
    ]


def test_all_limits_that_are_short_in_one_place_are_named_together() -> None:
    table = table_of(node("c", zone="zone-c"), pods=(pod("old", cpu="900m", on="c"),))
    limits = (QuotaLimit((("cpu", 1000),), "zone-c"), QuotaLimit((("pods", 1),)))
    assert advice(pod(), table, PlacementContext(quota=Quota("risk", limits))) == (
        "quota/risk-zone-c is short by 400m cpu and quota/risk is short by 1 pod"
        " (by whoever grants the tenant's quota)"
    )


def test_room_that_is_promised_to_others_does_not_count_as_free() -> None:
    table = table_of(node("a", cpu="1"))
    table.claim("somebody", "a", (("cpu", 700),), priority=10)
    assert advice(pod(), table) == (
        "node a lacks 200m cpu (500m cpu requested, 300m free) (by a cluster operator)"
    )


def test_room_that_a_class_keeps_comes_by_an_override_not_by_waiting() -> None:
    table = table_of(node("a", cpu="1", labels={"pool": "spare"}))
    table.set_reserved([Reserved("recovery", (("pool", "spare"),), (("cpu", 800),))])
    assert advice(pod(), table) == (
        "allow capacity class recovery by an override (opens 1 node with room kept for the class)"
        " (by a cluster operator)"
    )


def test_of_two_overrides_the_one_is_named_whose_end_is_enough() -> None:
    table = table_of(node("a"), node("b", zone="zone-b"))
    both = Avoided("risk/both", ZONE, ("zone-a", "zone-b"))
    world = PlacementContext(avoided=(both, Avoided("risk/one", ZONE, ("zone-a",))))
    assert advice(pod(), table, world) == ("end override risk/both, or let it expire (by a cluster operator)")
    same = PlacementContext(avoided=(both, Avoided("risk/again", ZONE, ("zone-a", "zone-b"))))
    assert advice(pod(), table, same) == (
        "end override risk/both and risk/again, or let it expire (by a cluster operator)"
    )


def spread(skew: int = 1, **more: Any) -> list[Obj]:
    selector = {"matchLabels": {"app": "risk-api"}}
    return [
        {"topologyKey": ZONE, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **more}
        | {"labelSelector": selector}
    ]


def test_the_skew_that_would_be_needed_is_said_and_where_there_would_be_room() -> None:
    there = (pod("a1", on="a"), pod("a2", on="a"), pod("a3", on="a"), pod("b1", on="b"), pod("b2", on="b"))
    nodes = (node("a"), node("b", zone="zone-b"), node("c", zone="zone-c", cpu="100m"))
    view = pod(topologySpreadConstraints=spread())
    found = remedies(view.shape, table_of(*nodes, pods=there), PlacementContext())
    assert [(one.rule, one.change, one.nodes) for one in found] == [
        ("NodeResourcesFit", "node c lacks 400m cpu (500m cpu requested, 100m free)", 1),
        (
            "PodTopologySpread",
            f"raise maxSkew over {ZONE} from 1 to 3,"
            " or open a node in zone-c, which has the fewest such pods",
            1,
        ),
    ]
    assert (
        place(pod(topologySpreadConstraints=spread(2)), table_of(*nodes, pods=there), PlacementContext()).node
        is None
    )
    assert (
        place(pod(topologySpreadConstraints=spread(3)), table_of(*nodes, pods=there), PlacementContext()).node
        == "b"
    )


def test_domains_that_are_missing_are_counted() -> None:
    table = table_of(node("a"), pods=(pod("a1", on="a"),))
    view = pod(topologySpreadConstraints=spread(minDomains=3))
    assert advice(view, table) == (
        f"raise maxSkew over {ZONE} from 1 to 2,"
        " or add nodes in 2 more domains (there are 1) (by the pod's owner)"
    )


def test_a_policys_zone_skew_is_told_in_its_own_words() -> None:
    table = table_of(node("a"), node("b", zone="zone-b", cpu="100m"), pods=(pod("a1", on="a"),))
    found = remedies(pod().shape, table, PlacementContext(policy=Policy(name="v5", max_zone_skew=1)))
    assert without_effect(found[0]) == Remedy(
        "MaxZoneSkew",
        "raise maxZoneSkew of policy v5 from 1 to 2,"
        " or open a node in zone-b, which has the fewest such pods",
        "a cluster operator",
        1,
        ROOM,
        2,
        about=("v5", "1", "2"),
    )


APART = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "risk-api"}}}


def away(kind: str = "podAntiAffinity") -> Obj:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}


def test_pods_that_are_in_the_way_are_named_where_they_are_fewest() -> None:
    there = (pod("a1", on="a"), pod("a2", on="a"), pod("b1", on="b"))
    table = table_of(node("a"), node("b", zone="zone-b"), pods=there)
    assert advice(pod(affinity=away()), table) == (
        "move risk/b1 out of the topology domain of b (by a cluster operator)"
    )


def test_pods_that_do_not_want_this_one_near_are_named_too() -> None:
    table = table_of(node("a"), pods=(pod("lone", on="a", affinity=away()),))
    assert advice(pod(), table) == "move risk/lone out of the topology domain of a (by a cluster operator)"


def test_affinity_that_is_met_where_another_pod_is_in_the_way_is_not_asked_for() -> None:
    """It is near whom it wants to be near; somebody else there is the obstacle."""
    table = table_of(node("a"), pods=(pod("friend", on="a"), pod("lone", on="a", affinity=away())))
    assert advice(pod(affinity=away("podAffinity")), table) == (
        "move risk/lone out of the topology domain of a (by a cluster operator)"
    )


def test_a_node_that_is_not_ready_is_to_be_repaired_rather_than_tolerated() -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert advice(pod(), table_of(node("a", taints=[taint]))) == (
        "repair a, which has the taint node.kubernetes.io/not-ready:NoSchedule (by a cluster operator)"
    )


def test_a_taint_on_the_node_that_it_asked_for_comes_before_asking_for_another() -> None:
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    table = table_of(node("a", taints=[taint]), node("b"), node("c"))
    found = remedies(pod(nodeSelector={"kubernetes.io/hostname": "a"}).shape, table, PlacementContext())
    assert [one.rule for one in found] == ["TaintToleration", "NodeAffinity"]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whoever_has_no_place_is_told_what_would_give_it_one(data: st.DataObject) -> None:
    world: World = data.draw(worlds(data.draw(st.sampled_from(THEMES))))
    table, shape = world_table(world), world.view().shape
    version = table.version
    found = remedies(shape, table, world.context)
    placed = place(world.view(), table, world.context).node
    assert bool(found) == (placed is None)
    assert all(one.change and one.nodes >= (1 if len(table) else 0) for one in found)
    assert table.version == version  # A question changes nothing.


class CountedTrial(Trial, frozen=True):
    """Counts the decisions that are made again."""

    tried: list[object] = msgspec.field(default_factory=list)

    def opened(self, **changes: Any) -> Rows:
        self.tried.append(changes)
        return super().opened(**changes)


SELECTED = {"labelSelector": {"matchLabels": {"app": "risk-api"}}}
KEYS = [f"key-{at}" for at in range(200)]
TERMS = [{**SELECTED, "topologyKey": key} for key in KEYS]
REQUIREMENTS = [{"key": key, "operator": "Exists"} for key in KEYS]
LONG_LISTS: dict[str, tuple[str, dict[str, Any]]] = {
    "spread constraints": (
        "PodTopologySpread",
        {
            "topologySpreadConstraints": [
                {**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} for term in TERMS
            ]
        },
    ),
    "affinity": (
        "InterPodAffinity",
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}}},
    ),
    "anti-affinity": (
        "InterPodAffinity",
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}}},
    ),
    "node affinity": (
        "NodeAffinity",
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": REQUIREMENTS}]
                    }
                }
            }
        },
    ),
    "node selector": ("NodeAffinity", {"nodeSelector": dict.fromkeys(KEYS, "x")}),
    "tolerations": ("TaintToleration", {"tolerations": [{"key": key, "operator": "Exists"} for key in KEYS]}),
}


@pytest.mark.parametrize(("rule", "spec"), LONG_LISTS.values(), ids=LONG_LISTS.keys())
def test_a_long_list_in_a_pod_does_not_multiply_the_trials(rule: str, spec: dict[str, Any]) -> None:
    """Each trial looks at the whole list again, and whoever may look at the pod can ask for them."""
    table = table_of(node("node-1", taints=[{"key": "a", "effect": "NoSchedule"}]))
    trial = CountedTrial(pod(**spec).shape, table, PlacementContext())
    list(REMEDIES[rule](trial))
    assert len(trial.tried) <= 40
