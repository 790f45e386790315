"""HTTP on a connection: who is answered what, in which order, and how connections end.

Hostile clients, and TLS, are tried on a real server in `tests/chaos`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from tests.api.harness import ADMIN, Api, config_map, tell

from fathom.api.http import Http
from fathom.model.body import encode_json

MAPS = "/api/v1/namespaces/default/configmaps"

Dialogue = Callable[[Api, Http, "Client"], Awaitable[None]]


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def ask(self, *head: str, body: bytes = b"") -> None:
        lines = [*head, "Host: x", f"Authorization: Bearer {ADMIN}"]
        lines += [f"Content-Length: {len(body)}"] if body else []
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    def create(self, name: str) -> None:
        self.ask(f"POST {MAPS} HTTP/1.1", body=encode_json(config_map(name)))

    async def answer(self, *, body: bool = True) -> tuple[str, dict[str, str], bytes]:
        """(status line, headers, body)"""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = head.strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        size = int(headers.get("content-length", 0)) if body else 0
        return status, headers, await self.reader.readexactly(size)

    async def chunk(self) -> bytes:
        size = int(await self.reader.readline(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self) -> bytes:
        """Until the server closes."""
        return await asyncio.wait_for(self.reader.read(), 10)


@asynccontextmanager
async def connected(http: Http) -> AsyncIterator[Client]:
    server = await asyncio.get_running_loop().create_server(http.connection, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        server.close()
        await http.stop(patience_s=1)


def speak(dialogue: Dialogue, data: Path, *, keep_alive_s: float = 60) -> None:
    async def story(api: Api) -> None:
        http = Http(api.parts.server, keep_alive_s=keep_alive_s)
        async with connected(http) as client:
            await dialogue(api, http, client)
        assert http.open == {}

    tell(story, data)


def test_one_request_after_another_is_answered_on_one_connection(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        client.create("a")
        status, headers, made = await client.answer()
        assert (status, headers["content-type"]) == ("HTTP/1.1 201 Created", "application/json")
        client.ask(f"GET {MAPS}/a?timeout=1s HTTP/1.1")
        status, _, found = await client.answer()
        assert (status, found) == ("HTTP/1.1 200 OK", made)
        assert len(http.open) == 1

    speak(dialogue, tmp_path)


def test_requests_that_come_together_are_answered_in_order(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        for number in range(20):
            client.create(f"c-{number}")
        bodies = [(await client.answer())[2] for _ in range(20)]
        assert [f'"name":"c-{number}"'.encode() in body for number, body in enumerate(bodies)] == [True] * 20

    speak(dialogue, tmp_path)


def test_a_body_may_come_in_pieces(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        body = encode_json(config_map("a"))
        client.ask(f"POST {MAPS} HTTP/1.1", "Transfer-Encoding: chunked")
        for at in range(0, len(body), 7):
            piece = body[at : at + 7]
            client.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await asyncio.sleep(0)
        client.writer.write(b"0\r\n\r\n")
        assert (await client.answer())[0] == "HTTP/1.1 201 Created"

    speak(dialogue, tmp_path)


def test_a_long_answer_is_whole_and_what_follows_it_too(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        long = {**config_map("long"), "data": {"text": "0123456789" * 90_000}}
        for name in ("long", "longer", "longest"):
            long["metadata"] = {"name": name}
            client.ask(f"POST {MAPS} HTTP/1.1", body=encode_json(long))
            assert (await client.answer())[0] == "HTTP/1.1 201 Created"
        client.ask(f"GET {MAPS} HTTP/1.1")
        client.ask("GET /livez HTTP/1.1")
        await asyncio.sleep(0.1)  # Nobody reads, and what there is room for is full.
        (_, _, body), (_, _, after) = await client.answer(), await client.answer()
        items = msgspec.json.decode(body)["items"]
        assert [item["data"] == long["data"] for item in items] == [True, True, True]
        assert after == b"ok"

    speak(dialogue, tmp_path)


def test_who_leaves_in_the_middle_of_a_long_answer_is_forgotten(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        long = {**config_map("long"), "data": {"text": "0123456789" * 90_000}}
        for number in range(12):
            long["metadata"] = {"name": f"c-{number}"}
            client.ask(f"POST {MAPS} HTTP/1.1", body=encode_json(long))
            await client.answer()
        client.ask(f"GET {MAPS} HTTP/1.1")
        await client.reader.readuntil(b"\r\n\r\n")
        client.writer.transport.abort()
        while http.open:
            await asyncio.sleep(0.01)

    speak(dialogue, tmp_path)


def test_head_is_told_the_length_and_nothing_else(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        client.create("a")
        body = (await client.answer())[2]
        client.ask(f"HEAD {MAPS}/a HTTP/1.1")
        client.ask(f"GET {MAPS}/a HTTP/1.1")
        assert (await client.answer(body=False))[1]["content-length"] == str(len(body))
        assert (await client.answer())[2] == body

    speak(dialogue, tmp_path)


def test_who_does_not_keep_the_connection_is_answered_and_left(tmp_path: Path) -> None:
    for head in (("GET /livez HTTP/1.0",), ("GET /livez HTTP/1.1", "Connection: close")):

        async def dialogue(api: Api, http: Http, client: Client, head: tuple[str, ...] = head) -> None:
            client.ask(*head)
            status, headers, body = await client.answer()
            assert (status, headers["connection"], body) == ("HTTP/1.1 200 OK", "close", b"ok")
            assert await client.rest() == b""

        speak(dialogue, tmp_path)


def test_an_idle_connection_is_closed_in_the_end(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        client.ask("GET /livez HTTP/1.1")
        assert (await client.answer())[2] == b"ok"
        assert await client.rest() == b""

    speak(dialogue, tmp_path, keep_alive_s=0.05)


def test_a_watch_is_sent_as_it_happens_and_forgotten_when_its_reader_leaves(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        client.ask(f"GET {MAPS}?watch=1&resourceVersion=0&fieldSelector=metadata.name%3Da HTTP/1.1")
        assert (await client.answer(body=False))[1]["transfer-encoding"] == "chunked"
        await api.post(MAPS, config_map("a"))
        assert (await client.chunk()).startswith(b'{"type":"ADDED","object":{"kind":"ConfigMap"')
        watchers = api.core.cache.watchers
        client.writer.close()
        await api.eventually(lambda: is_true(api.core.cache.watchers == watchers - 1))

    speak(dialogue, tmp_path)


async def is_true(value: bool) -> bool:
    return value


def test_what_is_under_way_is_answered_when_the_server_stops(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        client.ask(f"GET {MAPS}?watch=1&resourceVersion=0&fieldSelector=metadata.name%3Da HTTP/1.1")
        await client.answer(body=False)
        stopping = asyncio.create_task(http.stop(patience_s=10))
        await api.post(MAPS, config_map("a"))
        assert (await client.chunk()).startswith(b'{"type":"ADDED"')
        api.core.stopping = True
        api.core.cache.wake_all()
        assert await client.rest() == b"0\r\n\r\n"
        await stopping

    speak(dialogue, tmp_path)


def test_a_server_that_drains_answers_on_and_closes_each_connection_with_its_answer(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        draining = asyncio.create_task(http.drain(seconds=20))
        await asyncio.sleep(0)
        assert not draining.done()
        client.ask(f"GET {MAPS} HTTP/1.1")
        status, headers, _ = await client.answer()
        assert (status, headers["connection"]) == ("HTTP/1.1 200 OK", "close")
        assert await client.rest() == b""
        await asyncio.wait_for(draining, 10)  # Early: no connection is left.

    speak(dialogue, tmp_path)


def test_what_takes_too_long_is_cut_off_when_the_server_stops(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        client.ask(f"GET {MAPS}?watch=1 HTTP/1.1")
        await client.answer(body=False)
        await http.stop(patience_s=0.05)
        with suppress(ConnectionError):  # It may hear of it in this way too.
            assert await client.rest() == b""

    speak(dialogue, tmp_path)


def test_a_trailer_is_no_header(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        body = encode_json(config_map("a"))
        client.ask(f"POST {MAPS} HTTP/1.1", "Transfer-Encoding: chunked", "Trailer: Impersonate-User")
        client.writer.write(b"%x\r\n%b\r\n0\r\nImpersonate-User: nobody\r\n\r\n" % (len(body), body))
        assert (await client.answer())[0] == "HTTP/1.1 201 Created"

    speak(dialogue, tmp_path)


@pytest.mark.slow
def test_trailers_without_end_are_refused(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        api.core.limits = msgspec.structs.replace(api.core.limits, body_bytes_max=1000)
        async with connected(http) as endless:
            endless.ask(f"POST {MAPS} HTTP/1.1", "Transfer-Encoding: chunked")
            endless.writer.write(b"1\r\n{\r\n0\r\n" + b"a: b\r\n" * 2000)
            assert (await endless.answer())[0] == "HTTP/1.1 413 Request Entity Too Large"
            assert await endless.rest() == b""

    speak(dialogue, tmp_path)


@pytest.mark.slow
def test_a_body_that_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        api.core.limits = msgspec.structs.replace(api.core.limits, request_s=0.05)
        async with connected(http) as slow:
            slow.ask(f"POST {MAPS} HTTP/1.1", "Content-Length: 100")
            slow.writer.write(b"{")
            assert (await slow.answer())[0] == "HTTP/1.1 408 Request Timeout"
            assert await slow.rest() == b""

    speak(dialogue, tmp_path)
