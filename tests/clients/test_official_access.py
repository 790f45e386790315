"""The official Python client: dynamic and custom objects, files, discovery, and who may do what."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config, dynamic, utils, watch
from tests.clients import objects
from tests.clients.kubectl import eventually
from tests.clients.official import config_map, names, refusal
from tests.clients.running import Server

from fathom.kube.definitions.registry import Registry


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[Any]:
    with config.new_client_from_config(str(server.kubeconfig)) as made:
        yield made


@pytest.fixture(scope="module")
def core(api: Any) -> Any:
    return client.CoreV1Api(api)


def test_the_dynamic_client_knows_every_kind(api: Any, namespace: str) -> None:
    anything = dynamic.DynamicClient(api)
    maps = anything.resources.get(api_version="v1", kind="ConfigMap")
    made = maps.create(body=objects.config_map("a", x="1"), namespace=namespace)
    assert maps.get(name="a", namespace=namespace).to_dict() == made.to_dict()
    maps.patch(
        body={"data": {"x": "2"}},
        name="a",
        namespace=namespace,
        content_type="application/merge-patch+json",
    )
    assert [one.data.x for one in maps.get(namespace=namespace).items] == ["2"]
    assert maps.delete(name="a", namespace=namespace).status == "Success"
    found = {(kind.group, kind.kind) for kind in Registry.builtin().kinds()}
    known = {(one.group or "", one.kind) for one in anything.resources.search()}
    assert found <= known


def definition(group: str) -> Any:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    }


def test_custom_objects_from_their_definition_to_their_end(api: Any, namespace: str) -> None:
    group = "official.example.com"
    definitions, custom = client.ApiextensionsV1Api(api), client.CustomObjectsApi(api)
    definitions.create_custom_resource_definition(definition(group))
    address = {"group": group, "version": "v1", "namespace": namespace, "plural": "widgets"}
    eventually(lambda: is_established(definitions, f"widgets.{group}"))
    body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}}
    made = custom.create_namespaced_custom_object(**address, body=body)
    assert made["metadata"]["generation"] == 1
    patched = custom.patch_namespaced_custom_object(**address, name="a", body={"spec": {"colour": "red"}})
    assert (patched["spec"], patched["metadata"]["generation"]) == ({"size": 1, "colour": "red"}, 2)
    custom.patch_namespaced_custom_object_status(**address, name="a", body={"status": {"size": 3}})
    custom.patch_namespaced_custom_object_scale(**address, name="a", body={"spec": {"replicas": 4}})
    read = custom.get_namespaced_custom_object(**address, name="a")
    assert (read["spec"]["size"], read["status"]) == (4, {"size": 3})
    assert [one["metadata"]["name"] for one in custom.list_namespaced_custom_object(**address)["items"]] == [
        "a"
    ]
    events = watch.Watch().stream(custom.list_namespaced_custom_object, **address, timeout_seconds=1)
    assert [event["object"]["metadata"]["name"] for event in events] == ["a"]
    custom.delete_namespaced_custom_object(**address, name="a")
    definitions.delete_custom_resource_definition(f"widgets.{group}", _preload_content=False)
    eventually(lambda: f"widgets.{group}" not in names(definitions.list_custom_resource_definition()))


def is_established(definitions: Any, name: str) -> bool:
    found = definitions.read_custom_resource_definition(name).status
    return any(one.type == "Established" and one.status == "True" for one in found.conditions or ())


def test_a_file_of_several_objects_is_created(api: Any, core: Any, namespace: str, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    listed = [objects.config_map("a", x="1"), objects.deployment("web"), objects.service("web")]
    file.write_text(yaml.safe_dump_all(listed))
    utils.create_from_yaml(api, str(file), namespace=namespace)
    assert core.read_namespaced_config_map("a", namespace).data == {"x": "1"}
    assert core.read_namespaced_service("web", namespace).spec.ports[0].target_port == 80
    assert client.AppsV1Api(api).read_namespaced_deployment("web", namespace).spec.replicas == 2
    with pytest.raises(utils.FailToCreateError, match="already exists"):
        utils.create_from_yaml(api, str(file), namespace=namespace)


def test_discovery_and_version(api: Any) -> None:
    groups = client.ApisApi(api).get_api_versions().groups
    assert {"apps", "batch", "rbac.authorization.k8s.io"} <= {group.name for group in groups}
    resources = client.CoreV1Api(api).get_api_resources().resources
    assert {"pods", "pods/status", "nodes", "events"} <= {one.name for one in resources}
    assert client.VersionApi(api).get_code().major == "1"


# Who may do what


def as_bearer(server: Server, token: str, tmp_path: Path) -> Any:
    cluster = yaml.safe_load(server.kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = tmp_path / "ca.crt"
    authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    options = client.Configuration()
    options.host, options.ssl_ca_cert = server.url, str(authority)
    options.api_key = {"authorization": f"Bearer {token}"}
    return client.ApiClient(options)


def test_a_service_account_does_what_its_role_allows(
    server: Server, api: Any, core: Any, namespace: str, tmp_path: Path
) -> None:
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "robot"}})
    asked = client.AuthenticationV1TokenRequest(
        spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600)
    )
    issued = core.create_namespaced_service_account_token("robot", namespace, asked).status
    assert issued.expiration_timestamp > datetime.now(UTC)
    robot = as_bearer(server, issued.token, tmp_path)
    theirs, me = client.CoreV1Api(robot), client.AuthenticationV1Api(robot)
    who = me.create_self_subject_review(client.V1SelfSubjectReview()).status.user_info
    assert who.username == f"system:serviceaccount:{namespace}:robot"
    code, status = refusal(theirs.list_namespaced_config_map, namespace)
    assert (code, status["reason"]) == (403, "Forbidden")
    assert (
        f'cannot list resource "configmaps" in API group "" in the namespace "{namespace}"'
        in status["message"]
    )
    assert not allowed(robot, namespace, "list")
    allow(client.RbacAuthorizationV1Api(api), namespace)
    eventually(lambda: allowed(robot, namespace, "list"))
    assert names(theirs.list_namespaced_config_map(namespace)) == []
    assert refusal(theirs.create_namespaced_config_map, namespace, config_map("a"))[0] == 403
    core.delete_namespaced_service_account("robot", namespace, _preload_content=False)
    eventually(lambda: refusal(theirs.list_namespaced_config_map, namespace)[0] == 401)


def allow(rbac: Any, namespace: str) -> None:
    rules = [client.V1PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["get", "list"])]
    rbac.create_namespaced_role(namespace, client.V1Role(metadata={"name": "reader"}, rules=rules))
    binding = {
        "metadata": {"name": "robot-reads"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": namespace}],
    }
    rbac.create_namespaced_role_binding(namespace, binding)


def allowed(api: Any, namespace: str, verb: str) -> bool:
    attributes = client.V1ResourceAttributes(namespace=namespace, verb=verb, resource="configmaps")
    spec = client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
    review = client.V1SelfSubjectAccessReview(spec=spec)
    answer = client.AuthorizationV1Api(api).create_self_subject_access_review(review)
    return bool(answer.status.allowed)


def test_reviews_answer_for_others(api: Any, namespace: str) -> None:
    reviews = client.AuthorizationV1Api(api)
    attributes = {"namespace": namespace, "verb": "delete", "resource": "pods"}
    about = {"spec": {"user": "jane", "groups": ["nobody"], "resourceAttributes": attributes}}
    assert reviews.create_subject_access_review(about).status.allowed is False
    rules = reviews.create_self_subject_rules_review({"spec": {"namespace": namespace}}).status
    assert any("*" in (rule.verbs or ()) for rule in rules.resource_rules)


def test_a_wrong_token_is_nobody(server: Server, tmp_path: Path) -> None:
    code, status = refusal(client.CoreV1Api(as_bearer(server, "wrong", tmp_path)).list_namespace)
    assert (code, status["reason"]) == (401, "Unauthorized")
