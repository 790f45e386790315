"""What stands before the MCP server on HTTP, in this order:

1. Host: only our own names. A page whose name was made to point at this machine (DNS rebinding) has another.
2. Origin: absent, as for programs, or our own; and no browser says (`Sec-Fetch-Site`) that another site
   asks. No answer has a CORS header, so no other page can read one.
3. The path, the method, the size of the body, and how long it may take to arrive.
4. The token: every request carries the caller's own, and the API server must know it. It is sent on with
   every request of that caller; there are no credentials of ours. A session belongs to the token that began
   it, and a token has a limited number of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fathom.mcp.token_sessions import IDLE_S, SESSIONS_PER_TOKEN, TokenSessions
from fathom.web.origin import OUR_SITE, SITE

PATH = "/mcp"
BODY_BYTES_MAX = 256 << 10  # A proposal has some hundred bytes.
BODY_S_MAX = 15.0
KNOWN_S = (
    30.0  # A token that was withdrawn opens no new request after this; the API server refuses it at once.
)
KNOWN_MAX = 256
METHODS = frozenset(
    {"POST", "DELETE"}
)  # No GET: this server never speaks first, so no stream keeps a session.
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_TOKEN = re.compile(r"Bearer +([A-Za-z0-9._~+/=-]{1,8192})", re.IGNORECASE)
SESSION = "mcp-session-id"
TOO_MANY_SESSIONS = (
    f"your token has {SESSIONS_PER_TOKEN} sessions open: end one with DELETE, or wait; one that nobody uses"
    f" ends after {IDLE_S / 60:.0f} minutes"
)
_OWN_HEADERS = frozenset(name for name, _ in HEADERS) | {b"server"}

KnownToken = Callable[[str], Awaitable[bool]]  # Raises Problem if nobody can tell.


class Names(msgspec.Struct, frozen=True):
    """What clients may call this server."""

    hosts: frozenset[str]  # 'localhost:8811'
    origins: frozenset[str]  # 'http://localhost:8811'


class Refusal(Exception):
    """The answer to a request that goes no further."""

    def __init__(self, code: int, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.headers = headers


class Guard:
    def __init__(self, app: ASGIApp, names: Names, is_known: KnownToken) -> None:
        self._app = app
        self._names = names
        self._is_known = is_known
        self._known_until: dict[str, float] = {}  # By the digest of a token; at most KNOWN_MAX.
        self._sessions = TokenSessions(time.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # A WebSocket: closed without an answer.
        protected = _with_headers(send)
        try:
            user = await self._admitted(scope)
            token, session = user.access_token.client_id, _header(scope["headers"], SESSION)
            begins = not session and _is_of_sessions(scope)
            if begins and not self._sessions.may_begin(token):
                raise Refusal(429, TOO_MANY_SESSIONS)
        except Refusal as refusal:
            await _answer(protected, refusal)
            return
        answer = _Watched(protected)
        serving = self._app({**scope, "user": user}, _in_time(receive), answer.send)
        await (self._beginning(token, answer, serving) if begins else serving)
        if session:
            ended = answer.status == 404 or (scope["method"] == "DELETE" and answer.status < 300)
            (self._sessions.ended if ended else self._sessions.used)(token, session)

    async def _beginning(self, token: str, answer: _Watched, serving: Awaitable[None]) -> None:
        self._sessions.begin(token)
        try:
            await serving
        finally:
            self._sessions.begun(token, answer.session if answer.status < 400 else "")

    async def _admitted(self, scope: Scope) -> AuthenticatedUser:
        headers = _single_headers(scope)
        if headers.get("host", "").lower() not in self._names.hosts:
            raise Refusal(421, "this is not the name of this server")
        if "origin" in headers and headers["origin"].lower() not in self._names.origins:
            raise Refusal(403, "requests of other pages are not answered")
        if headers.get(SITE, "none") not in OUR_SITE:
            raise Refusal(403, "the request comes from a page of another site")
        if scope["path"] != PATH:
            raise Refusal(404, f"the address is {PATH}")
        if scope["method"] not in METHODS:
            raise Refusal(405, "send POST, or DELETE to end a session", ((b"allow", b"POST, DELETE"),))
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
            raise Refusal(413, f"a request has at most {BODY_BYTES_MAX} bytes")
        return await self._user(headers.get("authorization", ""))

    async def _user(self, authorization: str) -> AuthenticatedUser:
        token = _token(authorization)
        if not token:
            raise _unauthorized("send your own token of the cluster: Authorization: Bearer TOKEN")
        digest = hashlib.sha256(token.encode()).hexdigest()
        if self._known_until.get(digest, 0.0) < time.monotonic():
            if not await self._is_known(token):
                raise _unauthorized("the API server does not know this token")
            self._remember(digest)
        return AuthenticatedUser(AccessToken(token=token, client_id=digest, scopes=[]))

    def _remember(self, digest: str) -> None:
        now = time.monotonic()
        self._known_until = {each: until for each, until in self._known_until.items() if until >= now}
        while len(self._known_until) >= KNOWN_MAX:
            del self._known_until[next(iter(self._known_until))]
        self._known_until[digest] = now + KNOWN_S


class _Watched:
    """What the server answers."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 500  # Until there is an answer.
        self.session = ""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.session = message["status"], _header(message.get("headers", ()), SESSION)
        await self._send(message)


def _header(headers: Iterable[tuple[bytes, bytes]], wanted: str) -> str:
    raw = wanted.encode()
    return next((value.decode("latin-1") for name, value in headers if name.lower() == raw), "")


def _is_of_sessions(scope: Scope) -> bool:
    """Newer versions of the protocol have none."""
    version = _header(scope["headers"], MCP_PROTOCOL_VERSION_HEADER)
    return not version or version in HANDSHAKE_PROTOCOL_VERSIONS


def token_of(request: Any) -> str:
    """The token of the HTTP request that a message came with; '' over stdio."""
    return "" if request is None else _token(request.headers.get("authorization", ""))


def _token(authorization: str) -> str:
    match = _TOKEN.fullmatch(authorization.strip())
    return match.group(1) if match else ""


def _unauthorized(message: str) -> Refusal:
    return Refusal(401, message, ((b"www-authenticate", b'Bearer realm="fathom"'),))


def _single_headers(scope: Scope) -> dict[str, str]:
    """Two of one name could mean one thing here and another further on."""
    headers: dict[str, str] = {}
    for raw_name, value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        if name in headers and name in {"host", "origin", "authorization", "content-length", SESSION}:
            raise Refusal(400, f"the header {name} was sent twice")
        headers[name] = value.decode("latin-1")
    return headers


def _with_headers(send: Send) -> Send:
    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            others = [(name, value) for name, value in message.get("headers", ()) if name not in _OWN_HEADERS]
            message = {**message, "headers": [*others, *HEADERS]}
        await send(message)

    return protected


def _in_time(receive: Receive) -> Receive:
    """A body that does not arrive in time ends the request, as if its sender had gone."""
    until, complete = time.monotonic() + BODY_S_MAX, False

    async def timed() -> Message:
        nonlocal complete
        if complete:
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), max(0.0, until - time.monotonic()))
        except TimeoutError:
            return {"type": "http.disconnect"}
        complete = not message.get("more_body", False)
        return message

    return timed


async def _answer(send: Send, refusal: Refusal) -> None:
    body = msgspec.json.encode({"error": str(refusal)})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # What is left of the body is not read.
        *refusal.headers,
    ]
    await send({"type": "http.response.start", "status": refusal.code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
