"""A WebSocket into a pod, for `exec`, `cp` and `port-forward`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

import aiohttp

from fathom.cli.api_server import ServerConnection
from fathom.cli.objects.answers import done
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.client.credentials import NoCredentials
from fathom.client.kubeconfig import BadKubeconfig
from fathom.client.no_answer import no_answer_text
from fathom.client.servers import find_server
from fathom.seams.outside import live

MESSAGE_BYTES_MAX = 4 << 20
HEARTBEAT_S = 30.0  # A server that does not answer for so long is gone.


class PodConnections:
    """Opens WebSockets into one pod. Raises Problem."""

    def __init__(self, kubeconfig: Path | None, namespace: str, pod: str) -> None:
        self._kubeconfig = kubeconfig
        self._path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}"
        try:
            self._server = find_server(kubeconfig, clock=live().clock, environ=os.environ)
        except BadKubeconfig as error:
            raise Problem(str(error)) from error

    @asynccontextmanager
    async def open(
        self, action: str, query: Sequence[tuple[str, str]], protocol: str
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Raises Problem, in the server's words."""
        server, path = self._server, f"{self._path}/{action}?{urlencode(query)}"
        connector = aiohttp.TCPConnector(ssl=server.tls)
        async with aiohttp.ClientSession(connector=connector) as session:
            try:
                if server.renewing is not None:
                    await server.renewing.renew()
                websocket = await session.ws_connect(
                    server.url + path, protocols=(protocol,), headers=[*server.credentials(), AGENT],
                    server_hostname=server.server_name or None, max_msg_size=MESSAGE_BYTES_MAX,
                    heartbeat=HEARTBEAT_S,
                )  # fmt: skip
            except NoCredentials as error:
                raise Problem(str(error)) from error
            except aiohttp.WSServerHandshakeError as error:
                raise self._refusal(path, error) from None
            except (aiohttp.ClientError, OSError) as error:
                raise Problem(no_answer_text(server.url, error)) from error
            try:
                yield websocket
            finally:
                await websocket.close()

    def _refusal(self, path: str, error: aiohttp.WSServerHandshakeError) -> Problem:
        """aiohttp does not read the body of a refusal; asked without a WebSocket, the server says the
        same."""
        try:
            done(*ServerConnection(self._kubeconfig).request("GET", path), path)
        except Problem as refused:
            if "Upgrade request required" not in str(refused):
                return refused
        return Problem(f"the server refused the connection: HTTP {error.status}", exit_code=ANSWER_IS_NO)


AGENT = ("user-agent", "fathom")
