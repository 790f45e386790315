"""Request bytes, assembled by hand so that asking costs the driver next to nothing, and checks of answers."""

from __future__ import annotations

import msgspec

from fathom.bench.errors import BenchFailed
from fathom.bench.kubeconfig import BenchTarget
from fathom.bench.wire import WireAnswer

_REVISION = b'"resourceVersion":"'


class Asker:
    """Requests to one server, for ConfigMaps of one size in one namespace."""

    def __init__(self, target: BenchTarget, *, namespace: str, object_bytes: int) -> None:
        self._prefix = target.prefix.encode()
        lines = [f"Host: {target.host}:{target.port}", "Accept: application/json", "User-Agent: fathom-bench"]
        if target.token:
            lines.append(f"Authorization: Bearer {target.token}")
        self._head = "\r\n".join(lines).encode()
        self.namespace = namespace
        self._object_bytes = object_bytes
        self._all = f"/api/v1/namespaces/{namespace}/configmaps".encode()

    def get(self, path: bytes) -> bytes:
        return b"GET %s%s HTTP/1.1\r\n%s\r\n\r\n" % (self._prefix, path, self._head)

    def delete(self, path: bytes) -> bytes:
        return b"DELETE %s%s HTTP/1.1\r\n%s\r\n\r\n" % (self._prefix, path, self._head)

    def send(self, method: bytes, path: bytes, body: bytes) -> bytes:
        return (
            b"%s %s%s HTTP/1.1\r\n%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        ) % (method, self._prefix, path, self._head, len(body), body)

    def create_namespace(self) -> bytes:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        return self.send(b"POST", b"/api/v1/namespaces", msgspec.json.encode(body))

    def delete_all(self) -> bytes:
        return self.delete(self._all)

    def delete_namespace(self) -> bytes:
        return self.delete(b"/api/v1/namespaces/" + self.namespace.encode())

    def create_one(self, name: bytes) -> bytes:
        return self.send(b"POST", self._all, self.config_map(name, revision=b"", stamp=0))

    def get_one(self, name: bytes) -> bytes:
        return self.get(b"%s/%s" % (self._all, name))

    def update_one(self, name: bytes, *, revision: bytes, stamp: int) -> bytes:
        body = self.config_map(name, revision=revision, stamp=stamp)
        return self.send(b"PUT", b"%s/%s" % (self._all, name), body)

    def list_all(self, *, limit: int = 0) -> bytes:
        return self.get(self._all + (b"?limit=%d" % limit if limit else b""))

    def watch(self, *, revision: bytes) -> bytes:
        return self.get(self._all + b"?watch=1&timeoutSeconds=3600&resourceVersion=" + revision)

    def config_map(self, name: bytes, *, revision: bytes, stamp: int) -> bytes:
        """As long as was asked for, filler included. `stamp` makes each update a real change: a server
        may leave out a write that changes nothing."""
        seen = b',"resourceVersion":"%s"' % revision if revision else b""
        head = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"%s}' % (name, seen)
        start = head + b',"data":{"stamp":"%d","fill":"' % stamp
        return start + b"x" * max(0, self._object_bytes - len(start) - 3) + b'"}}'


def expect(answer: WireAnswer, status: int, action: str) -> WireAnswer:
    """Raise BenchFailed, with the server's message, for any other status."""
    if answer.status != status:
        raise BenchFailed(f"{action} answered {answer.status} instead of {status}: {_message(answer.body)}")
    return answer


def revision_of(answer: WireAnswer) -> bytes:
    at = answer.body.find(_REVISION)
    if at < 0:
        raise BenchFailed("an answer has no resourceVersion")
    start = at + len(_REVISION)
    return answer.body[start : answer.body.index(b'"', start)]


class _Status(msgspec.Struct):
    message: str = ""


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


def _message(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Status).message or "no message"
    except msgspec.DecodeError:
        return body[:200].decode(errors="replace") or "no message"


def count_items(answer: WireAnswer) -> int:
    try:
        return len(msgspec.json.decode(answer.body, type=_Items).items)
    except msgspec.DecodeError as error:
        raise BenchFailed(f"the answer to a list is no list: {error}") from error
