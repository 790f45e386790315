"""The API server's handshake with an agent that is away, refuses, or answers nonsense."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fathom.agent.tunnels import open_tunnel, request_head
from fathom.api.agent_connections import AgentAddress, ConnectAsk
from fathom.model.errors import ApiError

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ASK = ConnectAsk(
    "exec",
    "default",
    "web",
    "u-1",
    "main",
    (("stdout", "true"), ("command", "a b&\r\nx: y")),
    KEY,
    "v5.channel.k8s.io",
)


def answered(answer: bytes, then: Callable[[int], Awaitable[object]]) -> None:
    """Run it with the port of an agent that answers with these bytes, and closes."""

    async def agent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(agent, "127.0.0.1", 0)
        async with server:
            await then(server.sockets[0].getsockname()[1])

    asyncio.run(story())


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\ncontent-length: 3\r\n\r\nwhy", 400, "why"),
        (b"HTTP/1.1 429 Too Many\r\ncontent-length: 4\r\n\r\nfull", 429, "full"),
        (
            b"HTTP/1.1 404 No\r\ncontent-length: 14\r\n\r\n404: Not Found",
            503,
            "of an older fathom that has no exec",
        ),
        (b"HTTP/1.1 410 Gone\r\ncontent-length: 4\r\n\r\ngone", 404, '"web" not found'),
        # The code decides, whatever the words.
        (
            b"HTTP/1.1 404 No\r\ncontent-length: 11\r\n\r\npod is gone",
            503,
            "an older fathom that has no exec",
        ),
        (b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n", 503, "HTTP 500"),
        (b"", 503, "it closed the connection"),
        (b"nonsense\r\n\r\n", 503, "does not answer"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"x" * 100_000, 503, "does not answer"),
    ],
)
def test_a_refusal_of_the_agent_is_told_in_its_words(answer: bytes, code: int, words: str) -> None:
    async def then(port: int) -> None:
        with pytest.raises(ApiError, match=words) as error:
            await open_tunnel(AgentAddress("n1", "127.0.0.1", port, ""), ASK, None)
        assert error.value.code == code

    answered(answer, then)


def test_an_agent_that_is_away_is_named() -> None:
    words = "the agent of node n1 does not answer: Connection refused"
    with pytest.raises(ApiError, match=words) as error:
        asyncio.run(open_tunnel(AgentAddress("n1", "127.0.0.1", 1, ""), ASK, None))
    assert error.value.code == 503


def test_bytes_that_come_with_the_handshake_are_not_lost() -> None:
    lines = (
        "HTTP/1.1 101 Switching",
        "upgrade: websocket",
        "connection: upgrade",
        "sec-websocket-accept: yes",
    )
    head = "\r\n".join((*lines, "", "")).encode()

    async def then(port: int) -> None:
        tunnel, headers = await open_tunnel(AgentAddress("n1", "127.0.0.1", port, ""), ASK, None)
        assert headers == (("sec-websocket-accept", "yes"),)
        assert (await tunnel.read(), await tunnel.read()) == (b"first", b"")
        tunnel.close()

    answered(head + b"first", then)


def test_no_word_of_a_command_ends_a_line_of_the_handshake() -> None:
    lines = request_head(AgentAddress("n1", "127.0.0.1", 1, ""), ASK).decode().split("\r\n")
    assert lines[0] == "GET /exec/default/web/u-1/main?stdout=true&command=a+b%26%0D%0Ax%3A+y HTTP/1.1"
    assert len(lines) == 9
