"""The official Python client over TLS: typed objects, patches, pages, deletion, errors."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kubernetes import client, config
from tests.api.bending import good
from tests.api.fuzzing import path_to
from tests.clients import objects
from tests.clients.kubectl import eventually
from tests.clients.official import config_map, names, refusal
from tests.clients.running import Server

from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.registry import Registry

REGISTRY = Registry.builtin()
STORED = [kind for kind in REGISTRY.kinds() if "create" in kind.verbs and not kind.virtual]
WATCH_S = 20


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[Any]:
    with config.new_client_from_config(str(server.kubeconfig)) as made:
        yield made


@pytest.fixture(scope="module")
def core(api: Any) -> Any:
    return client.CoreV1Api(api)


@pytest.fixture(scope="module")
def apps(api: Any) -> Any:
    return client.AppsV1Api(api)


# Objects


def test_objects_are_created_read_replaced_and_deleted(core: Any, namespace: str) -> None:
    made = core.create_namespaced_config_map(namespace, config_map("a", x="1"))
    assert core.read_namespaced_config_map("a", namespace) == made
    made.data = {"x": "2"}
    replaced = core.replace_namespaced_config_map("a", namespace, made)
    assert (replaced.data, replaced.metadata.uid) == ({"x": "2"}, made.metadata.uid)
    deleted = core.delete_namespaced_config_map("a", namespace)
    assert deleted["status"] == "Success"
    assert deleted["details"] == {"name": "a", "kind": "configmaps", "uid": made.metadata.uid}
    assert refusal(core.read_namespaced_config_map, "a", namespace)[0] == 404


def test_times_are_times(core: Any, namespace: str) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    made = core.create_namespaced_config_map(namespace, config_map("a"))
    assert before < made.metadata.creation_timestamp < datetime.now(UTC) + timedelta(seconds=2)


def test_a_secret_goes_in_as_text_and_comes_out_as_base64(core: Any, namespace: str) -> None:
    body = client.V1Secret(metadata=client.V1ObjectMeta(name="a"), string_data={"key": "värde"})
    core.create_namespaced_secret(namespace, body)
    read = core.read_namespaced_secret("a", namespace)
    assert read.type == "Opaque"
    assert base64.b64decode(read.data["key"]).decode() == "värde"
    assert read.string_data is None


def model_of(kind: Kind) -> Any:
    """The client's class for a kind."""
    version = kind.version[0].upper() + kind.version[1:]
    # Where two groups have a kind of the same name, the group's is in the class's.
    candidates = (
        f"{(kind.group or 'core').split('.')[0].title()}{version}{kind.kind}",
        f"{version}{kind.kind}",
    )
    return next(found for name in candidates if (found := getattr(client.models, name, None)))


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: f"{kind.resource}-{kind.version}")
def test_every_kind_decodes_into_its_class_and_back(server: Server, api: Any, kind: Kind) -> None:
    made = server.request("POST", path_to(kind), good(REGISTRY, kind, "decoded"))
    try:
        typed = api.deserialize(json.dumps(made), model_of(kind), "application/json")
        assert api.sanitize_for_serialization(typed) == _with_whole_times(made)
        listed = server.request("GET", path_to(kind))
        assert listed["kind"] == kind.list_kind
    finally:
        server.request("DELETE", path_to(kind, made["metadata"]["name"]))


def _with_whole_times(obj: Any) -> Any:
    """The client prints a time's zone as an offset."""
    if isinstance(obj, dict):
        return {name: _with_whole_times(value) for name, value in obj.items()}
    if isinstance(obj, list):
        return [_with_whole_times(value) for value in obj]
    if isinstance(obj, str) and len(obj) >= 20 and obj[10] == "T" and obj.endswith("Z"):
        return datetime.fromisoformat(obj).isoformat()
    return obj


POD_STATUS = {
    "phase": "Running",
    "podIP": "10.0.0.7",
    "startTime": "2024-05-01T12:00:00Z",
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-05-01T12:00:05Z"}],
    "containerStatuses": [
        {
            "name": "main",
            "image": "nginx:1.27",
            "imageID": "sha256:1",
            "ready": True,
            "restartCount": 1,
            "state": {"running": {"startedAt": "2024-05-01T12:00:04Z"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
        }
    ],
}


def test_a_status_is_written_through_its_subresource_and_decodes(core: Any, namespace: str) -> None:
    core.create_namespaced_pod(namespace, objects.pod("a", node="n1"))
    core.patch_namespaced_pod("a", namespace, {"status": {"phase": "Failed"}})
    assert core.read_namespaced_pod("a", namespace).status.phase == "Pending"
    core.patch_namespaced_pod_status("a", namespace, {"status": POD_STATUS, "spec": {"nodeName": "n2"}})
    read = core.read_namespaced_pod("a", namespace)
    assert read.spec.node_name == "n1"
    [container] = read.status.container_statuses
    assert (read.status.phase, container.ready, container.restart_count) == ("Running", True, 1)
    assert container.state.running.started_at == datetime(2024, 5, 1, 12, 0, 4, tzinfo=UTC)
    assert container.last_state.terminated.exit_code == 137


def test_a_deployment_is_scaled_and_its_generation_follows_its_spec(apps: Any, namespace: str) -> None:
    made = apps.create_namespaced_deployment(namespace, objects.deployment("web", replicas=2))
    assert (made.metadata.generation, made.spec.strategy.rolling_update.max_surge) == (1, "25%")
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    assert (scale.spec.replicas, scale.status.selector) == (2, "app=web")
    scale.spec.replicas = 5
    assert apps.replace_namespaced_deployment_scale("web", namespace, scale).spec.replicas == 5
    patched = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 0}})
    assert patched.spec.replicas in {None, 0}
    status = {"status": {"observedGeneration": 3, "replicas": 0}}
    apps.patch_namespaced_deployment_status("web", namespace, status)
    read = apps.read_namespaced_deployment("web", namespace)
    assert (read.spec.replicas, read.metadata.generation, read.status.observed_generation) == (0, 3, 3)


def test_a_pod_is_bound_and_evicted(core: Any, namespace: str, node_name: str) -> None:
    core.create_namespaced_pod(namespace, objects.pod("a"))
    target = client.V1ObjectReference(kind="Node", name=node_name)
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name="a"), target=target)
    core.create_namespaced_pod_binding("a", namespace, binding, _preload_content=False)
    assert core.read_namespaced_pod("a", namespace).spec.node_name == node_name
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="a", namespace=namespace))
    core.create_namespaced_pod_eviction("a", namespace, eviction, _preload_content=False)
    pods = core.list_namespaced_pod(namespace).items
    assert [pod.metadata.deletion_timestamp is not None for pod in pods] in ([], [True])


# Patches


def test_a_list_is_a_json_patch_and_an_object_a_strategic_merge(apps: Any, namespace: str) -> None:
    apps.create_namespaced_deployment(namespace, objects.deployment("web"))
    added = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "envoy:1"}]}}}}
    merged = apps.patch_namespaced_deployment("web", namespace, added)
    assert {one.name for one in merged.spec.template.spec.containers} == {"main", "side"}
    replaced = apps.patch_namespaced_deployment(
        "web", namespace, [{"op": "replace", "path": "/spec/replicas", "value": 7}]
    )
    assert replaced.spec.replicas == 7


@pytest.mark.parametrize(
    ("media", "patch", "images"),
    [
        (
            "application/merge-patch+json",
            {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "envoy:1"}]}}}},
            ["envoy:1"],
        ),
        (
            "application/strategic-merge-patch+json",
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}},
            ["nginx:2"],
        ),
        (
            "application/json-patch+json",
            [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:3"}],
            ["nginx:3"],
        ),
    ],
)
def test_each_type_of_patch_by_its_name(
    apps: Any, namespace: str, media: str, patch: Any, images: list[str]
) -> None:
    apps.create_namespaced_deployment(namespace, objects.deployment("web"))
    patched = apps.patch_namespaced_deployment("web", namespace, patch, _content_type=media)
    assert [one.image for one in patched.spec.template.spec.containers] == images


def test_what_is_applied_to_the_server_is_created_and_owned(core: Any, namespace: str) -> None:
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    options = {"field_manager": "test", "_content_type": "application/apply-patch+yaml"}
    made = core.patch_namespaced_config_map("a", namespace, applied, **options)
    assert made.data == {"x": "1"}
    (entry,) = made.metadata.managed_fields
    assert (entry.manager, entry.operation, entry.fields_v1) == ("test", "Apply", {"f:data": {"f:x": {}}})
    code, status = refusal(
        core.patch_namespaced_config_map, "a", namespace, {**applied, "data": {"x": "2"}},
        **{**options, "field_manager": "other"},
    )  # fmt: skip
    assert (code, status["reason"]) == (409, "Conflict")


# Lists


def test_a_list_in_pages_is_the_list(core: Any, namespace: str) -> None:
    for number in range(7):
        core.create_namespaced_config_map(namespace, config_map(f"m{number}"))
    found, token, remaining = [], None, []
    while True:
        page = core.list_namespaced_config_map(namespace, limit=3, _continue=token)
        found += names(page)
        remaining.append(page.metadata.remaining_item_count)
        if not (token := page.metadata._continue):
            break
        core.create_namespaced_config_map(namespace, config_map(f"m0-late-{len(found)}"))
    assert found == [f"m{number}" for number in range(7)]
    assert remaining == [4, 1, None]


def test_lists_are_selected_by_labels_and_fields(core: Any, namespace: str) -> None:
    for name, labels in (("a", {"tier": "web"}), ("b", {"tier": "db"}), ("c", None)):
        core.create_namespaced_pod(namespace, objects.pod(name, labels=labels, node=f"node-{name}"))

    def found(**selectors: str) -> list[str]:
        return names(core.list_namespaced_pod(namespace, **selectors))

    assert found(label_selector="tier in (web,db)") == ["a", "b"]
    assert found(label_selector="!tier") == ["c"]
    assert found(field_selector="spec.nodeName=node-b,status.phase=Pending") == ["b"]
    assert found(field_selector="metadata.name!=a", label_selector="tier") == ["b"]
    code, status = refusal(core.list_namespaced_pod, namespace, field_selector="spec.colour=red")
    assert (code, status["reason"]) == (400, "BadRequest")
    code, status = refusal(core.list_namespaced_pod, namespace, label_selector="a in (")
    assert (code, status["reason"]) == (400, "BadRequest")


def test_a_list_at_a_revision_shows_what_was_there(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("a"))
    revision = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, config_map("b"))
    exact = {"resource_version": revision, "resource_version_match": "Exact"}
    assert names(core.list_namespaced_config_map(namespace, **exact)) == ["a"]
    fresh = {"resource_version": revision, "resource_version_match": "NotOlderThan"}
    assert names(core.list_namespaced_config_map(namespace, **fresh)) == ["a", "b"]


def test_a_collection_is_deleted_by_its_labels(core: Any, namespace: str) -> None:
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "1"}), ("c", {"x": "2"})):
        core.create_namespaced_config_map(namespace, config_map(name, labels))
    core.delete_collection_namespaced_config_map(namespace, label_selector="x=1", _preload_content=False)
    assert names(core.list_namespaced_config_map(namespace)) == ["c"]


# Deletion


def test_dependents_go_first_later_or_not_at_all(core: Any, apps: Any, namespace: str) -> None:
    def owner_and_pod(name: str) -> None:
        made = apps.create_namespaced_replica_set(namespace, objects.replica_set(name, replicas=0))
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}}
        owner["metadata"]["uid"] = made.metadata.uid  # type: ignore[index]  # a plain object
        core.create_namespaced_pod(namespace, objects.owned(objects.pod(f"{name}-pod"), owner))

    for policy in ("Foreground", "Background", "Orphan"):
        owner_and_pod(policy.lower())
        body = client.V1DeleteOptions(propagation_policy=policy)
        apps.delete_namespaced_replica_set(policy.lower(), namespace, body=body)
    eventually(lambda: names(core.list_namespaced_pod(namespace)) == ["orphan-pod"])
    eventually(lambda: names(apps.list_namespaced_replica_set(namespace)) == [])
    assert core.read_namespaced_pod("orphan-pod", namespace).metadata.owner_references is None


def test_a_deletion_is_held_by_finalizers_and_preconditions(core: Any, namespace: str) -> None:
    body = config_map("a")
    body.metadata.finalizers = ["example.com/hold"]
    made = core.create_namespaced_config_map(namespace, body)
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
    code, status = refusal(core.delete_namespaced_config_map, "a", namespace, body=wrong)
    assert (code, status["reason"]) == (409, "Conflict")
    right = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=made.metadata.uid))
    core.delete_namespaced_config_map("a", namespace, body=right, _preload_content=False)
    held = core.read_namespaced_config_map("a", namespace)
    assert held.metadata.deletion_timestamp is not None
    core.patch_namespaced_config_map("a", namespace, {"metadata": {"finalizers": None}})
    assert refusal(core.read_namespaced_config_map, "a", namespace)[0] == 404


def test_a_namespace_takes_its_contents_with_it(core: Any, namespace: str) -> None:
    inner = f"{namespace[:40]}-inner"
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=inner)))
    core.create_namespaced_config_map(inner, config_map("a"))
    core.delete_namespace(inner, _preload_content=False)
    eventually(lambda: inner not in names(core.list_namespace()))
    code, status = refusal(core.create_namespaced_config_map, inner, config_map("a"))
    assert (code, status["details"]["kind"]) == (404, "namespaces")


def test_a_dry_run_changes_nothing(core: Any, namespace: str) -> None:
    made = core.create_namespaced_config_map(namespace, config_map("a"), dry_run="All")
    assert made.metadata.uid
    assert names(core.list_namespaced_config_map(namespace)) == []


# Errors


def test_errors_carry_the_status_with_reason_and_causes(core: Any, apps: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("a"))
    with pytest.raises(client.ApiException) as raised:
        core.create_namespaced_config_map(namespace, config_map("a"))
    assert (raised.value.status, raised.value.reason) == (409, "Conflict")
    assert json.loads(raised.value.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "a" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "a", "kind": "configmaps"},
        "code": 409,
    }
    broken = objects.deployment("web")
    broken["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    code, status = refusal(apps.create_namespaced_deployment, namespace, broken)
    assert (code, status["reason"], status["details"]["kind"]) == (422, "Invalid", "Deployment")
    [cause] = status["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("spec.template.metadata.labels", "FieldValueInvalid")


def test_a_stale_replacement_is_a_conflict(core: Any, namespace: str) -> None:
    stale = core.create_namespaced_config_map(namespace, config_map("a", x="1"))
    core.patch_namespaced_config_map("a", namespace, {"data": {"x": "2"}})
    code, status = refusal(core.replace_namespaced_config_map, "a", namespace, stale)
    assert (code, status["reason"]) == (409, "Conflict")
    assert "the object has been modified" in status["message"]
