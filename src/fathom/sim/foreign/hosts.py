"""Hosts that a test answers for: what an operator talks to besides the API server, by HTTP.

    operator.serve("vault.example.com", lambda request: {"data": {"password": "x"}})

They answer soon and do not fail, but for what the test's function does itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec

from fathom.model.body import encode_json
from fathom.sim.foreign.connections import Connection, ParsedRequest, head

if TYPE_CHECKING:
    from fathom.sim.foreign.machine import Machine

ANSWER_S = 0.01

JSON, TEXT, BYTES = "application/json", "text/plain; charset=utf-8", "application/octet-stream"


class HostRequest(msgspec.Struct, frozen=True):
    method: str
    host: str
    port: int
    path: str  # Without the query.
    query: dict[str, str]
    headers: dict[str, str]  # Names in lower case.
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


# Returns the body of a 200, the status code of an empty answer, or both, and perhaps headers:
# (201, {"id": 7}, {"Location": "/users/7"}). A dict or a list is sent as JSON. An OSError that it raises
# breaks the connection.
HostAnswer = Callable[[HostRequest], Any]
Hosts = Mapping[str, HostAnswer]  # By name or address, or by a pattern: '*.amazonaws.com'.


def answer_of(hosts: Hosts, host: str) -> HostAnswer | None:
    return hosts.get(host) or next((hosts[name] for name in hosts if fnmatch(host, name)), None)


class HostConnection(Connection):
    def __init__(self, machine: Machine, on_data: Any, host: str, port: int, answer: HostAnswer) -> None:
        super().__init__(machine, on_data)
        self._host, self._port, self._answers = host, port, answer

    async def _serve_one(self, parsed: ParsedRequest) -> None:
        await asyncio.sleep(ANSWER_S)
        try:
            status, body, headers = as_reply(self._answers(self._request(parsed)))
        except OSError as error:
            self._say(error)
            return
        except Exception as error:
            raise RuntimeError(f"the test's answer for {self._host} failed: {error!r}") from error
        lines = [f"{name}: {value}" for name, value in headers.items()]
        self._say(head(status, f"Content-Length: {len(body)}", *lines, content_type=""))
        if parsed.ask.method != "HEAD":
            self._say(body)
        if parsed.last:
            self._say(b"")

    def _request(self, parsed: ParsedRequest) -> HostRequest:
        path, _, query = parsed.ask.target.partition("?")
        return HostRequest(
            method=parsed.ask.method,
            host=self._host,
            port=self._port,
            path=path,
            query=dict(parse_qsl(query, keep_blank_values=True)),
            headers=dict(parsed.headers),
            body=parsed.ask.body,
        )


def as_reply(answered: Any) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers."""
    if isinstance(answered, int):
        return answered, b"", {}
    status, body, *more = answered if isinstance(answered, tuple) else (200, answered)
    data, content_type = _encoded(body)
    return status, data, {"Content-Type": content_type, **(more[0] if more else {})}


def _encoded(body: Any) -> tuple[bytes, str]:
    if isinstance(body, bytes):
        return body, BYTES
    if isinstance(body, str):
        return body.encode(), TEXT
    return b"" if body is None else encode_json(body), JSON
