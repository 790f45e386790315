"""What a RuntimeClass adds to pods that name it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.api.harness import Api, pod, tell

from fathom.model.objects import Obj

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
PODS = "/api/v1/namespaces/default/pods"
KATA: Obj = {
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "500m"}},
    "scheduling": {
        "nodeSelector": {"sandbox": "yes"},
        "tolerations": [{"key": "sandbox", "operator": "Exists"}],
    },
}


def of_class(name: str, **spec: Any) -> Obj:
    made = pod(name)
    made["spec"] = {**made["spec"], "runtimeClassName": "kata", **spec}
    return made


def test_a_pod_gets_the_overhead_and_the_nodes_of_its_class(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(CLASSES, KATA)
        spec = (await api.post(PODS, of_class("a", nodeSelector={"disk": "ssd"}))).obj["spec"]
        assert (spec["overhead"], spec["nodeSelector"]) == (
            {"cpu": "500m"},
            {"disk": "ssd", "sandbox": "yes"},
        )
        assert [one["key"] for one in spec["tolerations"] if "sandbox" in one["key"]] == ["sandbox"]
        same = await api.post(PODS, of_class("b", overhead={"cpu": "0.5"}))
        assert same.status == 201

    tell(story, tmp_path)


def test_what_does_not_fit_its_class_is_refused(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        missing = await api.post(PODS, of_class("a"))
        assert (missing.status, missing.obj["message"]) == (
            403,
            'pods "a" is forbidden: pod rejected: RuntimeClass "kata" not found',
        )
        await api.post(CLASSES, KATA)
        more = await api.post(PODS, of_class("a", overhead={"cpu": "1"}))
        assert more.status == 403
        assert "Pod's Overhead doesn't match RuntimeClass's defined Overhead" in more.obj["message"]
        elsewhere = await api.post(PODS, of_class("a", nodeSelector={"sandbox": "no"}))
        assert elsewhere.status == 403
        assert "runtimeClass.scheduling.nodeSelector[sandbox] = yes" in elsewhere.obj["message"]

    tell(story, tmp_path)
