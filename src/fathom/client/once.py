"""The API for commands that send a few requests and end: no Domain, no recording, the same `Api`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from fathom.client.api import Api
from fathom.client.http import CONNECT_S, ServerAddress
from fathom.client.no_answer import no_answer_text
from fathom.seams.seam import Ask, Reply, Stream


class OnceTransport:
    def __init__(self, server: ServerAddress, session: aiohttp.ClientSession) -> None:
        self._server = server
        self._session = session

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        server = self._server
        if server.renewing is not None:
            await server.renewing.renew()
        try:
            async with self._session.request(
                ask.method,
                server.url + ask.target,
                data=ask.body or None,
                headers=(*ask.headers, *server.credentials()),
                server_hostname=server.server_name or None,
                timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S),
                allow_redirects=False,
            ) as response:
                audit_id = response.headers.get("audit-id", "")
                return Reply(response.status, await response.read(), audit_id)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return Reply(0, no_answer_text(server.url, error).encode())

    async def open(self, ask: Ask, *, timeout_s: float) -> Stream | Reply:
        return Reply(501, b"watches need a Domain")


@asynccontextmanager
async def api_of(server: ServerAddress) -> AsyncIterator[Api]:
    connector = aiohttp.TCPConnector(ssl=server.tls)
    async with aiohttp.ClientSession(connector=connector) as session:
        session._retry_connection = False  # As in `client/http.py`: no request is sent twice unseen.
        yield Api(OnceTransport(server, session), headers=(("user-agent", "fathom"),))
