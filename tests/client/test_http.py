"""HTTP sends what it is asked to send, once."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from fathom.client.http import HttpBackend, ServerAddress
from fathom.seams.domain import Domain
from fathom.seams.host import Host, NoTape
from fathom.seams.outside import SystemClock
from fathom.seams.seam import Ask, Reply, Seam


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST", "GET"])
def test_a_request_whose_connection_breaks_is_not_sent_again(method: str) -> None:
    """The server hangs up on the second request of a connection, after it has read it."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for turn in (1, 2):
            requests.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
            if turn == 1:
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    async def main() -> list[Reply]:
        listener = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        domain, replies = Domain(), list[Reply]()
        host = Host(domain, SystemClock(), NoTape())
        backend = HttpBackend(
            host, ServerAddress(f"http://127.0.0.1:{port}", ssl.create_default_context(), lambda: ())
        )
        seam = Seam(domain, backend)

        async def ask() -> None:
            for target in ("/1", "/2"):
                replies.append(await seam.request(Ask(method, target), timeout_s=5))
            host.stop()

        host.start(seam, lambda: domain.create_task(ask()))
        await asyncio.wait_for(host.done, 20)
        await backend.close()
        listener.close()
        return replies

    replies = asyncio.run(main())
    assert requests == [f"{method} /{number} HTTP/1.1".encode() for number in (1, 2)]
    assert [reply.status for reply in replies] == [200, 0]
