"""OpenAPI v3 documents, and kubectl reading them."""

from __future__ import annotations

import copy
import http.server
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.kube.definitions.bodies import WIDGETS

from fathom.kube.definitions import discovery, openapi
from fathom.kube.definitions.custom import kinds_of_crd
from fathom.kube.definitions.registry import Registry

REF = "#/components/schemas/"


@pytest.fixture(scope="module")
def registry() -> Registry:
    made = Registry.builtin()
    made.add_custom(kinds_of_crd(WIDGETS))
    return made


def document(registry: Registry, path: str) -> Any:
    found = openapi.document(registry, path)
    assert found is not None
    return found


def test_the_index_has_every_group_and_version(registry: Registry) -> None:
    paths = openapi.index(registry)["paths"]
    assert len(paths) == 24
    assert {"api/v1", "apis/apps/v1", "apis/example.com/v1"} <= set(paths)
    assert re.fullmatch(
        r"/openapi/v3/apis/apps/v1\?hash=[0-9A-F]{64}", paths["apis/apps/v1"]["serverRelativeURL"]
    )


def test_a_documents_address_changes_with_what_it_says_and_with_nothing_else() -> None:
    ours = Registry.builtin()
    before = openapi.index(ours)["paths"]
    ours.add_custom(kinds_of_crd(WIDGETS))
    first = openapi.index(ours)["paths"]
    changed = copy.deepcopy(WIDGETS)
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Another."
    ours.add_custom(kinds_of_crd(changed))
    second = openapi.index(ours)["paths"]
    assert {path for path in second if second[path] != before.get(path)} == {"apis/example.com/v1"}
    assert first["apis/example.com/v1"] != second["apis/example.com/v1"]


def test_what_is_not_there_has_no_document(registry: Registry) -> None:
    assert openapi.document(registry, "apis/apps/v2") is None


def test_every_reference_leads_somewhere(registry: Registry) -> None:
    for path in openapi.index(registry)["paths"]:
        made = document(registry, path)
        refs = set(re.findall(rf'"{REF}([^"]+)"', msgspec.json.encode(made).decode()))
        assert refs - set(made["components"]["schemas"]) == set()


def test_schemas_are_published_as_kubernetes_publishes_them(registry: Registry) -> None:
    schemas = document(registry, "apis/apps/v1")["components"]["schemas"]
    spec = schemas["io.k8s.api.apps.v1.DeploymentSpec"]
    assert (spec["type"], spec["required"]) == ("object", ["selector", "template"])
    strategy = spec["properties"]["strategy"]
    assert strategy["allOf"] == [{"$ref": f"{REF}io.k8s.api.apps.v1.DeploymentStrategy"}]
    assert "description" in strategy
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert {name: value for name, value in containers.items() if name != "description"} == {
        "type": "array",
        "items": {"$ref": f"{REF}io.k8s.api.core.v1.Container"},
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge",
    }
    deployment = schemas["io.k8s.api.apps.v1.Deployment"]
    assert deployment["properties"]["kind"]["type"] == "string"
    assert "enum" not in deployment["properties"]["kind"]
    assert deployment["x-kubernetes-group-version-kind"] == [
        {"group": "apps", "version": "v1", "kind": "Deployment"}
    ]
    assert schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] == {
        "oneOf": [{"type": "string"}, {"type": "integer"}],
        "format": "int-or-string",
    }


def test_no_published_type_is_a_choice_with_null(registry: Registry) -> None:
    for path in openapi.index(registry)["paths"]:
        assert b'"null"' not in msgspec.json.encode(document(registry, path)["components"])


@pytest.mark.parametrize("resource", ["pods", "deployments.apps", "namespaces", "widgets.example.com"])
def test_kubectl_finds_that_patch_validates_fields(registry: Registry, resource: str) -> None:
    kind = registry.by_resource(resource)
    assert kind is not None
    root = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    patches = [
        item["patch"]
        for item in document(registry, root)["paths"].values()
        if "patch" in item and item["patch"]["x-kubernetes-group-version-kind"] == gvk
    ]
    assert patches
    for patch in patches:
        query = {one["name"] for one in patch["parameters"] if one["in"] == "query"}
        assert {"fieldValidation", "dryRun", "fieldManager"} <= query
        strategic = "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
        assert strategic is (kind.schema is None)


def test_paths_and_actions_follow_the_kind(registry: Registry) -> None:
    paths = document(registry, "apis/apps/v1")["paths"]
    root = "/apis/apps/v1/namespaces/{namespace}/deployments"
    actions = {
        path: {method: one["x-kubernetes-action"] for method, one in item.items() if method != "parameters"}
        for path, item in paths.items()
        if "/deployments" in path
    }
    assert actions == {
        root: {"get": "list", "post": "post", "delete": "deletecollection"},
        "/apis/apps/v1/deployments": {"get": "list"},
        f"{root}/{{name}}": {"get": "get", "put": "put", "patch": "patch", "delete": "delete"},
        f"{root}/{{name}}/scale": {"get": "get", "put": "put", "patch": "patch"},
        f"{root}/{{name}}/status": {"get": "get", "put": "put", "patch": "patch"},
    }
    scale = paths[f"{root}/{{name}}/scale"]["get"]
    assert scale["x-kubernetes-group-version-kind"] == {
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
    }


@pytest.mark.slow
@pytest.mark.parametrize("subresource", ["attach", "exec", "portforward"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_connections_into_pods_are_named_as_generated_clients_have_them(
    registry: Registry, subresource: str, method: str
) -> None:
    item = document(registry, "api/v1")["paths"][
        f"/api/v1/namespaces/{{namespace}}/pods/{{name}}/{subresource}"
    ]
    operation, where = item[method], f"{method.capitalize()}NamespacedPod{subresource.capitalize()}"
    assert (operation["operationId"], operation["x-kubernetes-action"]) == (
        f"connectCoreV1{where}",
        "connect",
    )
    from kubernetes.client import CoreV1Api  # Here, since it takes half a second.

    called = getattr(CoreV1Api, f"connect_{method}_namespaced_pod_{subresource}")
    words = re.findall(r":param ([a-z]+): ", called.__doc__)
    assert sorted(one["name"] for one in item["parameters"]) == sorted(set(words) - {"async_req"})


def test_operations_have_names_of_their_own(registry: Registry) -> None:
    names = [
        one["operationId"]
        for path in openapi.index(registry)["paths"]
        for item in document(registry, path)["paths"].values()
        for method, one in item.items()
        if method != "parameters"
    ]
    assert len(names) == len(set(names))


def test_custom_kinds_are_published_with_what_every_object_has(registry: Registry) -> None:
    schemas = document(registry, "apis/example.com/v1")["components"]["schemas"]
    schema = schemas["com.example.v1.Widget"]
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "version": "v1", "kind": "Widget"}
    ]
    assert schemas["com.example.v1.WidgetList"]["properties"]["items"]["items"] == {
        "$ref": f"{REF}com.example.v1.Widget"
    }


@pytest.fixture(scope="module")
def address(registry: Registry) -> Iterator[str]:
    """Discovery and OpenAPI alone, on a port of this machine."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            if path == "/openapi/v2":
                self.answer(openapi.EMPTY_V2, openapi.EMPTY_V2_TYPE)
                return
            if path == "/openapi/v3":
                found: Any = openapi.index(registry)
            elif path.startswith("/openapi/v3/"):
                found = openapi.document(registry, path.removeprefix("/openapi/v3/"))
            else:
                found = discovery.document(registry, path)
            self.answer(msgspec.json.encode(found), "application/json", status=404 if found is None else 200)

        def answer(self, body: bytes, content_type: str, *, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def kubectl(address: str, home: Path, *words: str) -> str:
    command = ["kubectl", "--server", address, "--kubeconfig", "/dev/null", "--cache-dir", str(home), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.live
@pytest.mark.kubectl
def test_kubectl_explains_built_in_and_custom_fields(address: str, tmp_path: Path) -> None:
    containers = kubectl(address, tmp_path, "explain", "pod.spec.containers", "--recursive")
    assert "FIELD: containers <[]Container>" in containers
    assert re.search(r"limits\t<map\[string\]Quantity>", containers)
    widget = kubectl(address, tmp_path, "explain", "wd.spec")
    assert re.search(r"size\t<integer> -required-", widget)


@pytest.mark.live
@pytest.mark.kubectl
def test_kubectl_lists_every_resource(address: str, registry: Registry, tmp_path: Path) -> None:
    listed = kubectl(address, tmp_path, "api-resources", "-o", "name").split()
    assert sorted(listed) == sorted({kind.resource for kind in registry.kinds()})


@pytest.mark.live
@pytest.mark.kubectl
def test_kubectl_says_that_a_kind_is_not_there(address: str, tmp_path: Path) -> None:
    manifest = tmp_path / "unknown.yaml"
    manifest.write_text("apiVersion: example.com/v9\nkind: Unheard\nmetadata: {name: a}\n")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        kubectl(address, tmp_path, "apply", "-f", str(manifest))
    assert 'no matches for kind "Unheard" in version "example.com/v9"' in caught.value.stderr
