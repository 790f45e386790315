"""One caller of `fathom mcp` over HTTP cannot take the connections and sessions of the others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from tests.api.harness import ADMIN, JANE
from tests.mcp.sessions import Place, told
from tests.mcp.test_http import INITIALIZE, sent
from uvicorn.server import ServerState

from fathom.mcp import request_heads
from fathom.mcp.request_heads import TimedHeads
from fathom.mcp.token_sessions import IDLE_S, SESSIONS_PER_TOKEN, TokenSessions


def test_a_token_has_so_many_sessions_until_one_ends_or_is_idle() -> None:
    now_s = [0.0]
    sessions = TokenSessions(lambda: now_s[0])
    for number in range(SESSIONS_PER_TOKEN):
        assert sessions.may_begin("a")
        sessions.begin("a")
        sessions.begun("a", f"s{number}")
    assert (sessions.may_begin("a"), sessions.may_begin("b")) == (False, True)
    sessions.ended("a", "s3")
    assert sessions.may_begin("a")
    sessions.begin("a")
    assert not sessions.may_begin("a")  # Also while it has no id yet.
    sessions.begun("a", "")
    assert sessions.may_begin("a")
    sessions.used("a", "invented")
    assert sessions.may_begin("a")
    now_s[0] = IDLE_S / 2
    sessions.used("a", "s0")
    now_s[0] = IDLE_S + 1
    for number in range(SESSIONS_PER_TOKEN - 1):
        assert sessions.may_begin("a")
        sessions.begin("a")
        sessions.begun("a", f"t{number}")
    assert not sessions.may_begin("a")


async def _says_yes(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
        await send({"type": "http.response.body", "body": b"yes"})


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[int]:
    config = uvicorn.Config(_says_yes, http=TimedHeads, lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    opened = await loop.create_server(
        lambda: TimedHeads(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    try:
        yield opened.sockets[0].getsockname()[1]
    finally:
        opened.close()


async def answer_to(port: int, slow: bytes, *whole: bytes) -> bytes:
    """All that comes until the server closes the connection, after the answers to whole requests."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(30):
            for request in whole:
                writer.write(request)
                await reader.readuntil(b"yes")
            writer.write(slow)
            return await reader.read(-1)
    finally:
        writer.close()


def test_a_request_whose_head_does_not_arrive_in_time_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_heads, "HEAD_S_MAX", 0.3)
    whole = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"

    async def story() -> None:
        async with listening() as port:
            for requests in ((), (whole,)):
                slow = await answer_to(port, whole[:20], *requests)
                assert slow.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
                assert slow.endswith(b'{"error":"the head of the request took longer than 10 s"}')
            assert await answer_to(port, b"") == b""  # Who sends nothing is told nothing.

    asyncio.run(story())


@pytest.mark.live
def test_one_token_leaves_sessions_for_others(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        async with place.over_http() as url:
            admin, jane = ({"authorization": f"Bearer {token}"} for token in (ADMIN, JANE))
            begun = [(await sent(url, INITIALIZE, admin)) for _ in range(SESSIONS_PER_TOKEN)]
            assert {code for code, _, _ in begun} == {200}
            code, _, refused = await sent(url, INITIALIZE, admin)
            assert (code, refused["error"].startswith("your token has 16 sessions open: ")) == (429, True)
            assert (await sent(url, INITIALIZE, jane))[0] == 200
            session = {"mcp-session-id": begun[0][1]["mcp-session-id"]}
            assert (await sent(url, INITIALIZE, {**admin, **session}, method="DELETE"))[0] == 200
            assert (await sent(url, INITIALIZE, admin))[0] == 200

    told(story, tmp_path)
