"""Overrides on a running cluster: who has observed one, what it drains and shifts, the proof of its end."""

from __future__ import annotations

import pytest
from tests.clients.kubectl import Kubectl
from tests.cluster.living import Cluster, Obj, until
from tests.cluster.programs import deployment, own

from fathom.model.conditions import conditions_of, find_condition

OWN = "/apis/fathom.dev/v1alpha1"
SOON = "--timeout=40s"
LESSON = {
    "pauseAutoscaler": True,
    "avoidZones": ["a"],
    "allowReservedCapacityClass": "recovery",
}


def read(cluster: Cluster, namespace: str, name: str) -> Obj:
    obj: Obj = cluster.ask("GET", f"{OWN}/namespaces/{namespace}/scheduleroverrides/{name}")
    return obj


def is_active(kubectl: Kubectl, name: str) -> None:
    kubectl.ok(f"wait scheduleroverride/{name} --for=jsonpath={{.status.active}}=true {SOON}")


def events_about(kubectl: Kubectl, name: str) -> list[str]:
    chosen = f"involvedObject.name={name}"
    return kubectl.ok(f"get events --field-selector {chosen} -o jsonpath={{.items[*].reason}}").split()


def test_the_lessons_override_is_acknowledged_and_goes_when_its_end_is_proven(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    kubectl.create(deployment("risk-api", replicas=1))
    spec = {"scope": "cluster", "reason": "recovery-capacity", "expiresAfter": "45m", "changes": LESSON}
    kubectl.create(own("SchedulerOverride", "recovery", target="workload/risk-api", **spec))
    is_active(kubectl, "recovery")
    status = read(cluster, kubectl.namespace, "recovery")["status"]
    assert status["affectedControllers"] == ["scheduler", "autoscaler", "quota-controller"]
    assert status["observedGeneration"] == 1
    assert {(each["name"], each["state"]) for each in status["changes"]} == {
        ("pauseAutoscaler", "NoMatch"),
        ("avoidZones", "InForce"),
        ("allowReservedCapacityClass", "NoMatch"),
    }
    until(lambda: "Observed" in events_about(kubectl, "recovery"), cluster.told)
    kubectl.ok(f"delete scheduleroverride recovery {SOON}")  # Waits until the finalizer is gone.
    until(lambda: "Ended" in events_about(kubectl, "recovery"), cluster.told)


@pytest.mark.full
def test_an_expired_override_stays_with_its_proof(cluster: Cluster, kubectl: Kubectl) -> None:
    spec = {"scope": "cluster", "reason": "a drill", "expiresAfter": "4s", "changes": {"avoidZones": ["a"]}}
    kubectl.create(own("SchedulerOverride", "short", target="workload/nothing", **spec))
    kubectl.ok(f"wait scheduleroverride/short --for=condition=RepairComplete {SOON}")
    obj = read(cluster, kubectl.namespace, "short")
    assert obj["status"]["active"] is False
    assert (find_condition(conditions_of(obj), "Effective") or {})["reason"] == "Ended"


def test_a_drain_evicts_and_a_shift_of_traffic_is_undone(cluster: Cluster, kubectl: Kubectl) -> None:
    labels, ports = {"app": "web"}, [{"port": 80}]
    kubectl.create(
        deployment("web", replicas=3),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": labels, "ports": ports},
        },
    )
    kubectl.ok(f"rollout status deployment/web {SOON}")
    shift = {"scope": "cluster", "reason": "a drill", "expiresAfter": "10m"}
    kubectl.create(
        own(
            "SchedulerOverride",
            "shift",
            target="workload/web",
            changes={"trafficWeights": {"a": 0, "b": 1}},
            **shift,
        )
    )
    kubectl.ok(f"wait trafficroute/override-shift --for=create {SOON}")
    system = kubectl.within("fathom-system")
    name = f"drain-{kubectl.namespace}"
    system.create(own("SchedulerOverride", name, target="node/node-1", changes={"drain": True}, **shift))
    get = "get pods -l app=web --field-selector=spec.nodeName=node-1 -o name"
    until(lambda: not kubectl.ok(get).split(), cluster.told)
    kubectl.ok(f"rollout status deployment/web {SOON}")
    system.ok(f"delete scheduleroverride {name} {SOON}")
    kubectl.ok(f"delete scheduleroverride shift {SOON}")
    assert not kubectl.ok("get trafficroutes -o name").split()


@pytest.mark.full
def test_a_replica_on_reserved_capacity_is_named_until_it_may_be_there(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    shared, name = kubectl.within(""), f"recovery-{kubectl.namespace}"
    here = {"kubernetes.io/hostname": "node-3"}
    shared.create(own("CapacityClass", name, nodeSelector=here, tenants=[]))
    try:
        kubectl.create(deployment("risk-api", replicas=1, inner={"nodeSelector": here}))
        kubectl.ok(f"wait pods -l app=risk-api --for=condition=PodScheduled=False {SOON}")
        changes = {"allowReservedCapacityClass": name, "reservedReplicas": 1}
        spec = {"scope": "cluster", "reason": "recovery-capacity", "expiresAfter": "30m", "changes": changes}
        kubectl.create(own("SchedulerOverride", "recovery", target="workload/risk-api", **spec))
        kubectl.ok(f"rollout status deployment/risk-api {SOON}")
        kubectl.ok("delete scheduleroverride recovery --wait=false")
        pod = kubectl.ok("get pods -l app=risk-api -o jsonpath={.items[0].metadata.name}")
        left = [f"Pod {kubectl.namespace}/{pod}"]
        until(lambda: residue(cluster, kubectl.namespace) == left, cluster.told)
    finally:
        shared.ok(f"delete capacityclass {name}")
    # The node is no longer reserved: the pod moves to the ordinary account, and nothing is left.
    kubectl.ok(f"wait scheduleroverride/recovery --for=delete {SOON}")
    (kept,) = cluster.ask("GET", f"/api/v1/namespaces/{kubectl.namespace}/pods")["items"]
    assert kept["metadata"]["annotations"]["fathom.dev/account"].count("/") == 2


def residue(cluster: Cluster, namespace: str) -> list[str]:
    status = read(cluster, namespace, "recovery").get("status", {})
    return [each["object"] for each in status.get("residue") or ()]
