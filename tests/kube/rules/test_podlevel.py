"""What a pod asks for as a whole, and what follows from what admission fills in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import Api, tell

from fathom.kube.rules.pod.pod_resources import with_pod_level
from fathom.model.objects import Obj

CORE = "/api/v1/namespaces/default"


def container(**resources: dict[str, str]) -> Obj:
    return {"name": "a", "image": "x", "resources": resources}


@pytest.mark.parametrize(
    ("whole", "containers", "expected"),
    [
        ({}, [container(limits={"cpu": "1"})], {}),
        (
            {"limits": {"cpu": "1", "memory": "64Mi"}},
            [container()],
            {"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "1", "memory": "64Mi"}},
        ),
        (
            {"limits": {"cpu": "1"}},
            [container(requests={"cpu": "100m", "memory": "1Mi"}), container(requests={"cpu": "200m"})],
            {"limits": {"cpu": "1"}, "requests": {"cpu": "300m", "memory": "1Mi"}},
        ),
        (
            {"requests": {"cpu": "2", "memory": "1Mi"}},
            [container(limits={"cpu": "500m", "memory": "2Mi"}), container(limits={"cpu": "500m"})],
            {"limits": {"cpu": "2"}, "requests": {"cpu": "2", "memory": "1Mi"}},
        ),
    ],
)  # fmt: skip
def test_a_pods_own_requests_and_limits_are_completed(
    whole: Obj, containers: list[Obj], expected: dict[str, Any]
) -> None:
    assert with_pod_level({"resources": whole, "containers": containers})["resources"] == expected


def test_the_class_of_a_pod_follows_from_what_is_stored(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        limits = [{"type": "Container", "default": {"cpu": "100m", "memory": "8Mi"}}]
        await api.post(f"{CORE}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}})
        spec = {"containers": [{"name": "a", "image": "x"}]}
        made = await api.post(f"{CORE}/pods", {"metadata": {"name": "p"}, "spec": spec})
        assert (made.status, made.obj["status"]["qosClass"]) == (201, "Guaranteed")
        whole = {**spec, "resources": {"limits": {"cpu": "1", "memory": "16Mi"}}}
        made = await api.post(f"{CORE}/pods", {"metadata": {"name": "q"}, "spec": whole})
        assert made.obj["spec"]["resources"]["requests"] == {"cpu": "100m", "memory": "8Mi"}
        assert made.obj["status"]["qosClass"] == "Burstable"

    tell(story, tmp_path)
