"""Whether a pod fits a node, in kubelet's words."""

from __future__ import annotations

import pytest

from fathom.agent.admission import ClaimedPort, NodeClaim, Rejection, claim_of, plan_admission, was_admitted
from fathom.model.objects import Obj

NODE: Obj = {
    "metadata": {"name": "n1", "labels": {"disk": "ssd", "cores": "16"}},
    "status": {
        "allocatable": {
            "cpu": "4", "memory": "4Gi", "pods": "3", "ephemeral-storage": "10Gi", "example.com/gpu": "2",
        }
    },
}  # fmt: skip


def pod(requests: Obj | None = None, *, ports: tuple[Obj, ...] = (), **spec: object) -> Obj:
    main = {"name": "main", "resources": {"requests": requests or {}}, "ports": list(ports)}
    return {"metadata": {"name": "p"}, "spec": {"containers": [main], **spec}}


def test_a_pod_that_fits_exactly_is_admitted() -> None:
    taken = [claim_of(pod({"cpu": "3400m", "memory": "3Gi"}))]
    assert plan_admission(pod({"cpu": "600m", "memory": "1Gi"}), NODE, taken) is None


@pytest.mark.parametrize(
    ("requests", "reason", "numbers"),
    [
        ({"cpu": "64"}, "OutOfcpu", "cpu, requested: 64000, used: 3400, capacity: 4000"),
        ({"cpu": "601m"}, "OutOfcpu", "cpu, requested: 601, used: 3400, capacity: 4000"),
        ({"memory": "4Gi"}, "OutOfmemory",
         "memory, requested: 4294967296, used: 1073741824, capacity: 4294967296"),
        ({"ephemeral-storage": "11Gi"}, "OutOfephemeral-storage",
         "ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240"),
        ({"example.com/gpu": "2"}, "OutOfexample.com/gpu",
         "example.com/gpu, requested: 2, used: 1, capacity: 2"),
        ({"hugepages-2Mi": "2Mi"}, "OutOfhugepages-2Mi",
         "hugepages-2Mi, requested: 2097152, used: 0, capacity: 0"),
        ({"memory": "9Gi", "cpu": "9"}, "OutOfcpu", "cpu, requested: 9000, used: 3400, capacity: 4000"),
    ],
)  # fmt: skip
def test_what_is_lacking_is_named_with_its_numbers(requests: Obj, reason: str, numbers: str) -> None:
    taken = [claim_of(pod({"cpu": "3400m", "memory": "1Gi", "example.com/gpu": "1"}))]
    found = plan_admission(pod(requests), NODE, taken)
    assert found == Rejection(reason, f"Node didn't have enough resource: {numbers}")


def test_a_resource_that_the_node_does_not_have_a_word_for_is_somebody_elses_to_count() -> None:
    assert plan_admission(pod({"example.com/licence": "5"}), NODE, ()) is None


def test_a_node_holds_so_many_pods_and_no_more() -> None:
    found = plan_admission(pod(), NODE, [claim_of(pod())] * 3)
    message = "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
    assert found == Rejection("OutOfpods", message)
    assert plan_admission(pod(), NODE, [claim_of(pod())] * 2) is None


def test_who_asks_for_nothing_fits_where_nothing_is_left() -> None:
    over = NodeClaim({"cpu": 9000, "memory": 1 << 40, "pods": 1})
    assert plan_admission(pod(), NODE, [over]) is None


def required(*expressions: Obj, fields: tuple[Obj, ...] = ()) -> Obj:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": wanted}}


def expression(key: str, operator: str, *values: str) -> Obj:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, True),
        ({"nodeSelector": {"disk": "tape"}}, False),
        (required(expression("disk", "In", "ssd", "tape")), True),
        (required(expression("disk", "NotIn", "ssd")), False),
        (required(expression("zone", "DoesNotExist")), True),
        (required(expression("zone", "Exists")), False),
        (required(expression("cores", "Gt", "8")), True),
        (required(expression("cores", "Lt", "8")), False),
        (required(expression("cores", "Gt", "many")), False),
        (required(expression("disk", "Almost", "ssd")), False),
        (required(expression("disk", "In", "ssd"), expression("zone", "Exists")), False),
        (required(fields=(expression("metadata.name", "In", "n1"),)), True),
        (required(fields=(expression("metadata.name", "In", "n2"),)), False),
        (required(), False),
    ],
)
def test_a_pod_is_taken_only_where_its_selector_and_affinity_hold(spec: Obj, fits: bool) -> None:
    words = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    expected = None if fits else Rejection("NodeAffinity", words)
    assert plan_admission(pod(**spec), NODE, ()) == expected


@pytest.mark.parametrize(
    ("mine", "theirs", "fits"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, True),
        ({"hostPort": 80, "hostIP": "127.0.0.1"}, {"hostPort": 80, "hostIP": "127.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "127.0.0.1"}, {"hostPort": 80}, False),
        ({"hostPort": 80, "hostIP": "::"}, {"hostPort": 80, "hostIP": "127.0.0.2"}, False),
        ({"containerPort": 80}, {"hostPort": 80}, True),
    ],
)
def test_a_host_port_belongs_to_one_pod(mine: Obj, theirs: Obj, fits: bool) -> None:
    words = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    expected = None if fits else Rejection("NodePorts", words)
    assert plan_admission(pod(ports=(mine,)), NODE, [claim_of(pod(ports=(theirs,)))]) == expected


def test_a_claim_counts_what_runs_together() -> None:
    sidecar = {
        "name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}},
        "ports": [{"hostPort": 9}],
    }  # fmt: skip
    first = {"name": "first", "resources": {"requests": {"cpu": "500m"}}, "ports": [{"hostPort": 8}]}
    whole = pod({"cpu": "250m", "memory": "0"}, initContainers=[sidecar, first])
    assert claim_of(whole) == NodeClaim({"cpu": 1500, "pods": 1}, (ClaimedPort(9, "TCP", "0.0.0.0"),))


def test_a_pod_that_an_agent_took_or_that_has_ended_is_not_asked_about() -> None:
    assert not was_admitted(pod())
    assert was_admitted({**pod(), "status": {"startTime": "2026-01-01T00:00:00Z"}})
    assert was_admitted({**pod(), "status": {"phase": "Failed"}})
