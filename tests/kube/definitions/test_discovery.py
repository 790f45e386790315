"""What a client is told that it may ask for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kube.definitions.bodies import WIDGETS

from fathom.kube.definitions.custom import kinds_of_crd
from fathom.kube.definitions.discovery import document
from fathom.kube.definitions.registry import Registry

ALL = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
READ_WRITE = ["get", "patch", "update"]


@pytest.fixture(scope="module")
def registry() -> Registry:
    made = Registry.builtin()
    made.add_custom(kinds_of_crd(WIDGETS))
    return made


def resources(registry: Registry, path: str) -> dict[str, Any]:
    found = document(registry, path)
    assert found is not None
    return {entry["name"]: entry for entry in found["resources"]}


def test_the_core_group_has_one_version(registry: Registry) -> None:
    found = document(registry, "/api")
    assert found is not None
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


def test_every_group_is_listed_once(registry: Registry) -> None:
    found = document(registry, "/apis")
    assert found is not None
    names = [group["name"] for group in found["groups"]]
    assert len(names) == len(set(names)) == 22
    assert {"apps", "example.com", "rbac.authorization.k8s.io"} <= set(names)
    assert "" not in names


def test_a_group_says_its_versions(registry: Registry) -> None:
    version = {"groupVersion": "apps/v1", "version": "v1"}
    assert document(registry, "/apis/apps") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "apps",
        "versions": [version],
        "preferredVersion": version,
    }


@pytest.mark.parametrize(
    "path",
    ["/apis/nonsense", "/apis/apps/v2", "/api/v2", "/apis/apps/v1/deployments", "/other", "/", "/apis//v1"],
)
def test_what_is_not_there_has_no_document(registry: Registry, path: str) -> None:
    assert document(registry, path) is None


def test_resources_come_with_their_subresources(registry: Registry) -> None:
    found = resources(registry, "/api/v1")
    assert found["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "storageVersionHash": "xPOwRZ+Yhw8=",
        "verbs": ALL,
        "shortNames": ["po"],
        "categories": ["all"],
    }
    assert found["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert {name: (entry["kind"], entry["verbs"]) for name, entry in found.items() if "/" in name} == {
        "namespaces/finalize": ("Namespace", ["update"]),
        "namespaces/status": ("Namespace", READ_WRITE),
        "nodes/status": ("Node", READ_WRITE),
        "persistentvolumeclaims/status": ("PersistentVolumeClaim", READ_WRITE),
        "persistentvolumes/status": ("PersistentVolume", READ_WRITE),
        "pods/attach": ("PodAttachOptions", ["create", "get"]),
        "pods/binding": ("Binding", ["create"]),
        "pods/eviction": ("Eviction", ["create"]),
        "pods/exec": ("PodExecOptions", ["create", "get"]),
        "pods/log": ("Pod", ["get"]),
        "pods/portforward": ("PodPortForwardOptions", ["create", "get"]),
        "pods/status": ("Pod", READ_WRITE),
        "replicationcontrollers/scale": ("Scale", READ_WRITE),
        "replicationcontrollers/status": ("ReplicationController", READ_WRITE),
        "resourcequotas/status": ("ResourceQuota", READ_WRITE),
        "serviceaccounts/token": ("TokenRequest", ["create"]),
        "services/status": ("Service", READ_WRITE),
    }
    assert list(found) == sorted(found)


def test_custom_kinds_are_told_like_any_other(registry: Registry) -> None:
    found = document(registry, "/apis/example.com/v1")
    assert found is not None
    assert found["groupVersion"] == "example.com/v1"
    assert [(entry["name"], entry["kind"], entry.get("group", "")) for entry in found["resources"]] == [
        ("widgets", "Widget", ""),
        ("widgets/scale", "Scale", "autoscaling"),
        ("widgets/status", "Widget", ""),
    ]


def test_aggregated_discovery_has_one_group_below_api(registry: Registry) -> None:
    found = document(registry, "/api", aggregated=True)
    assert found is not None
    assert (found["kind"], found["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    (group,) = found["items"]
    assert group["metadata"] == {}
    (version,) = group["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    assert next(entry for entry in version["resources"] if entry["resource"] == "nodes") == {
        "resource": "nodes",
        "responseKind": {"group": "", "version": "v1", "kind": "Node"},
        "scope": "Cluster",
        "singularResource": "node",
        "verbs": ALL,
        "shortNames": ["no"],
        "subresources": [
            {
                "subresource": "status",
                "responseKind": {"group": "", "version": "v1", "kind": "Node"},
                "verbs": READ_WRITE,
            }
        ],
    }


def test_both_forms_of_discovery_tell_the_same(registry: Registry) -> None:
    aggregated: dict[str, list[str]] = {}
    for root in ("/api", "/apis"):
        found = document(registry, root, aggregated=True)
        assert found is not None
        for group in found["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                path = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
                aggregated[path] = sorted(
                    name
                    for entry in version["resources"]
                    for name in (
                        entry["resource"],
                        *(
                            f"{entry['resource']}/{sub['subresource']}"
                            for sub in entry.get("subresources", ())
                        ),
                    )
                )
    assert aggregated == {path: sorted(resources(registry, path)) for path in aggregated}
    assert len(aggregated) == 24
