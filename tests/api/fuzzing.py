"""One server under fire: what every answer must be, whatever was sent, and the odd values to send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st
from tests.api.cpu import process_cpu_s
from tests.api.harness import ADMIN, serving

from fathom.api.request import Request, Response, StreamResponse, UpgradeResponse
from fathom.api.resources import path_of
from fathom.kube.definitions.kind import Kind

T = TypeVar("T")

ANSWER_CPU_S_MAX = 1.0  # Of this process' own time: the machine may be busy with something else.
ANSWER_S_MAX = 60.0
FIRST_EVENTS_S = 0.002
FUTURE = b"Too large resource version"  # Made up by the sender: as in Kubernetes, a 504.
NAMESPACE = "default"

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Answer(msgspec.Struct):
    status: int
    obj: Any


class World:
    """One server for many examples. Its loop runs while a request does, and not in between."""

    def __init__(self, data: Path) -> None:
        self._log = data / "log"
        self._log.touch()
        self._read = 0  # So much of the log has been looked at.
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self.api = self._runner.run(self._stack.enter_async_context(serving(data)))

    def close(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        query: dict[str, list[str]] | None = None,
        headers: dict[str, str] | None = None,
        cpu_s_max: float = ANSWER_CPU_S_MAX,
    ) -> Answer:
        """The answer, which is never the server's fault, always a Status where it is an error, and soon."""
        sent = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json", **(headers or {})}
        request = Request(method=method, path=path, query=query or {}, headers=sent, body=body)
        started = process_cpu_s()
        answer = self.run(self._answer(request))
        assert process_cpu_s() - started < cpu_s_max, f"slow: {shown(request)}"
        return self._judged(request, answer)

    def patch(self, path: str, body: Any, media: str = MERGE_PATCH) -> Answer:
        return self.send("PATCH", path, encoded(body), headers={"content-type": media})

    def still_answers(self) -> None:
        """And nothing behind the scenes has failed."""
        assert self.send("GET", "/readyz").status == 200
        assert self.send("GET", f"/api/v1/namespaces/{NAMESPACE}").status == 200
        new = self._log.read_text()[self._read :]
        self._read += len(new)
        assert '"level":"error"' not in new, new[-4000:]
        self.run(self._forget_history())

    async def _forget_history(self) -> None:
        """Or a deep run would hold every version of every object."""
        store = self.api.core.store
        await store.compact(await store.revision())

    async def _answer(self, request: Request) -> Response:
        answer = await asyncio.wait_for(self.api.parts.server.handle(request), ANSWER_S_MAX)
        assert not isinstance(answer, UpgradeResponse)
        return answer if isinstance(answer, Response) else await _first_events(answer)

    def _judged(self, request: Request, answer: Response) -> Answer:
        told = f"{shown(request)}\n-> {answer.status} {answer.body[:2000]!r}"
        ours = {500, 503} if FUTURE in answer.body else {500, 503, 504}
        assert answer.status not in ours, f"{told}\n{self._log.read_text()[-4000:]}"
        for name, value in answer.headers:
            assert f"{name}{value}".isascii(), told
            assert f"{name}{value}".isprintable(), told
        if not answer.content_type.startswith("application/json"):
            assert answer.status == 200, told
            return Answer(answer.status, answer.body)
        obj: Any = json.loads(answer.body) if answer.body else {}
        if answer.status >= 400:
            assert (obj["kind"], obj["status"], obj["code"]) == ("Status", "Failure", answer.status), told
            assert obj["reason"], told
            assert obj["message"], told
        return Answer(answer.status, obj)


async def _first_events(stream: StreamResponse) -> Response:
    """A watch's first events, as one list; none are fine too."""
    try:
        chunk = await asyncio.wait_for(stream.source.next(), FIRST_EVENTS_S)
    except TimeoutError:
        chunk = None
    stream.source.close()
    events = [json.loads(line) for line in (chunk or b"").splitlines()]
    return Response(stream.status, json.dumps(events).encode())


def shown(request: Request) -> str:
    headers = {name: value for name, value in request.headers.items() if name != "authorization"}
    return f"{request.method} {request.path!r} {request.query} {headers} {request.body[:3000]!r}"


def encoded(value: Any) -> bytes:
    """As JSON in ASCII, so that half a surrogate pair can be said too."""
    return json.dumps(value, ensure_ascii=True).encode()


def path_to(kind: Kind, name: str = "", subresource: str = "") -> str:
    path = path_of(kind, NAMESPACE if kind.namespaced else "", name)
    return f"{path}/{subresource}" if subresource else path


# Values that somebody once did not think of.

HALF_A_PAIR = "\ud800"  # JSON can say it, UTF-8 cannot.
SENDABLE = (
    *("", " ", "x", "web", "default", "A", "-", ".", "..", "/", "a/b", "a.b/c", "a=b", "*", "%", "%s"),
    *("0", "1", "-1", "01", "1.5", "1e3", "1e999999", "9" * 400, "100m", "1Gi", "9" * 20 + "Ei", "50%"),
    *("true", "null", "TCP", "Always", "ClusterIP", "None", "Delete", "RollingUpdate", "127.0.0.1", "::1"),
    *("10.0.0.0/8", "http", "*/5 * * * *", "2024-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "example.com"),
    *("9999-12-31T23:59:59.999999999-23:59", "eA==", "é", "\u0000", "\u2028", "😀", "x" * 254, "$(X)"),
    *("v1", "apps/v1", "Pod", "orphan", "foregroundDeletion", "kubernetes", "kubernetes.io/x", "app=web"),
)
TEXTS = (*SENDABLE, HALF_A_PAIR)
NUMBERS = (
    *(0, 1, -1, 2, 80, 65536, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, 2**64, 10**40),
    *(0.5, -0.0, 1e308),
)
texts = st.sampled_from(TEXTS) | st.text(max_size=6)
scalars = st.none() | st.booleans() | st.sampled_from(NUMBERS) | texts
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
