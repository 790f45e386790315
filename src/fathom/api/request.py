"""One request and its answer, without a transport."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from fathom.api.client_frames import ClientFrames
from fathom.model.user import User

JSON = "application/json"


class Request(msgspec.Struct):
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]  # Lower-case names.
    body: bytes = b""
    client_certificate: bytes = b""  # DER, already verified against our CA by the TLS layer.
    remote: str = ""
    shares: bool = False  # In simulation: answers may be shared objects, never modified, instead of bytes.
    upgradable: bool = False  # The client asks for a WebSocket, and its connection can become one.

    def param(self, name: str, default: str = "") -> str:
        values = self.query.get(name)
        return values[0] if values else default

    def flag(self, name: str) -> bool:
        return self.param(name).lower() in {"1", "true"}


class Response(msgspec.Struct):
    status: int
    body: Any  # Bytes; an object if the request `shares`.
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


class StreamSource(Protocol):
    """The source of a stream's chunks. Not an async generator: the garbage collector decides when those
    finish, which no replay can repeat."""

    async def next(self) -> Any:
        """The next chunk; None at the end. Bytes; if the request `shares`, also a list of (type, object)."""
        ...

    def close(self) -> None:
        """The client has left. May be called at any time, also twice."""
        ...


class StreamResponse(msgspec.Struct):
    """An answer sent in chunks: a watch, a log."""

    source: StreamSource
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    status: int = 200


class Tunnel(Protocol):
    """A connection to an agent whose bytes are passed on to the client and back, as they are."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Returns when there is room for more. Raises OSError if the other end is gone."""
        ...

    def close(self) -> None:
        """May be called at any time, also twice."""
        ...


class UpgradeResponse(msgspec.Struct):
    """The connection becomes a WebSocket: from here on the client talks to an agent."""

    tunnel: Tunnel
    headers: tuple[tuple[str, str], ...] = ()
    status: int = 101
    may_continue: Callable[[], bool] | None = None  # Asked now and then, where the permission may end.
    ports_follow: bool = False  # The client names the ports that it wants on the connection.
    frames: ClientFrames = msgspec.field(default_factory=ClientFrames)  # What the client sends.
    ended: Callable[[], None] | None = None  # Called once, when the connection has ended.


Answer = Response | StreamResponse | UpgradeResponse


class RequestTarget(msgspec.Struct, frozen=True):
    """The verb, resource and object of a request, read from its method, path and query; authorization judges
    this."""

    verb: str  # get, list, watch, create, update, patch, delete, deletecollection; lower-case method else
    path: str
    group: str = ""
    version: str = ""
    plural: str = ""  # '' means a non-resource path.
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    node: str = ""  # Set where a list or watch selects one node: spec.nodeName=NODE.

    @property
    def is_resource(self) -> bool:
        return bool(self.plural)


class Caller(msgspec.Struct, frozen=True):
    """Who sent the request and with which headers, for the rules of kinds, admission and audit."""

    user: User
    request_id: str = ""
    user_agent: str = ""
    remote: str = ""
    fence: str = ""  # Fathom-Fence: ns/name/epoch
    overrides_seen: str = ""  # Fathom-Overrides-Seen: the revision of the overrides that it was decided by.
    decision: str = ""  # Fathom-Decision: the decision this write carries out.
    trace: str = ""  # The request's W3C trace id.
    began_ns: int = 0  # By the wall clock; only where traces are on.
