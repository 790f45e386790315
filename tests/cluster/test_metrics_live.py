"""Every process of a running cluster can be measured, by whom it should, and by nobody else."""

from __future__ import annotations

import http.client
import os
import re
import signal
import ssl
from urllib.parse import urlsplit

import pytest
import yaml
from prometheus_client import Metric
from tests.clients.running import tls_of
from tests.cluster.living import Cluster, until
from tests.metrics.reading import DEPLOY, expressions, family_of, labels_of, metrics_of, strictly, value

SYSTEM = "/namespaces/fathom-system"
SLICES = f"/apis/discovery.k8s.io/v1{SYSTEM}/endpointslices"
PODS = "/api/v1/namespaces/default/pods"
COLLECTIONS = {
    "ServiceAccount": f"/api/v1{SYSTEM}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": f"/apis/rbac.authorization.k8s.io/v1{SYSTEM}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1{SYSTEM}/rolebindings",
}
Families = dict[str, Metric]


def published(cluster: Cluster) -> list[dict[str, object]]:
    listed = cluster.ask("GET", SLICES)["items"]
    return [one for one in listed if one["metadata"]["name"].startswith("metrics.")]


def paths(cluster: Cluster) -> list[str]:
    """As Prometheus discovers them with deploy/prometheus.yaml."""
    until(lambda: len(published(cluster)) == 2, lambda: f"{published(cluster)} {cluster.told()}")
    names = [str(one["metadata"]["name"]).removeprefix("metrics.") for one in published(cluster)]  # type: ignore[index]
    nodes = [node["metadata"]["name"] for node in cluster.ask("GET", "/api/v1/nodes")["items"]]
    return [
        "/metrics",
        *(f"/metrics/{name}" for name in names),
        *(f"/api/v1/nodes/{name}/proxy/metrics" for name in nodes),
    ]


def read(cluster: Cluster, path: str) -> Families:
    return strictly(str(cluster.ask("GET", path)))


def everything(cluster: Cluster) -> Families:
    found: Families = {}
    for path in paths(cluster):
        for name, family in read(cluster, path).items():
            found.setdefault(name, family).samples.extend(family.samples)
    return found


def status_of(cluster: Cluster, path: str, token: str) -> int:
    """With a bearer token, or without any credentials."""
    context = ssl.create_default_context(cafile=str(cluster.data / "pki" / "ca.crt"))
    connection = http.client.HTTPSConnection(urlsplit(cluster.url).netloc, context=context, timeout=20)
    try:
        connection.request("GET", path, headers={"authorization": f"Bearer {token}"} if token else {})
        return connection.getresponse().status
    finally:
        connection.close()


def token_of(cluster: Cluster, namespace: str, account: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(cluster.ask("POST", path, body)["status"]["token"])


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/metrics", {"apiserver_request_total", "apiserver_registered_watchers", "fathom_store_revision"}),
        ("/metrics/scheduler", {"scheduler_pending_pods", "fathom_scheduler_pending_pods"}),
        ("/metrics/scheduler", {"scheduler_schedule_attempts_total", "leader_election_master_status"}),
        ("/metrics/controllers", {"workqueue_depth", "fathom_node_brake_engaged", "fathom_lease_epoch"}),
        ("/metrics/controllers", {"fathom_journal_bytes", "fathom_tape_bytes", "fathom_breaker_state"}),
        ("/metrics/gateway", {"fathom_gateway_connections_total", "fathom_cache_age_seconds"}),
        ("/api/v1/nodes/node-1/proxy/metrics", {"kubelet_running_pods", "rest_client_requests_total"}),
        ("/api/v1/nodes/node-2/proxy/metrics", {"fathom_agent_heartbeat_age_seconds"}),
    ],
)
def test_each_process_tells_what_it_counts(cluster: Cluster, path: str, names: set[str]) -> None:
    paths(cluster)
    found = read(cluster, path)
    assert names - set(found) == set()
    assert value(found, "process_resident_memory_bytes") > 0
    assert all(found[name].samples for name in names)


def test_all_pages_that_discovery_finds_can_be_read_and_every_metric_is_documented(cluster: Cluster) -> None:
    document = (DEPLOY.parent / "docs" / "metrics.md").read_text()
    found = everything(cluster)
    assert [name for name in sorted(found) if f"`{name}`" not in document] == []
    told = set(re.findall(r"^\| `([a-z]+_[a-z_]+)`", document, re.M))
    assert sorted(told - set(found)) == []


def test_every_metric_of_the_rules_and_the_dashboard_exists_with_the_labels_they_use(
    cluster: Cluster,
) -> None:
    found = everything(cluster)
    for place, expression in expressions().items():
        names = metrics_of(expression) - {"up"}  # Of Prometheus itself.
        assert {name for name in names if family_of(name) not in found} == set(), place
        for name, labels in labels_of(expression).items():
            samples = found[family_of(name)].samples if name != "up" else []
            assert all(labels <= set(one.labels) for one in samples), place


def test_health_of_each_process_is_told_beside_the_servers_own(cluster: Cluster) -> None:
    paths(cluster)
    for path in ("/healthz/scheduler", "/livez/controllers", "/readyz/gateway", "/readyz/ping"):
        assert cluster.ask("GET", path) == "ok"
    assert cluster.ask("GET", "/api/v1/nodes/node-1/proxy/healthz") == "ok"


def test_a_pod_without_a_node_is_counted_by_the_rule_that_keeps_it(cluster: Cluster) -> None:
    paths(cluster)
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1000"}}}
    pod = {"metadata": {"name": "too-large"}, "spec": {"containers": [container]}}
    cluster.ask("POST", PODS, pod)

    def counted() -> bool:
        found = read(cluster, "/metrics/scheduler")
        return (
            value(found, "fathom_scheduler_pending_pods", reason="NodeResourcesFit") == 1
            and value(found, "scheduler_unschedulable_pods", plugin="NodeResourcesFit") == 1
            and value(found, "scheduler_pending_pods", queue="unschedulable") == 1
        )

    until(counted, lambda: str(cluster.ask("GET", "/metrics/scheduler")))
    cluster.ask("DELETE", f"{PODS}/too-large")
    until(
        lambda: value(read(cluster, "/metrics/scheduler"), "scheduler_pending_pods") == 0,
        lambda: str(cluster.ask("GET", "/metrics/scheduler")),
    )


def test_a_pod_that_is_bound_is_counted_with_the_time_that_it_took(cluster: Cluster) -> None:
    paths(cluster)
    took, attempts = "scheduler_pod_scheduling_sli_duration_seconds", "scheduler_schedule_attempts_total"

    def bound() -> tuple[float, float]:
        found = read(cluster, "/metrics/scheduler")
        counts = sum(one.value for one in found[took].samples if one.name.endswith("_count"))
        return counts, value(found, attempts, result="scheduled")

    before = bound()
    container = {"name": "main", "image": "program", "command": ["true"]}
    pod = {"metadata": {"name": "quick"}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    cluster.ask("POST", PODS, pod)
    until(
        lambda: bound() == (before[0] + 1, before[1] + 1),
        lambda: f"{before} {bound()} {cluster.ask('GET', PODS)}",
    )
    cluster.ask("DELETE", f"{PODS}/quick")


def test_the_documented_account_reads_all_of_them_and_others_none(cluster: Cluster) -> None:
    for obj in yaml.safe_load_all((DEPLOY / "metrics-reader.yaml").read_text()):
        cluster.ask("POST", COLLECTIONS[obj["kind"]], obj)
    reader = token_of(cluster, "fathom-system", "metrics-reader")
    tenant = token_of(cluster, "default", "default")
    for path in paths(cluster):
        assert (status_of(cluster, path, reader), path) == (200, path)
        assert (status_of(cluster, path, tenant), path) == (403, path)
        assert status_of(cluster, path, "") in {401, 403}, path
    assert status_of(cluster, SLICES, reader) == 200
    assert status_of(cluster, "/api/v1/secrets", reader) == 403


def test_a_process_itself_answers_nobody_but_the_api_server(cluster: Cluster) -> None:
    paths(cluster)
    for one in cluster.ask("GET", SLICES)["items"]:
        where = (one["endpoints"][0]["addresses"][0], one["ports"][0]["port"])
        stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        with pytest.raises((ssl.SSLError, ConnectionError)):
            _get(where, stranger)
        administrator = tls_of(cluster.data / "kubeconfig")
        administrator.check_hostname = False
        administrator.verify_mode = ssl.CERT_NONE
        assert _get(where, administrator) == (403, "only the API server may send requests here")


def _get(where: tuple[str, int], tls: ssl.SSLContext) -> tuple[int, str]:
    connection = http.client.HTTPSConnection(*where, context=tls, timeout=20)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_process_that_is_started_again_says_so_and_is_found_again(cluster: Cluster) -> None:
    before = value(read(cluster, "/metrics/gateway"), "fathom_process_restarts_total")
    os.kill(cluster.parts()["gateway"], signal.SIGKILL)

    def restarted() -> bool:
        try:
            return value(read(cluster, "/metrics/gateway"), "fathom_process_restarts_total") == before + 1
        except AssertionError:  # The API server has not heard yet where it listens now.
            return False

    until(restarted, cluster.told)


def test_the_view_that_questions_need_is_made_before_anybody_asks(cluster: Cluster) -> None:
    nodes = len(cluster.ask("GET", "/api/v1/nodes")["items"])
    os.kill(cluster.parts()["api"], signal.SIGKILL)

    def is_made() -> bool:
        try:
            return value(read(cluster, "/metrics"), "fathom_question_view_objects") >= nodes > 0
        except (AssertionError, OSError):  # The API server is not back yet.
            return False

    until(is_made, cluster.told)
