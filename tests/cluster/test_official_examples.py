"""The official Python client's own examples, those that need no exec, against a running cluster: what they
create really runs, so they are also checked by what comes of it.

After kubernetes-client/python: examples/deployment_crud.py, rolling_update_restart.py, job_crud.py,
pod_namespace_watch.py, node_labels.py, cluster_scoped_custom_object.py, dynamic-client/*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes import client, config, dynamic, watch
from tests.clients.official import names
from tests.cluster.living import Cluster, until

RESTARTED = "kubectl.kubernetes.io/restartedAt"


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[client.ApiClient]:
    made = config.new_client_from_config(str(cluster.data / "kubeconfig"))
    yield made
    made.close()


def soon(check: Callable[[], Any]) -> None:
    until(check, lambda: f"{check.__name__} never came true", 40.0)


def template(app: str, *words: str, policy: str = "Always") -> client.V1PodTemplateSpec:
    container = client.V1Container(name="main", image=f"{app}:1.15.4", command=list(words))
    spec = client.V1PodSpec(containers=[container], restart_policy=policy, termination_grace_period_seconds=1)
    return client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels={"app": app}), spec=spec)


def deployment(app: str, replicas: int) -> client.V1Deployment:
    spec = client.V1DeploymentSpec(
        replicas=replicas,
        template=template(app, "sleep", "1000"),
        selector={"matchLabels": {"app": app}},
    )
    return client.V1Deployment(
        api_version="apps/v1", kind="Deployment", metadata=client.V1ObjectMeta(name=app), spec=spec
    )


def test_deployment_crud_and_rolling_restart(api: client.ApiClient, namespace: str) -> None:
    apps, core = client.AppsV1Api(api), client.CoreV1Api(api)

    def is_rolled_out() -> bool:
        found = apps.read_namespaced_deployment("nginx", namespace)
        status, wanted = found.status, found.spec.replicas
        seen = status.observed_generation == found.metadata.generation
        counts = (status.updated_replicas, status.available_replicas, status.replicas)
        return bool(seen and counts == (wanted, wanted, wanted))

    made = deployment("nginx", 2)
    apps.create_namespaced_deployment(namespace, made)
    soon(is_rolled_out)

    made.spec.template.spec.containers[0].image = "nginx:1.16.0"
    apps.patch_namespaced_deployment("nginx", namespace, made)
    soon(is_rolled_out)
    pods = core.list_namespaced_pod(namespace, label_selector="app=nginx").items
    assert {pod.spec.containers[0].image for pod in pods if not pod.metadata.deletion_timestamp} == {
        "nginx:1.16.0"
    }

    def is_restarted() -> bool:
        """What was read may be old by now: the last pods of the rollout before are still ending."""
        read = apps.read_namespaced_deployment("nginx", namespace)
        read.spec.template.metadata.annotations = {RESTARTED: datetime.now(UTC).isoformat()}
        try:
            apps.patch_namespaced_deployment("nginx", namespace, read)
        except client.exceptions.ConflictException:
            return False
        return True

    soon(is_restarted)
    soon(is_rolled_out)
    assert len(apps.list_namespaced_replica_set(namespace).items) == 3

    apps.patch_namespaced_deployment_scale("nginx", namespace, {"spec": {"replicas": 1}})
    soon(is_rolled_out)
    options = client.V1DeleteOptions(propagation_policy="Foreground", grace_period_seconds=5)
    apps.delete_namespaced_deployment("nginx", namespace, body=options)
    soon(lambda: not core.list_namespaced_pod(namespace).items)


def test_job_crud(api: client.ApiClient, namespace: str) -> None:
    batch = client.BatchV1Api(api)
    spec = client.V1JobSpec(template=template("pi", "echo", "3.14", policy="Never"), backoff_limit=4)
    job = client.V1Job(api_version="batch/v1", kind="Job", metadata=client.V1ObjectMeta(name="pi"), spec=spec)
    batch.create_namespaced_job(namespace, job)

    def has_ended() -> bool:
        status = batch.read_namespaced_job_status("pi", namespace).status
        return status.succeeded is not None or status.failed is not None

    soon(has_ended)
    found = batch.read_namespaced_job("pi", namespace)
    assert (found.status.succeeded, found.status.failed) == (1, None)
    core = client.CoreV1Api(api)
    (pod,) = core.list_namespaced_pod(namespace, label_selector="job-name=pi").items
    assert core.read_namespaced_pod_log(pod.metadata.name, namespace) == "3.14\n"
    batch.patch_namespaced_job("pi", namespace, {"metadata": {"labels": {"done": "yes"}}})
    options = client.V1DeleteOptions(propagation_policy="Foreground", grace_period_seconds=5)
    batch.delete_namespaced_job("pi", namespace, body=options)
    soon(lambda: not core.list_namespaced_pod(namespace).items)


def test_a_pod_is_watched_from_its_creation_to_its_end(api: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api)
    body = template("short", "true", policy="Never")
    pod = client.V1Pod(metadata=client.V1ObjectMeta(name="short"), spec=body.spec)
    before = core.list_namespaced_pod(namespace).metadata.resource_version
    core.create_namespaced_pod(namespace, pod)
    phases, watcher = [], watch.Watch()
    for event in watcher.stream(
        core.list_namespaced_pod, namespace, resource_version=before, timeout_seconds=30
    ):
        phases.append((event["type"], event["object"].status.phase))
        if event["object"].status.phase == "Succeeded":
            watcher.stop()
    assert phases[0] == ("ADDED", "Pending")
    assert phases[-1] == ("MODIFIED", "Succeeded")


def test_logs_are_followed(api: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api)
    body = template("talks", "sh", "-c", "echo one; sleep 0.5; echo two", policy="Never")
    core.create_namespaced_pod(
        namespace, client.V1Pod(metadata=client.V1ObjectMeta(name="talks"), spec=body.spec)
    )
    soon(lambda: core.read_namespaced_pod("talks", namespace).status.phase != "Pending")
    lines = watch.Watch().stream(core.read_namespaced_pod_log, "talks", namespace, _request_timeout=20)
    assert list(lines) == ["one", "two"]


def test_nodes_are_listed_and_labelled(api: client.ApiClient) -> None:
    core = client.CoreV1Api(api)
    assert names(core.list_node()) == ["node-1", "node-2", "node-3"]
    patched = core.patch_node("node-1", {"metadata": {"labels": {"foo": "bar", "baz": None}}})
    assert patched.metadata.labels["foo"] == "bar"
    assert "foo" not in core.patch_node("node-1", {"metadata": {"labels": {"foo": None}}}).metadata.labels


def test_the_dynamic_client_creates_patches_and_deletes_what_runs(
    api: client.ApiClient, namespace: str
) -> None:
    found = dynamic.DynamicClient(api).resources.get(api_version="apps/v1", kind="Deployment")
    body = api.sanitize_for_serialization(deployment("moves", 1))
    found.create(body=body, namespace=namespace)
    soon(lambda: found.get(name="moves", namespace=namespace).status.readyReplicas == 1)
    found.patch(name="moves", namespace=namespace, body={"spec": {"replicas": 2}},
                content_type="application/merge-patch+json")  # fmt: skip
    soon(lambda: found.get(name="moves", namespace=namespace).status.readyReplicas == 2)
    found.delete(name="moves", body={}, namespace=namespace)


def listed_metrics(objects: client.CustomObjectsApi) -> list[Any]:
    try:
        found: list[Any] = objects.list_cluster_custom_object("metrics.k8s.io", "v1beta1", "nodes")["items"]
    except client.ApiException as error:
        if error.status != 503:  # No agent has reported yet.
            raise
        return []
    return found


def test_metrics_are_read_as_custom_objects(api: client.ApiClient) -> None:
    objects = client.CustomObjectsApi(api)
    soon(lambda: len(listed_metrics(objects)) == 3)
