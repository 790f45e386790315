"""What `pods/log` takes, and how metrics are shown: without any agent."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.api.agent_connections import AgentAddress, address_of
from fathom.api.request import Request
from fathom.api.resource_usage import node_metrics, pod_metrics
from fathom.api.subresources.log import check_begun, container_of, log_options
from fathom.model.errors import ApiError
from fathom.model.objects import Obj

NOW = 1_767_225_600 * 10**9  # 2026-01-01T00:00:00Z


def pod(*names: str, init: tuple[str, ...] = (), **status: Any) -> Obj:
    spec = {
        "containers": [{"name": name} for name in names],
        "initContainers": [{"name": one} for one in init],
    }
    return {"metadata": {"name": "web", "uid": "u1", "namespace": "n"}, "spec": spec, "status": status}


def asked(**query: str) -> Request:
    return Request(method="GET", path="/", query={name: [text] for name, text in query.items()}, headers={})


def refusal(error: pytest.ExceptionInfo[ApiError]) -> tuple[int, str]:
    return error.value.code, error.value.message


def test_the_only_container_need_not_be_named() -> None:
    assert container_of(pod("main"), "") == "main"
    assert container_of(pod("main", init=("first",)), "first") == "first"


@pytest.mark.parametrize(
    ("of", "name", "message"),
    [
        (pod("a", "b"), "", "a container name must be specified for pod web, choose one of: [a b]"),
        (
            pod("a", "b", init=("i",)),
            "",
            "a container name must be specified for pod web, choose one of: [a b]"
            " or one of the init containers: [i]",
        ),
        (pod("a"), "x", "container x is not valid for pod web"),
    ],
)
def test_which_container_is_meant_must_be_clear(of: Obj, name: str, message: str) -> None:
    with pytest.raises(ApiError) as error:
        container_of(of, name)
    assert refusal(error) == (400, message)


def test_options_are_passed_on_in_the_agents_words() -> None:
    query = {"follow": "true", "previous": "0", "tailLines": "5", "limitBytes": "10", "sinceSeconds": "60"}
    assert log_options(asked(**query, timestamps="1", stream="Stderr"), "web", now_ns=NOW) == (
        ("bytes_max", "10"), ("follow", "true"), ("since", "2025-12-31T23:59:00.000000Z"),
        ("stream", "stderr"), ("tail", "5"), ("timestamps", "true"),
    )  # fmt: skip
    since = log_options(asked(sinceTime="2026-01-01T02:00:00.5+02:00"), "web", now_ns=NOW)
    assert since == (("since", "2026-01-01T00:00:00.500000Z"),)


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ({"tailLines": "-1"}, 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"limitBytes": "0"}, 422, "limitBytes: Invalid value: 0: must be greater than or equal to 1"),
        ({"sinceSeconds": "1", "sinceTime": "2026-01-01T00:00:00Z"}, 422, "at most one of `sinceTime`"),
        ({"stream": "both"}, 422, 'stream: Unsupported value: "both"'),
        ({"tailLines": "many"}, 400, "tailLines must be a number, not 'many'"),
        ({"sinceTime": "yesterday"}, 400, "sinceTime must be a time of RFC 3339"),
        ({"sinceTime": "2026-01-01T00:00:00"}, 400, "sinceTime must be a time of RFC 3339"),
    ],
)
def test_options_that_make_no_sense_are_refused(query: dict[str, str], code: int, words: str) -> None:
    with pytest.raises(ApiError) as error:
        log_options(asked(**query), "web", now_ns=NOW)
    assert error.value.code == code
    assert words in error.value.message


def test_a_container_that_has_not_begun_says_why() -> None:
    waiting = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
    with pytest.raises(ApiError) as error:
        check_begun(pod("main", containerStatuses=[waiting]), "main", previous=False)
    assert refusal(error) == (400, 'container "main" in pod "web" is waiting to start: ContainerCreating')
    crashed = {**waiting, "containerID": "process://x"}
    check_begun(pod("main", containerStatuses=[crashed]), "main", previous=False)
    with pytest.raises(ApiError, match="previous terminated container"):
        check_begun(pod("main", containerStatuses=[crashed]), "main", previous=True)


def test_an_agent_is_where_its_node_says() -> None:
    node = {
        "metadata": {"name": "n1", "annotations": {"fathom.dev/agent-certificate": "PEM"}},
        "status": {
            "addresses": [
                {"type": "Hostname", "address": "h"},
                {"type": "InternalIP", "address": "127.9.9.1"},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }
    assert address_of(node) == AgentAddress("n1", "127.9.9.1", 10250, "PEM")
    with pytest.raises(ApiError, match="serves neither logs nor metrics"):
        address_of({"metadata": {"name": "n1"}})


def test_metrics_have_the_shape_that_kubectl_top_reads() -> None:
    answer = {"at_ns": NOW, "window_ns": 10_000_000_000, "cpu_nano": 1_500_000, "memory_bytes": 2048}
    used = {"containers": [{"name": "main", "cpu_nano": 7, "memory_bytes": 4096}]}
    common = {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "timestamp": "2026-01-01T00:00:00Z",
        "window": "10.000s",
    }
    assert node_metrics({"metadata": {"name": "n1", "labels": {"a": "b"}}}, answer) == {
        **common,
        "kind": "NodeMetrics",
        "metadata": {"name": "n1", "labels": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "usage": {"cpu": "1500000n", "memory": "2Ki"},
    }
    assert pod_metrics(pod("main"), used, answer)["containers"] == [
        {"name": "main", "usage": {"cpu": "7n", "memory": "4Ki"}}
    ]
