"""What a request is about, read off its path."""

from __future__ import annotations

import pytest

from fathom.api.request import Request, RequestTarget
from fathom.api.target import target_of


def request(method: str, path: str, **query: str) -> Request:
    return Request(method=method, path=path, query={k: [v] for k, v in query.items()}, headers={})


def target(verb: str, path: str, **fields: str) -> RequestTarget:
    return RequestTarget(verb=verb, path=path, **fields)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (request("GET", "/api/v1/pods"), {"verb": "list", "version": "v1", "plural": "pods"}),
        (
            request("GET", "/api/v1/namespaces/a/pods/web"),
            {"verb": "get", "version": "v1", "plural": "pods", "namespace": "a", "name": "web"},
        ),
        (
            request("PUT", "/api/v1/namespaces/a/pods/web/status"),
            {
                "verb": "update",
                "version": "v1",
                "plural": "pods",
                "namespace": "a",
                "name": "web",
                "subresource": "status",
            },
        ),
        (
            request("GET", "/apis/apps/v1/namespaces/a/deployments", watch="true"),
            {"verb": "watch", "group": "apps", "version": "v1", "plural": "deployments", "namespace": "a"},
        ),
        (
            request("DELETE", "/apis/apps/v1/namespaces/a/deployments"),
            {
                "verb": "deletecollection",
                "group": "apps",
                "version": "v1",
                "plural": "deployments",
                "namespace": "a",
            },
        ),
        (
            request("GET", "/api/v1/namespaces/a"),
            {"verb": "get", "version": "v1", "plural": "namespaces", "namespace": "a", "name": "a"},
        ),
        (
            request("PUT", "/api/v1/namespaces/a/finalize"),
            {
                "verb": "update",
                "version": "v1",
                "plural": "namespaces",
                "namespace": "a",
                "name": "a",
                "subresource": "finalize",
            },
        ),
        (
            request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode"),
            {
                "verb": "get",
                "group": "rbac.authorization.k8s.io",
                "version": "v1",
                "plural": "clusterroles",
                "name": "system:node",
            },
        ),
    ],
)
def test_a_resource_path_names_its_parts(asked: Request, expected: dict[str, str]) -> None:
    assert target_of(asked) == target(path=asked.path, **expected)


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/", "/api/v1", "/apis/apps", "/apis/apps/v1", "/healthz", "//"]
)
def test_other_paths_are_not_about_resources(path: str) -> None:
    assert target_of(request("GET", path)) == target("get", path)


def test_empty_path_segments_name_no_resource() -> None:
    assert not target_of(request("GET", "/api/v1//pods")).is_resource


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("metadata.name=web", "web"),
        ("metadata.name==web", "web"),
        ("status.phase=Running,metadata.name=web", "web"),
        ("metadata.name!=web", ""),
        ("metadata.name=a,metadata.name=b", ""),
    ],
)
def test_a_collection_chosen_by_name_is_about_that_object(selector: str, name: str) -> None:
    asked = request("GET", "/api/v1/namespaces/a/secrets", fieldSelector=selector)
    assert (target_of(asked).verb, target_of(asked).name) == ("list", name)
