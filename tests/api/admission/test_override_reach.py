"""How far an override reaches: its blast radius, the limits, and its relation to other overrides."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.api.auth.cluster import Cluster

from fathom.api.admission.overrides.blast_radius import blast_radius
from fathom.api.admission.overrides.conflicts import (
    CONTRADICTORY,
    IDENTICAL,
    MERGED,
    SHADOWED,
    relations,
)
from fathom.api.admission.overrides.limits import (
    beyond_extensions,
    beyond_limits,
    beyond_limits_together,
    changes_to_approve,
    limits_in_force,
)
from fathom.api.admission.overrides.references import ambiguity, deployments_behind, names_of_nothing
from fathom.kinds.scheduler_override import BlastRadius, SchedulerOverride
from fathom.kinds.shape import read
from fathom.kinds.steering_limits import SteeringLimitsSpec
from fathom.model.objects import Obj

CLASS = "allowReservedCapacityClass"
ALLOWS = "and SteeringLimits fathom-system/default allows"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def override(
    name: str = "o", *, status: Any = None, namespace: str = "shop", changes: Any = None, **spec: Any
) -> SchedulerOverride:
    usual = {"target": "workload/web", "scope": "cluster", "reason": "r", "expiresAfter": "10m"}
    wanted = {**usual, "changes": changes or {"pauseRollout": True}, **spec}
    meta = {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return read(SchedulerOverride, {"metadata": meta, "spec": wanted, "status": status or {}})


def of_nodes(target: str, **changes: bool) -> SchedulerOverride:
    return override(namespace="fathom-system", target=target, changes=changes)


def node(name: str, zone: str, region: str = "eu") -> Obj:
    return {"kind": "Node", "metadata": {"name": name, "labels": {ZONE: zone, REGION: region}}}


def pod(name: str, on: str = "", *, owner: str = "web", namespace: str = "shop", ready: bool = True) -> Obj:
    reference = {"controller": True, "kind": "ReplicaSet", "name": f"{owner}-h", "uid": owner}
    meta = {
        "name": name,
        "namespace": namespace,
        "labels": {"app": owner, "pod-template-hash": "h"},
        "ownerReferences": [reference],
    }
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {"kind": "Pod", "metadata": meta, "spec": {"nodeName": on}, "status": {"conditions": conditions}}


def budget(app: str, allowed: int) -> Obj:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


NODES = (node("a1", "a"), node("a2", "a"), node("a3", "a"), node("b1", "b", "us"))
PODS = (
    pod("web-1", "a1"), pod("web-2", "a1"), pod("web-3", "b1"), pod("web-4"),
    pod("db-1", "a1", owner="db"),
    pod("x", "a1", owner="x", namespace="other"),
    {**pod("done", "a1"), "status": {"phase": "Succeeded"}},
)  # fmt: skip
CLUSTER = Cluster(
    *NODES,
    *PODS,
    {"kind": "Namespace", "metadata": {"name": "other", "labels": {"fathom.dev/tenant": "shop"}}},
)


@pytest.mark.parametrize(
    ("given", "concerns"),
    [
        (override(), BlastRadius(pods=4, tenants=1)),
        (override(scope="zone/a"), BlastRadius(pods=3, tenants=1)),  # One waits, and may come there.
        (override(scope="region/us"), BlastRadius(pods=2, tenants=1)),
        (override(target="workload/none"), BlastRadius()),
        (override(changes={"avoidZones": ["a"]}), BlastRadius(pods=4, tenants=1)),
        (of_nodes("node/a1", cordon=True), BlastRadius(nodes=1, zone_percent=34)),
        (of_nodes("zone/b", drain=True), BlastRadius(pods=1, nodes=1, tenants=1, zone_percent=100)),
        # All of db's and x's ready pods are there; web has one elsewhere.
        (
            of_nodes("node/a1", drain=True),
            BlastRadius(pods=4, nodes=1, tenants=1, zone_percent=34, below_minimum=2),
        ),
        (of_nodes("zone/c", drain=True), BlastRadius()),
    ],
)  # fmt: skip
def test_what_an_override_concerns_is_counted(given: SchedulerOverride, concerns: BlastRadius) -> None:
    assert blast_radius(given, CLUSTER) == concerns


def test_a_drain_of_infrastructure_keeps_to_its_scope() -> None:
    changes = {"cordon": True}
    cordon = override(namespace="fathom-system", target="zone/a", changes=changes, scope="node/a2")
    labels = {"kubernetes.io/hostname": "a2", ZONE: "a"}
    named = {"kind": "Node", "metadata": {"name": "a2", "labels": labels}}
    assert blast_radius(cordon, Cluster(*NODES[:1], named)) == BlastRadius(nodes=1, zone_percent=50)


def test_a_budget_says_how_many_ready_pods_a_workload_may_lose() -> None:
    drain = of_nodes("node/a1", drain=True)
    counted = {
        allowed: blast_radius(drain, Cluster(*NODES, *PODS, budget("web", allowed))).below_minimum
        for allowed in (1, 2)
    }
    assert counted == {1: 3, 2: 2}  # Beside db and x.


def test_limits_name_what_is_beyond_them() -> None:
    limits = SteeringLimitsSpec(
        max_pods=3, max_nodes=0, max_zone_percent=50, max_tenants=1, max_below_minimum=1
    )
    within = BlastRadius(pods=3, tenants=1, zone_percent=50, below_minimum=1)
    assert beyond_limits(within, limits) == []
    beyond = BlastRadius(pods=4, nodes=1, tenants=2, zone_percent=51, below_minimum=2)
    assert [cause.message for cause in beyond_limits(beyond, limits)] == [
        f"it concerns 4 pods, {ALLOWS} 3 (maxPods)",
        f"it concerns 1 nodes, {ALLOWS} 0 (maxNodes)",
        f"it concerns 51 % of a zone's nodes, {ALLOWS} 50 (maxZonePercent)",
        f"it concerns 2 tenants, {ALLOWS} 1 (maxTenants)",
        f"it concerns 2 workloads below their minimum, {ALLOWS} 1 (maxBelowMinimum)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "others", "limits", "found"),
    [
        # Of the same effect: web has four pods, db one; in all five.
        (
            {},
            ({"target": "workload/db"},),
            {"max_pods": 4},
            ["shop/other-0 it concerns 5 pods, {} 4 (maxPods)"],
        ),
        ({}, ({"target": "workload/db"},), {"max_pods": 5}, []),
        # Of another effect.
        ({}, ({"target": "workload/db", "changes": {"avoidZones": ["a"]}},), {"max_pods": 4}, []),
        # Its pods are concerned already.
        ({"scope": "zone/a"}, ({}, {"target": "workload/db"}), {"max_pods": 4}, []),
        # Alone it is beyond: `beyond_limits` says so.
        ({}, ({"target": "workload/db"},), {"max_pods": 3}, []),
        # One effect after the other, not all effects in one sum.
        (
            {"changes": {"pauseRollout": True, "avoidZones": ["a"]}},
            ({"target": "workload/db"}, {"target": "workload/x", "changes": {"avoidZones": ["a"]}}),
            {"max_pods": 5},
            [],
        ),
    ],
)  # fmt: skip
def test_overrides_of_one_effect_are_limited_together(
    given: Obj, others: tuple[Obj, ...], limits: Obj, found: list[str]
) -> None:
    mine, cluster = override(**given), Cluster(*NODES, *PODS)
    in_force = [override(f"other-{number}", **other) for number, other in enumerate(others)]
    causes = beyond_limits_together(mine, in_force, SteeringLimitsSpec(**limits), cluster)
    assert [cause.message for cause in causes] == [
        f"together with the active override {text.format(ALLOWS)}" for text in found
    ]


def test_workloads_below_their_minimum_are_counted_over_all_drains() -> None:
    """web is on a1 and b1: each drain alone leaves it a ready pod."""
    cluster = Cluster(*NODES, *(each for each in PODS if each["metadata"]["name"] != "web-4"))
    first, second = of_nodes("node/a1", drain=True), of_nodes("node/b1", drain=True)
    in_force = [msgspec.structs.replace(second, metadata=msgspec.structs.replace(second.metadata, name="p"))]
    limits = SteeringLimitsSpec(max_below_minimum=2)
    assert beyond_limits(blast_radius(first, cluster), limits) == []
    (cause,) = beyond_limits_together(first, in_force, limits, cluster)
    assert cause.message == (
        f"together with the active override fathom-system/p it concerns 3 workloads below their minimum,"
        f" {ALLOWS} 2 (maxBelowMinimum)"
    )


def test_overrides_of_other_namespaces_are_counted_and_not_named() -> None:
    mine, other = of_nodes("node/a1", cordon=True), of_nodes("node/b1", cordon=True)
    theirs = msgspec.structs.replace(
        other, metadata=msgspec.structs.replace(other.metadata, namespace="theirs", name="secret-work")
    )
    limits = SteeringLimitsSpec(max_nodes=1)
    (cause,) = beyond_limits_together(mine, [theirs], limits, Cluster(*NODES))
    assert cause.message.startswith("together with 1 other active override it concerns 2 nodes")


def test_extensions_are_bounded_in_number_and_in_all() -> None:
    limits = SteeringLimitsSpec(max_extensions=2, max_total_duration="1h")
    status = {"extensions": 2, "expiresAt": "2026-01-01T01:00:00Z"}
    assert list(beyond_extensions(override(status=status), limits)) == []
    status = {"extensions": 3, "expiresAt": "2026-01-01T01:00:01Z"}
    assert [cause.message for cause in beyond_extensions(override(status=status), limits)] == [
        f"it would be extension 3, {ALLOWS} 2 (maxExtensions)",
        "it would last longer in all than SteeringLimits fathom-system/default allows (1h, maxTotalDuration)",
    ]


def test_limits_are_those_of_the_object_and_else_the_defaults() -> None:
    stored = {
        "kind": "SteeringLimits",
        "metadata": {"namespace": "fathom-system", "name": "default"},
        "spec": {"maxPods": 7, "approvals": "on"},
    }
    assert limits_in_force(Cluster(stored)) == SteeringLimitsSpec(max_pods=7, approvals="on")
    assert limits_in_force(Cluster()) == SteeringLimitsSpec()
    assert limits_in_force(Cluster({**stored, "spec": {"maxPods": "many"}})) == SteeringLimitsSpec()


@pytest.mark.parametrize(
    ("changes", "target", "asked"),
    [
        ({"pauseAutoscaler": True, "avoidZones": ["a"], CLASS: "r"}, "workload/web", ()),
        ({CLASS: "r", "reservedReplicas": 11}, "workload/web", (CLASS,)),
        ({CLASS: "r", "reservedReplicas": 10}, "workload/web", ()),
        ({"cordon": True}, "node/a1", ()),
        ({"drain": True}, "node/a1", ("drain",)),
        ({"trafficWeights": {"eu": 1}}, "workload/web", ("trafficWeights",)),
        ({"approveRepairs": ["p"]}, "workload/web", ("approveRepairs",)),
        ({"breakGlassRole": "r"}, "workload/web", ()),  # It is reviewed afterwards.
    ],
)  # fmt: skip
def test_risky_changes_need_approval_where_approvals_are_on(
    changes: Obj, target: str, asked: tuple[str, ...]
) -> None:
    given, radius = override(target=target, changes=changes), BlastRadius(pods=4)
    assert changes_to_approve(given, radius, SteeringLimitsSpec(approvals="on")) == asked
    assert changes_to_approve(given, radius, SteeringLimitsSpec()) == ()


@pytest.mark.parametrize(
    ("mine", "theirs", "relation"),
    [
        ({"pauseRollout": True}, {"pauseRollout": True}, IDENTICAL),
        ({"avoidZones": ["a"]}, {"avoidZones": ["a", "b"]}, SHADOWED),
        ({"avoidZones": ["a", "c"]}, {"avoidZones": ["a", "b"]}, MERGED),
        ({"avoidZones": ["b", "a"]}, {"avoidZones": ["a", "b"]}, IDENTICAL),
        ({"avoidTopology": {"rack": ["1"]}}, {"avoidTopology": {"rack": ["1", "2"]}}, SHADOWED),
        ({"raisePriority": 5}, {"raisePriority": 9}, SHADOWED),
        ({"raisePriority": 9}, {"raisePriority": 5}, MERGED),
        ({"trafficWeights": {"eu": 1}}, {"trafficWeights": {"eu": 2}}, CONTRADICTORY),
        ({"trafficWeights": {"eu": 1}}, {"trafficWeights": {"eu": 1}}, IDENTICAL),
        ({CLASS: "r"}, {CLASS: "s"}, CONTRADICTORY),
        ({CLASS: "r"}, {CLASS: "r", "reservedReplicas": 2}, CONTRADICTORY),
        ({"pauseRollout": True}, {"pauseRepair": True}, None),
        ({"breakGlassRole": "r"}, {"breakGlassRole": "s"}, CONTRADICTORY),
    ],
)  # fmt: skip
def test_the_column_merge_says_how_two_changes_relate(mine: Obj, theirs: Obj, relation: str | None) -> None:
    found = relations(override(changes=mine), (override("other", changes=theirs),), ())
    assert [each.relation for each in found] == ([relation] if relation else [])


@pytest.mark.parametrize(
    ("mine", "theirs", "meet"),
    [
        ({}, {"target": "deployment/web"}, True),
        ({}, {"target": "workload/db"}, False),
        ({"target": "job/web"}, {"target": "deployment/web"}, False),
        ({}, {"namespace": "other"}, False),
        ({"scope": "zone/a"}, {"scope": "zone/b"}, False),
        ({"scope": "zone/a"}, {"scope": "region/eu"}, True),
        ({"scope": "zone/a"}, {"scope": "region/us"}, False),
        ({"scope": "zone/nowhere"}, {"scope": "zone/nowhere"}, True),
        ({"scope": "zone/a"}, {}, True),
    ],
)
def test_only_overrides_of_one_target_with_a_common_place_relate(mine: Obj, theirs: Obj, meet: bool) -> None:
    labels = [each["metadata"]["labels"] for each in NODES]
    found = relations(override(**mine), (override("other", **theirs),), labels)
    assert bool(found) is meet


@pytest.mark.parametrize(
    ("mine", "theirs", "meet"),
    [
        ("replicaset/web-1", "deployment/web", True),
        ("workload/web", "replicaset/web-1", True),
        ("workload/web-1", "workload/web", True),
        ("replicaset/web-1", "replicaset/web-2", False),
        ("replicaset/web-1", "job/web", False),
        ("replicaset/alone", "deployment/web", False),
    ],
)
def test_a_replica_set_is_a_part_of_its_deployment(mine: str, theirs: str, meet: bool) -> None:
    deployments = {("shop", "web-1"): "web", ("shop", "web-2"): "web"}
    found = relations(override(target=mine), (override("other", target=theirs),), (), deployments)
    assert bool(found) is meet


def test_the_deployment_behind_a_target_is_its_owner() -> None:
    owner = {"kind": "Deployment", "name": "web", "controller": True}
    owned = named("ReplicaSet", "web-1")
    owned["metadata"]["ownerReferences"] = [owner]
    view = Cluster(owned, named("ReplicaSet", "alone"))
    overrides = [override(target=f"replicaset/{name}") for name in ("web-1", "alone", "gone")]
    assert deployments_behind(overrides, view) == {("shop", "web-1"): "web"}


def test_break_glass_of_two_people_does_not_meet() -> None:
    mine = override(changes={"breakGlassRole": "r"}, status={"author": "jane"})
    theirs = override("other", changes={"breakGlassRole": "s"}, status={"author": "tom"})
    assert relations(mine, (theirs,), ()) == []


def named(kind: str, name: str, namespace: str = "shop") -> Obj:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}}


def test_a_name_that_two_workloads_have_is_ambiguous() -> None:
    both = Cluster(named("Deployment", "web"), named("Job", "web"), named("ReplicaSet", "web", "other"))
    (cause,) = ambiguity(override(), both)
    assert (cause.field, cause.message) == (
        "spec.target",
        'Invalid value: "workload/web": a Deployment and a Job have this name: say deployment/web or job/web',
    )
    assert ambiguity(override(target="job/web"), both) == []
    assert ambiguity(override(), Cluster(named("Job", "web"))) == []


def test_names_of_nothing_are_warned_of_one_by_one() -> None:
    nodes = {each["metadata"]["name"]: each["metadata"]["labels"] for each in NODES}
    changes = {
        "avoidZones": ["a", "c"],
        "avoidNodes": ["a1", "z9"],
        "avoidPools": ["p"],
        "avoidTopology": {"rack": ["7"]},
        CLASS: "recovery",
        "approveRepairs": ["one"],
        "trafficWeights": {"eu": 1, "a": 1, "asia": 1},
    }
    assert names_of_nothing(override(scope="region/asia", changes=changes), nodes, Cluster()) == [
        'spec.target: namespace "shop" has no workload "web"',
        "spec.scope: no node is in region/asia",
        "spec.changes.avoidZones: no node has the label topology.kubernetes.io/zone=c",
        "spec.changes.avoidPools: no node has the label fathom.dev/pool=p",
        "spec.changes.avoidTopology: no node has the label rack=7",
        'spec.changes.avoidNodes: there is no node "z9"',
        'spec.changes.trafficWeights: no node is in a region, zone or pool "asia"',
        'spec.changes.allowReservedCapacityClass: there is no CapacityClass "recovery"',
        'spec.changes.approveRepairs: there is no RepairProposal "one"',
    ]
    there = Cluster(named("Deployment", "web"))
    assert names_of_nothing(override(scope="region/eu"), nodes, there) == []
    assert names_of_nothing(of_nodes("node/a1", cordon=True), nodes, Cluster()) == []
    assert names_of_nothing(of_nodes("pool/p", cordon=True), nodes, Cluster()) == [
        'spec.target: there is no pool "p"'
    ]
