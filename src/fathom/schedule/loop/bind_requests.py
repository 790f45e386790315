"""Bind requests: one request for many placements, and the API server's answer for each of them.

    Bound      the pod is bound, at this revision
    Refused    a predicate failed at the server: which one, and the revision the server had seen
    Unknown    the pod may have been bound: only reading the pod tells

Nothing here decides: `committing` applies each answer to the queue and the node table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from fathom.client.api import TIMEOUT_S, Api, own_resource
from fathom.client.outcomes import Committed, Conflict, Rejected, Unknown
from fathom.kinds import binding_batch
from fathom.model.binding_checks import FENCE_LOST
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, lookup, metadata, uid_of
from fathom.model.reasons import FENCED
from fathom.model.resources import PODS
from fathom.model.well_known import DECISION_ANNOTATION

BINDING_BATCHES = own_resource(binding_batch.DEFINITION)

NO_BATCHES = "NoBatches"  # The server does not know BindingBatches.


class BindRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One binding in the form in which it is sent."""

    namespace: str
    name: str
    uid: str
    node: str
    node_uid: str = ""
    node_revision: str = ""
    annotations: dict[str, str] = {}
    policy: str = ""
    overrides: tuple[str, ...] = ()
    reservation: str = ""

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


class BindAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome of one binding."""

    status: Literal["Bound", "Refused", "Unknown"]
    revision: int = 0  # Of the commit.
    check: str = ""  # Which predicate was false.
    message: str = ""
    current_revision: int = 0  # The revision that the server had seen when it refused.


class _Result(msgspec.Struct, frozen=True, rename="camel"):
    status: str = "Unknown"
    revision: int | str = 0
    check: str = ""
    message: str = ""
    current_revision: int | str = 0


class BindSender:
    """Sends one request for many bindings where the server knows BindingBatches, else (a Kubernetes cluster
    that fathom is attached to) one request for each. It finds out by trying."""

    def __init__(self, api: Api, *, timeout_s: float = TIMEOUT_S) -> None:
        self._api = api
        self._timeout_s = timeout_s
        self._batches = True

    async def send(self, requests: Sequence[BindRequest]) -> list[BindAnswer]:
        """One answer per bind request, in order, also after an error or a timeout."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._send(requests)
        except TimeoutError:
            return [
                BindAnswer("Unknown", message=f"no answer from the API server within {self._timeout_s:g} s")
            ] * len(requests)

    async def _send(self, requests: Sequence[BindRequest]) -> list[BindAnswer]:
        if self._batches:
            answers = await send_batch(self._api, requests)
            if not all(answer.check == NO_BATCHES for answer in answers):
                return answers
            self._batches = False
        return list(await asyncio.gather(*(send_one(self._api, request) for request in requests)))


async def send_one(api: Api, request: BindRequest) -> BindAnswer:
    target = {"apiVersion": "v1", "kind": "Node", "name": request.node, "uid": request.node_uid}
    meta = {
        "name": request.name,
        "namespace": request.namespace,
        "uid": request.uid,
        "annotations": dict(request.annotations),
    }
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
    api = api.with_decision(request.annotations.get(DECISION_ANNOTATION, ""))
    match await api.create(PODS, request.namespace, body, "binding"):
        case Committed():
            return BindAnswer("Bound")
        case Unknown(cause=cause):
            return BindAnswer("Unknown", message=cause)
        case Conflict(why=why, causes=causes):
            return await _refused(api, request, why, causes)
        case Rejected(code=404, message=message):
            return BindAnswer("Refused", check="PodGone", message=message)
        case Rejected(reason=reason, message=message):
            return BindAnswer("Refused", check=reason, message=message)


async def _refused(api: Api, request: BindRequest, why: str, causes: tuple[str, ...]) -> BindAnswer:
    """fathom's server names the failed check. Kubernetes names none, so read the pod: it may have a node."""
    if causes:
        return BindAnswer("Refused", check=causes[0], message=why)
    answer = await read_outcome(api, request)
    if answer is not None and answer.status != "Unknown":
        return answer
    return BindAnswer("Refused", check="Conflict", message=why)


async def send_batch(api: Api, requests: Sequence[BindRequest]) -> list[BindAnswer]:
    """One answer per bind request, in order, also after an error."""
    body = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "BindingBatch",
        "items": [msgspec.to_builtins(request) for request in requests],
    }
    match await api.create(BINDING_BATCHES, "", body):
        case Committed(obj=obj):
            return answers_in(obj, len(requests))
        case Unknown(cause=cause):
            return [BindAnswer("Unknown", message=cause)] * len(requests)
        case Conflict(why=why, causes=causes):
            check = FENCE_LOST if FENCED in causes else "Conflict"
            return [BindAnswer("Refused", check=check, message=why)] * len(requests)
        # Kubernetes refuses an account without rights to a kind before it looks whether there is such a kind.
        case Rejected(code=404, message=message) | Rejected(code=403, reason="Forbidden", message=message):
            return [BindAnswer("Refused", check=NO_BATCHES, message=message)] * len(requests)
        case Rejected(reason=reason, message=message):
            return [BindAnswer("Refused", check=reason, message=message)] * len(requests)


def answers_in(obj: Obj, count: int) -> list[BindAnswer]:
    """The results in the server's answer. Where the answer cannot be read, the outcome is unknown."""
    results = obj.get("results")
    if not isinstance(results, list) or len(results) != count:
        return [
            BindAnswer("Unknown", message="the API server's answer does not have one result per binding")
        ] * count
    return [_answer(result) for result in results]


def _answer(result: Any) -> BindAnswer:
    try:
        read = msgspec.convert(result, _Result, strict=False)
    except msgspec.ValidationError as error:
        return BindAnswer("Unknown", message=f"the binding's result cannot be read: {error}")
    if read.status == "Bound":
        return BindAnswer("Bound", revision=int(read.revision or 0))
    if read.status == "Refused":
        current = int(read.current_revision or 0)
        return BindAnswer("Refused", 0, read.check or "Refused", read.message, current)
    return BindAnswer("Unknown", message=read.message)


async def read_outcome(api: Api, request: BindRequest) -> BindAnswer | None:
    """Read the pod to resolve an unknown outcome. None: the read failed; 'Unknown': the pod has no node, and
    the bind request may still be on its way."""
    try:
        pod = await api.get(PODS, request.namespace, request.name)
    except ApiError:
        return None
    if pod is None:
        return BindAnswer("Refused", check="PodGone", message="the pod is gone")
    if uid_of(pod) != request.uid:
        return BindAnswer("Refused", check="PodUidChanged", message="another pod has this name now")
    node = lookup(pod, "spec", "nodeName")
    if node == request.node:
        return BindAnswer("Bound", revision=int(metadata(pod).get("resourceVersion") or 0))
    if node:
        return BindAnswer("Refused", check="PodBound", message=f"the pod is bound to {node}")
    return BindAnswer("Unknown", message="the pod has no node yet")
