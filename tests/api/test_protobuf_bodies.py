"""Writes whose bodies are protobuf, on a whole server: the answer is JSON, and what is stored is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import Answer, Api, config_map, deployment, pod, tell
from tests.kube.definitions.bodies import WIDGETS
from tests.kube.definitions.wire import MEDIA, at, entry, envelope, go_meta, message

from fathom.model.objects import Obj

BOTH = f"{MEDIA},application/json"
CONFIG_MAPS, PODS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def send(api: Api, method: str, path: str, body: bytes, *, media: str = MEDIA) -> Answer:
    return await api.call(method, path, body, headers={"content-type": media, "accept": BOTH})


def settings(name: str, value: str = "1") -> bytes:
    return envelope("v1", "ConfigMap", message((1, go_meta(name)), (2, entry("a", value))))


def test_an_object_is_created_and_replaced(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        made = await send(api, "POST", CONFIG_MAPS, settings("c"))
        assert made.status == 201
        assert made.obj["metadata"].keys() == {
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
        }
        same = await api.post(CONFIG_MAPS, config_map("d", a="1"))
        assert (made.obj["data"], made.obj.keys()) == (same.obj["data"], same.obj.keys())
        replaced = await send(api, "PUT", f"{CONFIG_MAPS}/c", settings("c", "2"))
        assert (replaced.status, replaced.obj["data"]) == (200, {"a": "2"})

    tell(story, tmp_path)


def test_a_status_is_written(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(PODS, pod("p"))
        status = message((1, "Running"), (6, "10.1.2.3"), (8, b""))
        body = envelope("v1", "Pod", message((1, go_meta("p")), (2, b""), (3, status)))
        answer = await send(api, "PUT", f"{PODS}/p/status", body)
        assert (answer.status, answer.obj["status"]["phase"]) == (200, "Running")
        assert answer.obj["spec"]["containers"][0]["name"] == "c"

    tell(story, tmp_path)


@pytest.mark.parametrize(("uid", "status"), [("another", 409), ("its own", 200)])
def test_delete_options_are_obeyed(tmp_path: Path, uid: str, status: int) -> None:
    async def story(api: Api) -> None:
        made = (await api.post(DEPLOYMENTS, deployment("web"))).obj
        wanted = made["metadata"]["uid"] if uid == "its own" else uid
        options = envelope("apps/v1", "DeleteOptions", message((2, message((1, wanted)))))
        assert (await send(api, "DELETE", f"{DEPLOYMENTS}/web", options)).status == status
        left = [item["metadata"]["name"] for item in (await api.get(DEPLOYMENTS)).obj["items"]]
        assert left == ([] if status == 200 else ["web"])

    tell(story, tmp_path)


def test_a_zero_grace_period_is_not_taken_for_none(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(PODS, pod("p"))
        await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
        await send(api, "POST", f"{PODS}/p/binding", binding("p", "n"))
        options = envelope("v1", "DeleteOptions", message((1, 0)))
        assert (await send(api, "DELETE", f"{PODS}/p", options)).status == 200
        assert (await api.get(f"{PODS}/p")).status == 404

    tell(story, tmp_path)


def binding(name: str, node: str) -> bytes:
    target = message((1, "Node"), (2, ""), (3, node), (4, ""), (5, ""), (6, ""), (7, ""))
    return envelope("v1", "Binding", message((1, go_meta(name)), (2, target)))


def test_a_pod_is_bound_and_evicted(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
        await api.post(PODS, pod("p"))
        assert (await send(api, "POST", f"{PODS}/p/binding", binding("p", "n"))).status == 201
        assert (await api.get(f"{PODS}/p")).obj["spec"]["nodeName"] == "n"
        raw = message((1, go_meta("p")), (2, message((1, 5))))
        answer = await send(api, "POST", f"{PODS}/p/eviction", envelope("policy/v1", "Eviction", raw))
        assert answer.status == 201
        assert (await api.get(f"{PODS}/p")).obj["metadata"]["deletionGracePeriodSeconds"] == 5

    tell(story, tmp_path)


def test_a_deployment_is_scaled_also_to_nothing(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(DEPLOYMENTS, deployment("web", replicas=3))
        for replicas in (7, 0):
            raw = message((1, go_meta("web")), (2, message((1, replicas))), (3, message((1, 3), (2, ""))))
            body = envelope("autoscaling/v1", "Scale", raw)
            assert (await send(api, "PUT", f"{DEPLOYMENTS}/web/scale", body)).status == 200
            assert (await api.get(f"{DEPLOYMENTS}/web")).obj["spec"]["replicas"] == replicas

    tell(story, tmp_path)


def test_a_review_is_answered(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        spec = message(
            (1, message((1, "default"), (2, "get"), (3, ""), (4, ""), (5, "pods"), (6, ""), (7, "")))
        )
        raw = message((1, go_meta("")), (2, spec), (3, message((1, 0), (2, ""), (3, ""), (4, 0))))
        body = envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview", raw)
        answer = await send(api, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
        assert (answer.status, answer.obj["status"]["allowed"]) == (201, True)

    tell(story, tmp_path)


CUT_SHORT = b"k8s\x00\x0a\x05ab"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", CONFIG_MAPS),
        ("PUT", f"{PODS}/p"),
        ("DELETE", f"{PODS}/p"),
        ("DELETE", PODS),
        ("POST", f"{PODS}/p/binding"),
        ("POST", f"{PODS}/p/eviction"),
        ("PUT", f"{DEPLOYMENTS}/web/scale"),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ("PUT", "/api/v1/namespaces/default/finalize"),
    ],
)
def test_what_is_no_protobuf_is_a_bad_request_everywhere(tmp_path: Path, method: str, path: str) -> None:
    async def story(api: Api) -> None:
        await api.post(PODS, pod("p"))
        await api.post(DEPLOYMENTS, deployment("web"))
        await api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
        answer = await send(api, method, path, CUT_SHORT)
        assert (answer.status, answer.reason) == (400, "BadRequest")
        assert "truncated" in answer.obj["message"]
        unknown = await send(api, method, path, CUT_SHORT, media="application/cbor")
        assert (unknown.status, unknown.reason) == (415, "UnsupportedMediaType")
        assert (await api.get(f"{PODS}/p")).status == 200

    tell(story, tmp_path)


def test_custom_resources_have_no_protobuf(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        path = "/apis/example.com/v1/namespaces/default/widgets"
        await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)

        async def served() -> bool:
            return (await api.get(path)).status == 200

        await api.eventually(served)
        refused = await send(api, "POST", path, envelope("example.com/v1", "Widget", at("w", 1, 1)))
        assert (refused.status, refused.obj["message"]) == (
            415,
            "the body of the request was in an unknown format - "
            "accepted media types include: application/json, application/yaml",
        )
        await api.post(path, widget("w"))
        options = envelope("v1", "DeleteOptions", message((4, "Background")))
        assert (await send(api, "DELETE", f"{path}/w", options)).status == 200

    tell(story, tmp_path)


def widget(name: str) -> Obj:
    spec: dict[str, Any] = {"size": 1}
    return {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": name}, "spec": spec}
