"""What a refused binding means is told by ids in the answer, or by the pod; never by the answer's words."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from fathom.client.api import Api
from fathom.schedule.loop.bind_requests import BindAnswer, BindRequest, BindSender, send_batch, send_one
from fathom.seams.seam import Ask, Reply, Stream

WISH = BindRequest(namespace="default", name="web", uid="u", node="a")
POD = {"metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7"}, "spec": {}}


class Conflicting:
    """A server that answers every write with one conflict, and reads with one pod."""

    def __init__(self, status: dict[str, Any], pod: dict[str, Any] | None) -> None:
        self._status, self._pod = status, pod
        self.asked: list[str] = []

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        self.asked.append(ask.method)
        if ask.method != "GET":
            return Reply(409, msgspec.json.encode({"kind": "Status", "reason": "Conflict", **self._status}))
        return Reply(404, b"{}") if self._pod is None else Reply(200, msgspec.json.encode(self._pod))

    async def open(self, ask: Ask, *, timeout_s: float) -> Stream | Reply:
        raise AssertionError("no stream here")


def caused(reason: str, message: str = "no") -> dict[str, Any]:
    return {"message": message, "details": {"causes": [{"reason": reason, "message": message}]}}


def test_a_batch_behind_a_fence_is_told_by_its_cause() -> None:
    (found,) = asyncio.run(send_batch(Api(Conflicting(caused("Fenced"), None)), [WISH]))
    assert found == BindAnswer("Refused", check="FenceLost", message="no")


def test_a_word_in_the_message_is_no_fence() -> None:
    words = "the pod conference-1 of the reference fence has changed"
    (found,) = asyncio.run(send_batch(Api(Conflicting({"message": words}, None)), [WISH]))
    assert found == BindAnswer("Refused", check="Conflict", message=words)


def test_our_server_names_the_check_of_a_single_binding() -> None:
    server = Conflicting(caused("NodeFull"), None)
    assert asyncio.run(send_one(Api(server), WISH)) == BindAnswer("Refused", check="NodeFull", message="no")
    assert server.asked == ["POST"]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("a", BindAnswer("Bound", revision=7)),
        ("b", BindAnswer("Refused", check="PodBound", message="the pod is bound to b")),
        ("", BindAnswer("Refused", check="Conflict", message="it is assigned already to some node")),
    ],
)
def test_where_no_check_is_named_the_pod_is_asked(node: str, expected: BindAnswer) -> None:
    """As with a Kubernetes that we are attached to, whatever words it has for it."""
    pod = {**POD, "spec": {"nodeName": node} if node else {}}
    server = Conflicting({"message": "it is assigned already to some node"}, pod)
    assert asyncio.run(send_one(Api(server), WISH)) == expected


class WithoutBatches:
    """A Kubernetes that refuses what an account may not do before it looks whether there is such a kind."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        self.asked.append(ask.target)
        if "fathom.dev" in ask.target:
            return Reply(403, msgspec.json.encode({"kind": "Status", "reason": "Forbidden", "message": "no"}))
        return Reply(201, b"{}")

    async def open(self, ask: Ask, *, timeout_s: float) -> Stream | Reply:
        raise AssertionError("no stream here")


def test_where_batches_are_forbidden_each_pod_is_bound_by_itself() -> None:
    server = WithoutBatches()
    sender = BindSender(Api(server))

    async def twice() -> list[BindAnswer]:
        return [*await sender.send([WISH]), *await sender.send([WISH])]

    assert asyncio.run(twice()) == [BindAnswer("Bound")] * 2
    assert [target.rpartition("/")[2] for target in server.asked] == ["bindingbatches", "binding", "binding"]
