"""Workloads, jobs and services: what is filled in before anything is judged."""

from __future__ import annotations

from typing import Any

from tests.kube.rules.written import changed, created, defaulted, golden, rules_of, updated

from fathom.kube.rules.compare import difference, same
from fathom.model.objects import Obj


def test_a_deployment_rolls_a_quarter_at_a_time() -> None:
    spec = defaulted("deployments.apps", golden("deployments")["object"])["spec"]
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_a_recreated_deployment_rolls_nothing() -> None:
    obj = changed(golden("deployments")["object"], {"spec/strategy": {"type": "Recreate"}})
    assert defaulted("deployments.apps", obj)["spec"]["strategy"] == {"type": "Recreate"}


def test_a_template_does_not_take_requests_from_limits() -> None:
    path = "spec/template/spec/containers/0/resources"
    obj = changed(golden("deployments")["object"], {path: {"limits": {"cpu": "1"}}})
    spec = defaulted("deployments.apps", obj)["spec"]["template"]["spec"]
    assert spec["containers"][0]["resources"] == {"limits": {"cpu": "1"}}


def test_replica_sets_start_with_no_replicas_and_can_be_selected_by_them() -> None:
    stored = created("replicasets.apps", golden("replicasets")["object"])
    assert stored["status"] == {"replicas": 0}
    field = rules_of("replicasets.apps").field
    assert (field(stored, "status.replicas"), field({}, "status.replicas")) == ("0", "0")
    assert field({"status": {"replicas": 2}}, "status.replicas") == "2"


def test_a_replication_controller_selects_what_its_template_makes() -> None:
    template = golden("replicasets")["object"]["spec"]["template"]
    obj = {"metadata": {"name": "web"}, "spec": {"template": template}}
    read = defaulted("replicationcontrollers", obj)
    assert (read["spec"]["selector"], read["metadata"]["labels"]) == ({"app": "web"}, {"app": "web"})
    assert rules_of("replicationcontrollers").validate_create(read) == []


def test_a_job_selects_its_pods_by_its_own_uid() -> None:
    stored = created("jobs.batch", golden("jobs")["object"])
    assert stored["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}}
    assert stored["spec"]["template"]["metadata"]["labels"] == {
        "job-name": "once",
        "batch.kubernetes.io/job-name": "once",
        "controller-uid": "u1",
        "batch.kubernetes.io/controller-uid": "u1",
    }
    assert rules_of("jobs.batch").field({"status": {"succeeded": 3}}, "status.successful") == "3"


def numbers(**spec: Any) -> tuple[Any, ...]:
    obj = golden("jobs")["object"]
    read = defaulted("jobs.batch", {**obj, "spec": {**obj["spec"], **spec}})["spec"]
    names = ("completions", "parallelism", "backoffLimit", "podReplacementPolicy")
    return tuple(read.get(name) for name in names)


def test_the_numbers_of_a_job_depend_on_each_other() -> None:
    assert numbers() == (1, 1, 6, "TerminatingOrFailed")
    assert numbers(parallelism=3) == (None, 3, 6, "TerminatingOrFailed")
    assert numbers(completions=3) == (3, 1, 6, "TerminatingOrFailed")
    assert numbers(backoffLimitPerIndex=1)[2] == 2147483647
    assert numbers(podFailurePolicy={"rules": []})[3] == "Failed"


def test_a_job_takes_its_labels_from_its_template() -> None:
    obj = changed(golden("jobs")["object"], {"spec/template/metadata": {"labels": {"a": "b"}}})
    assert defaulted("jobs.batch", obj)["metadata"]["labels"] == {"a": "b"}
    own = changed(obj, {"metadata/labels": {"c": "d"}})
    assert defaulted("jobs.batch", own)["metadata"]["labels"] == {"c": "d"}


def service(**changes: Any) -> Obj:
    return created("services", changed(golden("services")["object"], changes))["spec"]  # type: ignore[no-any-return]


def test_a_service_knows_its_target_port_and_family() -> None:
    spec = service()
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (spec["type"], spec["ipFamilies"], spec["ipFamilyPolicy"]) == (
        "ClusterIP",
        ["IPv4"],
        "SingleStack",
    )
    assert spec["internalTrafficPolicy"] == "Cluster"
    assert "externalTrafficPolicy" not in spec


def test_addresses_of_a_service_follow_what_was_asked() -> None:
    assert service(**{"spec/clusterIP": "fd00::1"})["ipFamilies"] == ["IPv6"]
    headless = service(**{"spec/clusterIP": "None"})
    assert (headless["clusterIPs"], headless["ipFamilies"]) == (["None"], ["IPv4"])
    anywhere = service(**{"spec/clusterIP": "None", "spec/selector": {}})
    assert (anywhere["ipFamilies"], anywhere["ipFamilyPolicy"]) == (["IPv4", "IPv6"], "RequireDualStack")


def test_a_service_for_the_outside_has_policies_for_it() -> None:
    spec = service(**{"spec/type": "LoadBalancer", "spec/sessionAffinity": "ClientIP"})
    assert (spec["externalTrafficPolicy"], spec["allocateLoadBalancerNodePorts"]) == ("Cluster", True)
    assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}


def test_a_name_elsewhere_has_no_addresses() -> None:
    spec = service(spec={"type": "ExternalName", "externalName": "example.com"})
    assert spec == {"type": "ExternalName", "externalName": "example.com", "sessionAffinity": "None"}


def test_a_service_loses_what_its_new_type_does_not_have() -> None:
    ports = [{"port": 80, "nodePort": 30080}]
    base = changed(golden("services")["object"], {"spec/type": "NodePort", "spec/ports": ports})
    old = created("services", changed(base, {"spec/clusterIP": "10.0.0.1"}))
    inside = updated("services", changed(old, {"spec/type": "ClusterIP"}), old)["spec"]
    assert inside["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert "externalTrafficPolicy" not in inside
    name = {"spec/type": "ExternalName", "spec/externalName": "example.com"}
    elsewhere = updated("services", changed(old, name), old)["spec"]
    assert {"clusterIP", "clusterIPs", "ipFamilies", "internalTrafficPolicy"} & set(elsewhere) == set()


def test_node_ports_stay_with_their_names() -> None:
    ports = [{"name": "a", "port": 1, "nodePort": 30001}, {"name": "b", "port": 2, "nodePort": 30002}]
    base = changed(golden("services")["object"], {"spec/type": "NodePort", "spec/ports": ports})
    old = created("services", base)
    new = changed(old, {"spec/ports": [{"name": "b", "port": 2}, {"name": "c", "port": 3}]})
    kept = updated("services", new, old)["spec"]["ports"]
    assert [port.get("nodePort") for port in kept] == [30002, None]


def test_a_stateful_set_may_mount_its_claims() -> None:
    stored = created("statefulsets.apps", golden("statefulsets")["object"])
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert stored["spec"]["updateStrategy"] == rolling


def test_meaning_the_same_is_not_spelling_the_same() -> None:
    assert same({"a": [], "b": {}, "c": ""}, {})
    assert same({"hostNetwork": False}, {})
    assert not same({"automountServiceAccountToken": False}, {})
    assert not same({"a": [1]}, {"a": [2]})
    assert same(None, {"a": {"b": []}})


def test_a_difference_names_paths_and_stops_in_time() -> None:
    assert difference({"a": {"b": 1}}, {"a": {"b": 2}}, "spec") == "  spec.a.b: 2 -> 1"
    many = difference({str(n): n for n in range(1, 40)}, {}, "")
    assert many.count("\n") == 10
    assert many.endswith("  ...")
