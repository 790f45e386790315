"""The API server's connections to agents, over HTTPS.

The client certificate is signed by the cluster's CA. The only server certificate trusted is the agent's own,
as its Node object has it.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
import time
from collections import OrderedDict
from typing import Any

import aiohttp

from fathom.agent.tunnels import open_tunnel
from fathom.api.agent_connections import AgentAddress, ConnectAsk, LogAsk, ReachedAgent, address_of
from fathom.api.auth.certificates import Pki, issue_client
from fathom.api.request import StreamSource, Tunnel
from fathom.client.credentials import private_file
from fathom.model.accounts import API_SERVER
from fathom.model.errors import ApiError, bad_request, unavailable
from fathom.model.objects import Obj
from fathom.model.user import User
from fathom.seams.outside import Clock

CONNECT_S = 3.0
USAGE_S = 3.0
PAGE_S = 10.0  # Prometheus' own limit for a scrape.
PAGE_BYTES_MAX = 8 << 20
KEPT_S = 5.0  # An agent samples every ten seconds: asking more often gives nothing new.
CONTEXTS_MAX = 2000  # One per agent; a restarted agent has a new one.
READ_BYTES = 64 * 1024
# A refused connection is not among these: the machine has answered.
NOBODY_THERE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT})


class AgentsOverHttps:
    def __init__(self, pki: Pki, clock: Clock) -> None:
        certificate, key = issue_client(pki, User(API_SERVER), clock=clock)
        self._pair = certificate + b"\n" + key
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()
        self._session: aiohttp.ClientSession | None = None
        self._usage: dict[str, tuple[float, dict[str, Any]]] = {}  # By node.

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def logs(self, at: AgentAddress, ask: LogAsk) -> StreamSource:
        path = f"/containerLogs/{ask.namespace}/{ask.pod}/{ask.uid}/{ask.container}"
        response = await self._get(at, path, dict(ask.options), aiohttp.ClientTimeout(sock_connect=CONNECT_S))
        if response.status != 200:
            text = (await response.text())[:500]
            response.release()
            raise bad_request(text) if response.status == 400 else _no_answer(at, text)
        return _Body(response)

    async def connect(self, at: AgentAddress, ask: ConnectAsk) -> tuple[Tunnel, tuple[tuple[str, str], ...]]:
        return await open_tunnel(at, ask, self._context(at))

    async def usage(self, at: AgentAddress) -> dict[str, Any]:
        cached = self._usage.get(at.node)
        if cached is not None and time.monotonic() - cached[0] < KEPT_S:
            return cached[1]
        response = await self._get(at, "/usage", {}, aiohttp.ClientTimeout(total=USAGE_S))
        try:
            answer: dict[str, Any] = await response.json()
        except (aiohttp.ClientError, ValueError, TimeoutError) as error:
            raise _no_answer(at, str(error)) from None
        if not answer.get("window_ns"):
            raise _no_answer(at, "it has no usage measurement yet")
        self._usage[at.node] = (time.monotonic(), answer)
        return answer

    async def page(self, at: AgentAddress, path: str) -> tuple[int, bytes]:
        response = await self._get(at, path, {}, aiohttp.ClientTimeout(total=PAGE_S, sock_connect=CONNECT_S))
        try:
            body = await response.content.read(PAGE_BYTES_MAX + 1)
            while not response.content.at_eof() and len(body) <= PAGE_BYTES_MAX:
                body += await response.content.read(PAGE_BYTES_MAX + 1 - len(body))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _no_answer(at, str(error) or type(error).__name__) from None
        finally:
            response.close()
        if len(body) > PAGE_BYTES_MAX:
            raise _no_answer(at, f"its answer is longer than {PAGE_BYTES_MAX} bytes")
        return response.status, body

    async def reach(self, node: Obj) -> ReachedAgent:
        try:
            at = address_of(node)
        except ApiError as error:
            return ReachedAgent("unknown", error.message)
        if nothing := await _nothing_answers(at):
            return ReachedAgent("gone", nothing)
        try:
            response = await self._get(at, "/healthz", {}, aiohttp.ClientTimeout(total=CONNECT_S))
        except ApiError as error:
            return ReachedAgent("unsure", error.message)
        response.release()
        return (
            ReachedAgent("alive")
            if response.status == 200
            else ReachedAgent("unsure", f"HTTP {response.status}")
        )

    async def _get(
        self, at: AgentAddress, path: str, query: dict[str, str], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=15)
            )
        host = f"[{at.host}]" if ":" in at.host else at.host
        try:
            return await self._session.get(
                f"https://{host}:{at.port}{path}", params=query, ssl=self._context(at), timeout=timeout
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _no_answer(at, str(error) or type(error).__name__) from None

    def _context(self, at: AgentAddress) -> ssl.SSLContext:
        if at.certificate not in self._contexts:
            try:
                context = ssl.create_default_context(cadata=at.certificate)
                with private_file(self._pair) as pair:
                    context.load_cert_chain(pair)
            except (ssl.SSLError, OSError) as error:
                raise _no_answer(at, f"its certificate cannot be used: {error}") from None
            self._contexts[at.certificate] = context
            if len(self._contexts) > CONTEXTS_MAX:
                self._contexts.popitem(last=False)
        return self._contexts[at.certificate]


class _Body:
    """A streamed response body, as the API's `StreamSource`."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._closed = asyncio.Event()

    async def next(self) -> bytes | None:
        if self._closed.is_set():
            return None
        reading = asyncio.ensure_future(self._response.content.readany())
        closing = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait((reading, closing), return_when=asyncio.FIRST_COMPLETED)
            return (reading.result() or None) if reading.done() else None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None
        finally:
            reading.cancel()
            closing.cancel()

    def close(self) -> None:
        self._closed.set()
        self._response.close()


async def _nothing_answers(at: AgentAddress) -> str:
    """Why the machine cannot be reached; '' if it answers, even by refusing the connection."""
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(at.host, at.port)
    except TimeoutError:
        return f"{at.host} does not answer within {CONNECT_S:g} s"
    except OSError as error:
        return str(error) if error.errno in NOBODY_THERE else ""
    writer.close()
    return ""


def _no_answer(at: AgentAddress, why: str) -> ApiError:
    return unavailable(f"{at.whose} {at.node} does not answer: {why}")
