"""Methods that a path does not have: 405 with what it has, as kube-apiserver says; 404 where nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.harness import Api, config_map, pod, tell

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

# (method, path, what it has instead)
NOT_ALLOWED = [
    ("PATCH", MAPS, "DELETE, GET, POST"),
    ("PUT", MAPS, "DELETE, GET, POST"),
    ("POST", f"{MAPS}/a", "DELETE, GET, PATCH, PUT"),
    ("PATCH", "/api/v1/configmaps", "GET"),
    ("PUT", "/api/v1/configmaps", "GET"),
    ("POST", "/api/v1/configmaps", "GET"),
    ("DELETE", "/api/v1/configmaps", "GET"),
    ("PATCH", "/api/v1/nodes", "DELETE, GET, POST"),
    ("PUT", "/api/v1/nodes", "DELETE, GET, POST"),
    ("POST", "/api/v1/nodes/a", "DELETE, GET, PATCH, PUT"),
    ("PATCH", "/api/v1/namespaces", "GET, POST"),
    ("DELETE", "/api/v1/namespaces", "GET, POST"),
    ("PATCH", ROLES, "DELETE, GET, POST"),
    ("PUT", ROLES, "DELETE, GET, POST"),
    ("POST", f"{PODS}/p/status", "GET, PATCH, PUT"),
    ("DELETE", f"{PODS}/p/status", "GET, PATCH, PUT"),
    ("GET", f"{PODS}/p/eviction", "POST"),
    ("PUT", f"{PODS}/p/eviction", "POST"),
    ("GET", f"{PODS}/p/binding", "POST"),
    ("POST", f"{PODS}/p/log", "GET"),
    ("GET", "/api/v1/namespaces/default/finalize", "PUT"),
    ("GET", "/api/v1/namespaces/default/serviceaccounts/default/token", "POST"),
    ("GET", REVIEWS, "POST"),
    ("PATCH", REVIEWS, "POST"),
    ("DELETE", REVIEWS, "POST"),
    ("OPTIONS", MAPS, "DELETE, GET, POST"),
]


@pytest.mark.parametrize(("method", "path", "allow"), NOT_ALLOWED)
def test_a_method_that_a_path_does_not_have_is_not_allowed(
    tmp_path: Path, method: str, path: str, allow: str
) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a"))
        await api.post(PODS, pod("p"))
        answer = await api.call(method, path, {"metadata": {}})
        assert (answer.status, answer.reason) == (405, "MethodNotAllowed")
        assert answer.obj["message"] == "the server does not allow this method on the requested resource"
        assert answer.headers["allow"] == allow
        assert (await api.get(f"{MAPS}/a")).status == 200

    tell(story, tmp_path)


@pytest.mark.parametrize(
    "path",
    ["/api/v1/nothings", "/apis/none.io/v1/x", "/api/v1/configmaps/a", f"{MAPS}/a/nothing", "/api/v2/pods"],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH", "DELETE"])
def test_what_is_not_there_is_not_found_whatever_the_method(tmp_path: Path, method: str, path: str) -> None:
    async def story(api: Api) -> None:
        assert (await api.call(method, path, {"metadata": {}})).status == 404

    tell(story, tmp_path)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"{PODS}/p/resize", "in-place resize"),
        (f"{PODS}/p/proxy", "proxying"),
        (f"{PODS}/p/proxy/metrics", "proxying"),
        ("/api/v1/namespaces/default/services/http:web:80/proxy/", "proxying"),
        ("/api/v1/nodes/n1/proxy/stats/summary", "proxying"),
        (f"{PODS}/p/ephemeralcontainers", "ephemeral containers"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH"])
def test_what_fathom_does_not_have_is_said_plainly(
    tmp_path: Path, method: str, path: str, words: str
) -> None:
    async def story(api: Api) -> None:
        answer = await api.call(method, path, {"metadata": {}})
        assert (answer.status, answer.reason) == (501, "NotImplemented")
        assert words in answer.obj["message"]

    tell(story, tmp_path)


def test_what_fathom_does_not_have_is_on_the_page_about_differences() -> None:
    from fathom.api.dispatch import UNSUPPORTED

    page = (Path(__file__).parents[2] / "docs" / "decisions").glob("0005-*.md")
    text = next(page).read_text()
    assert [name for name in UNSUPPORTED if f"`{name}`" not in text] == []
