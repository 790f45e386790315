"""The Seam's live backend: sends asks as HTTP requests on the host's loop, delivers the answers as inputs.

Nothing is decided here, and nothing is retried: a connection that breaks is an answer with status 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from fathom.client.credentials import NoCredentials
from fathom.client.server_address import CONNECT_S as CONNECT_S  # noqa: PLC0414  # Callers name it with the backend.
from fathom.client.server_address import ServerAddress as ServerAddress  # noqa: PLC0414
from fathom.model.body import encode_json
from fathom.model.errors import unauthorized
from fathom.seams.host import Host
from fathom.seams.seam import Ask, Input

# The network splits a watch anywhere; an incomplete event is not buffered beyond this.
LINE_BYTES_MAX = 64 << 20


class HttpBackend:
    """Create it on the host's loop; `start` and `cancel` are called from inside the Domain."""

    def __init__(self, host: Host, server: ServerAddress) -> None:
        self._host = host
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=server.tls, limit=0, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            skip_auto_headers=("User-Agent",),
            auto_decompress=True,
        )
        # aiohttp sends a PUT or DELETE again when a kept connection breaks under it, although the first may
        # have been carried out. There is no public switch for it.
        self._session._retry_connection = False

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        run = self._watch if stream else self._request
        self._tasks[number] = self._loop.create_task(run(number, ask))

    def cancel(self, number: int) -> None:
        task = self._tasks.pop(number, None)
        if task is not None:
            self._loop.call_soon(task.cancel)  # Not at once: we may be inside the task that is posting.

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await self._session.close()

    @asynccontextmanager
    async def _sent(self, ask: Ask) -> AsyncIterator[aiohttp.ClientResponse]:
        server = self._server
        if server.renewing is not None:
            await server.renewing.renew()
        credentials = server.credentials()
        async with self._session.request(
            ask.method,
            server.url + ask.target,
            data=ask.body or None,
            headers=(*ask.headers, *credentials),
            server_hostname=server.server_name or None,
            allow_redirects=False,
        ) as response:
            if response.status == 401 and server.renewing is not None:
                server.renewing.refused(credentials)
            yield response

    async def _request(self, number: int, ask: Ask) -> None:
        try:
            async with self._sent(ask) as response:
                status, body = response.status, await response.read()
        except NoCredentials as error:
            status, body = 401, _unauthorized_body(error)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            status, body = 0, _error_body(error)
        self._tasks.pop(number, None)
        self._host.post(Input.REPLY, number, status, body)

    async def _watch(self, number: int, ask: Ask) -> None:
        opened = False
        try:
            async with self._sent(ask) as response:
                if response.status != 200:
                    self._host.post(Input.OPENED, number, response.status, await response.read())
                    return
                opened = True
                self._host.post(Input.OPENED, number, 200)
                await self._relay(number, response)
        except NoCredentials as error:
            self._host.post(Input.OPENED, number, 401, _unauthorized_body(error))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if not opened:
                self._host.post(Input.OPENED, number, 0, _error_body(error))
        finally:
            self._tasks.pop(number, None)
            if opened:
                self._host.post(Input.ENDED, number)

    async def _relay(self, number: int, response: aiohttp.ClientResponse) -> None:
        """Whole lines only: an input's content must not depend on how the network split it."""
        incomplete = b""
        async for piece in response.content.iter_any():
            incomplete += piece
            end = incomplete.rfind(b"\n") + 1
            if end:
                self._host.post(Input.CHUNK, number, 0, incomplete[:end])
                incomplete = incomplete[end:]
            elif len(incomplete) > LINE_BYTES_MAX:
                return


def _unauthorized_body(error: NoCredentials) -> bytes:
    """The answer that the server would give to a request without credentials."""
    return encode_json(unauthorized(str(error)).status())


def _error_body(error: BaseException) -> bytes:
    return f"{type(error).__name__}: {error}".encode()
