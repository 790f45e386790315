"""Which workloads and nodes an override is about, and where it applies."""

from __future__ import annotations

import pytest

from fathom.kinds.override_scope import (
    WorkloadName,
    targets_node,
    targets_workload,
    workload_in_scope,
    workload_names,
)
from fathom.kinds.scheduler_override import SchedulerOverride, cordons
from fathom.kinds.shape import read
from fathom.model.objects import Obj

WEST = {"topology.kubernetes.io/region": "eu-west", "topology.kubernetes.io/zone": "eu-west-a"}
EAST = {"topology.kubernetes.io/region": "eu-east", "topology.kubernetes.io/zone": "eu-east-a"}


def override(target: str, scope: str = "cluster", **changes: object) -> SchedulerOverride:
    spec = {"target": target, "scope": scope, "changes": changes}
    return read(SchedulerOverride, {"metadata": {"namespace": "default", "name": "calm"}, "spec": spec})


def pod(owner: str = "", kind: str = "ReplicaSet", **labels: str) -> Obj:
    owners = [{"kind": kind, "name": owner, "uid": "1", "controller": True}] if owner else []
    return {"metadata": {"namespace": "default", "name": "p", "labels": labels, "ownerReferences": owners}}


def test_a_pod_is_its_controllers_and_their_deployments() -> None:
    itself = WorkloadName("pod", "p")
    assert workload_names("Pod", pod()) == (itself,)
    assert workload_names("Pod", pod("web", "Job")) == (itself, WorkloadName("job", "web"))
    hashed = pod("web-7f2", **{"pod-template-hash": "7f2"})
    assert workload_names("Pod", hashed) == (
        itself,
        WorkloadName("replicaset", "web-7f2"),
        WorkloadName("deployment", "web"),
    )


@pytest.mark.parametrize(
    ("target", "targeted"),
    [
        ("workload/web", True),
        ("deployment/web", True),
        ("replicaset/web-7f2", True),
        ("workload/web-7f2", True),
        ("job/web", False),
        ("replicaset/web", False),
        ("node/web", False),
    ],
)
def test_a_target_names_a_workload_of_any_kind_or_of_its_own(target: str, targeted: bool) -> None:
    names = workload_names("Pod", pod("web-7f2", **{"pod-template-hash": "7f2"}))
    assert targets_workload(override(target), "default", names) is targeted
    assert not targets_workload(override(target), "elsewhere", names)


def test_a_workload_is_in_scope_with_one_pod_there_or_without_pods_where_a_node_is() -> None:
    assert workload_in_scope("region/eu-west", [EAST, WEST], [])
    assert not workload_in_scope("region/eu-west", [EAST], [EAST, WEST])
    assert workload_in_scope("region/eu-west", [], [EAST, WEST])
    assert not workload_in_scope("region/eu-west", [], [EAST])
    assert workload_in_scope("cluster", [], [])
    assert workload_in_scope("", [], [])


def test_a_cordon_is_for_the_nodes_of_its_target_that_are_in_its_scope() -> None:
    whole = override("zone/eu-west-a", cordon=True)
    assert [cordons(whole, "n", labels) for labels in (WEST, EAST)] == [True, False]
    elsewhere = override("zone/eu-west-a", "region/eu-east", cordon=True)
    assert [cordons(elsewhere, "n", labels) for labels in (WEST, EAST)] == [False, False]
    region = override("zone/eu-west-a", "region/eu-west", drain=True)
    assert [cordons(region, "n", labels) for labels in (WEST, EAST)] == [True, False]


def test_a_node_is_targeted_by_name_zone_or_pool_also_when_it_is_gone() -> None:
    assert targets_node(override("node/n1"), "n1", WEST)
    assert targets_node(override("node/n1"), "n1", {})
    assert targets_node(override("node/n1", "region/eu-west"), "n1", {})
    assert targets_node(override("zone/eu-west-a"), "n1", WEST)
    assert not targets_node(override("zone/eu-west-a"), "n1", EAST)
    assert not targets_node(override("zone/eu-west-a", "region/eu-east"), "n1", WEST)
    assert not targets_node(override("workload/n1"), "n1", WEST)
