"""A connection that becomes a WebSocket: what the HTTP shell passes on, when, and how it ends.

The agent here is an echo: what it is sent comes back. Real ones are in `tests/cluster/test_exec_live.py`.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.api.harness import Api
from tests.api.test_client_frames import frame
from tests.api.test_http import Client, speak
from tests.api.test_named_ports import opened

from fathom.api.agent_connections import AgentAddress, ConnectAsk, NoAgents
from fathom.api.client_frames import MEANINGLESS, ClientFrames
from fathom.api.connection_limits import ConnectionLimits
from fathom.api.http import Http
from fathom.api.relay import Relay
from fathom.api.request import Tunnel
from fathom.api.spdy import FrameWriter
from fathom.api.subresources.connect import SPDY
from fathom.model.errors import ApiError
from fathom.model.well_known import CERTIFICATE_ANNOTATION

PODS = "/api/v1/namespaces/default/pods"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
HANDSHAKE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    f"Sec-WebSocket-Key: {KEY}",
)
V5 = "Sec-WebSocket-Protocol: v5.channel.k8s.io, v4.channel.k8s.io"
EXEC = f"GET {PODS}/p/exec?command=echo&command=a%20b&stdout=true HTTP/1.1"


class Echo:
    """A tunnel. `room`: how many bytes it takes before somebody reads."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.held = bytearray()
        self.room = room
        self.changed = asyncio.Event()
        self.closed = False

    async def read(self) -> bytes:
        while not self.held and not self.closed:
            self.changed.clear()
            await self.changed.wait()
        data = bytes(self.held)
        self.held.clear()
        self.changed.set()
        return data

    async def write(self, data: bytes) -> None:
        self.held += data
        self.changed.set()
        while len(self.held) > self.room:
            self.changed.clear()
            await self.changed.wait()

    def close(self) -> None:
        self.closed = True
        self.changed.set()


class EchoAgents(NoAgents):
    def __init__(self) -> None:
        self.tunnel = Echo()
        self.asked: list[ConnectAsk] = []

    async def connect(self, at: AgentAddress, ask: ConnectAsk) -> tuple[Tunnel, tuple[tuple[str, str], ...]]:
        self.asked.append(ask)
        return self.tunnel, (("sec-websocket-accept", "accepted"), ("sec-websocket-protocol", ask.protocol))

    async def page(self, at: AgentAddress, path: str) -> tuple[int, bytes]:
        return 200, b"ok"


async def with_pod(api: Api) -> EchoAgents:
    """A pod `p` that runs on a node whose agent is an echo."""
    agents = EchoAgents()
    api.core.agents = agents
    node = {"metadata": {"name": "n1", "annotations": {CERTIFICATE_ANNOTATION: "pem"}}}
    assert (await api.post("/api/v1/nodes", node)).status == 201
    addresses = [{"type": "InternalIP", "address": "127.0.0.9"}]
    status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}
    await api.call("PATCH", "/api/v1/nodes/n1/status", {"status": status}, headers=MERGE)
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    assert (await api.post(PODS, {"metadata": {"name": "p"}, "spec": spec})).status == 201
    running = {
        "name": "c",
        "image": "i",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {}},
    }
    status = {"phase": "Running", "containerStatuses": [running]}
    assert (await api.call("PATCH", f"{PODS}/p/status", {"status": status}, headers=MERGE)).status == 200
    return agents


MERGE = {"content-type": "application/merge-patch+json"}


def test_bytes_are_passed_on_both_ways_also_those_sent_too_early(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        agents = await with_pod(api)
        client.ask(EXEC, *HANDSHAKE, V5)
        early = frame(b"early")
        client.writer.write(early)
        status, headers, _ = await client.answer(body=False)
        assert status == "HTTP/1.1 101 Switching Protocols"
        names = ("upgrade", "connection", "sec-websocket-accept", "sec-websocket-protocol")
        assert [headers[name] for name in names] == ["websocket", "Upgrade", "accepted", "v5.channel.k8s.io"]
        assert await client.reader.readexactly(len(early)) == early
        later = frame(b"GET / HTTP/1.1\r\n\r\n", opcode=1)
        client.writer.write(later)
        assert await client.reader.readexactly(len(later)) == later
        (ask,) = agents.asked
        assert (ask.action, ask.pod, ask.container, ask.key) == ("exec", "p", "c", KEY)
        assert ask.options == (("stdout", "true"), ("command", "echo"), ("command", "a b"))
        agents.tunnel.close()
        assert await client.rest() == b""

    speak(dialogue, tmp_path)


def test_an_agent_never_gets_a_frame_without_a_mask(tmp_path: Path) -> None:
    """What it gets in its place makes it close the connection with 1002; here it comes back."""

    async def dialogue(api: Api, http: Http, client: Client) -> None:
        agents = await with_pod(api)
        client.ask(EXEC, *HANDSHAKE, V5)
        await client.answer(body=False)
        client.writer.write(frame(b"one") + frame(b"two", mask=b"") + frame(b"three"))
        sent = frame(b"one") + MEANINGLESS
        assert await client.reader.readexactly(len(sent)) == sent
        agents.tunnel.close()
        assert await client.rest() == b""

    speak(dialogue, tmp_path)


def test_a_client_that_leaves_ends_the_connection_to_the_agent(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        agents = await with_pod(api)
        client.ask(EXEC, *HANDSHAKE, V5)
        await client.answer(body=False)
        client.writer.close()
        async with asyncio.timeout(10):
            while not agents.tunnel.closed or http.open:
                await asyncio.sleep(0.01)

    speak(dialogue, tmp_path)


def test_a_connection_ends_with_the_permission_for_it(tmp_path: Path) -> None:
    """As break-glass gives it, for a time."""

    async def dialogue(api: Api, http: Http, client: Client) -> None:
        reader, writer = client.reader, client.writer
        relay = Relay(writer.transport, Echo(), ClientFrames(), asyncio.Event().wait)  # type: ignore[arg-type]  # is one
        answers = iter((True, False))
        async with asyncio.timeout(10):
            await relay.run(lambda: next(answers))
        assert (next(answers, None), reader.at_eof()) == (None, False)

    speak(dialogue, tmp_path)


def test_a_server_that_stops_ends_connections_at_once(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        agents = await with_pod(api)
        client.ask(EXEC, *HANDSHAKE, V5)
        await client.answer(body=False)
        async with asyncio.timeout(10):
            await http.stop(patience_s=60)
        assert (agents.tunnel.closed, await client.rest()) == (True, b"")

    speak(dialogue, tmp_path)


async def send_without_end(client: Client) -> None:
    sent = frame(bytes(65536))
    while True:
        client.writer.write(sent)
        await client.writer.drain()


def test_neither_side_gets_far_ahead_of_the_other(tmp_path: Path) -> None:
    """An agent that takes nothing: the client is not read on."""

    async def dialogue(api: Api, http: Http, client: Client) -> None:
        agents = await with_pod(api)
        agents.tunnel.room = 0
        agents.tunnel.read = asyncio.Event().wait  # type: ignore[method-assign, assignment]  # never
        client.ask(EXEC, *HANDSHAKE, V5)
        await client.answer(body=False)
        client.writer.transport.set_write_buffer_limits(high=1)
        sending = asyncio.ensure_future(send_without_end(client))
        await asyncio.wait((sending,), timeout=1)
        assert not sending.done()
        sending.cancel()
        (connection,) = http.open
        assert connection._relay is not None
        assert len(connection._relay._waiting) + len(agents.tunnel.held) < 2 << 20

    speak(dialogue, tmp_path)


def test_ports_that_kubectl_names_on_its_connection_are_in_the_audit_log(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        agents = await with_pod(api)
        client.ask(f"GET {PODS}/p/portforward HTTP/1.1", *HANDSHAKE, f"Sec-WebSocket-Protocol: {SPDY}")
        await client.answer(body=False)
        writer = FrameWriter()
        sent = frame(opened(writer, 1, "8080")) + frame(opened(writer, 5, "22"))
        client.writer.write(sent)
        assert await client.reader.readexactly(len(sent)) == sent
        agents.tunnel.close()
        assert await client.rest() == b""
        async with asyncio.timeout(10):
            while http.open:
                await asyncio.sleep(0.01)
        api.audit.flush()
        lines = (tmp_path / "audit" / "audit.jsonl").read_text().splitlines()
        entries = [entry for entry in map(json.loads, lines) if entry.get("subresource") == "portforward"]
        begun = entries[0]["id"]
        assert [(entry["id"].removeprefix(begun), entry.get("ports")) for entry in entries] == [
            ("", None), (".port-8080", [8080]), (".port-22", [8080, 22]), (".end", [8080, 22]),
        ]  # fmt: skip

    speak(dialogue, tmp_path)


def test_a_port_forward_that_cannot_be_read_ends_before_the_agent_gets_it(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        agents = await with_pod(api)
        client.ask(f"GET {PODS}/p/portforward HTTP/1.1", *HANDSHAKE, f"Sec-WebSocket-Protocol: {SPDY}")
        await client.answer(body=False)
        client.writer.write(frame(b"not SPDY"))
        assert await client.rest() == b""
        assert (agents.tunnel.closed, bytes(agents.tunnel.held)) == (True, b"")

    speak(dialogue, tmp_path)


REFUSALS = (
    (EXEC, (V5,), 400, "Upgrade request required"),
    (EXEC, (*HANDSHAKE,), 400, "Sec-WebSocket-Protocol must name one of v5.channel.k8s.io"),
    (EXEC, (*HANDSHAKE, "Sec-WebSocket-Protocol: base64.channel.k8s.io"), 400, "must name one of"),
    (EXEC, (*HANDSHAKE[:2], "Sec-WebSocket-Version: 8", HANDSHAKE[3], V5), 426, "version 13"),
    (EXEC, (*HANDSHAKE[:3], "Sec-WebSocket-Key: x", V5), 400, "Sec-WebSocket-Key"),
    (EXEC, (*HANDSHAKE, V5, "Origin: https://evil.example"), 403, "may not connect here"),
    (EXEC.replace("command=echo&command=a%20b&", ""), (*HANDSHAKE, V5), 422, "command: Required"),
    (EXEC.replace("&stdout=true", ""), (*HANDSHAKE, V5), 422, "at least 1 of stdin, stdout, stderr"),
    (EXEC.replace("stdout", "container=x&stdout"), (*HANDSHAKE, V5), 400, "choose one of: [c]"),
    (EXEC.replace("stdout", "tty=1&stderr=1&stdout"), (*HANDSHAKE, V5), 422, "cannot both be true"),
    (EXEC.replace("/p/", "/q/"), (*HANDSHAKE, V5), 404, "not found"),
    (EXEC.replace("exec?", "portforward?ports=99999&"), (*HANDSHAKE, V5), 400, "from 1 to 65535"),
    (EXEC.replace("GET", "DELETE"), (*HANDSHAKE, V5), 405, "does not allow this method"),
)


def test_a_refused_upgrade_says_why_and_the_connection_goes_on(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        agents = await with_pod(api)
        for line, headers, code, words in REFUSALS:
            client.ask(line, *headers)
            client.ask("GET /version HTTP/1.1")
            status, _, body = await client.answer()
            assert int(status.split()[1]) == code, (line, status, body)
            assert words in body.decode()
            assert (await client.answer())[0] == "HTTP/1.1 200 OK"
        assert agents.asked == []

    speak(dialogue, tmp_path)


def test_a_user_has_a_limited_number_of_connections(tmp_path: Path) -> None:
    async def dialogue(api: Api, http: Http, client: Client) -> None:
        agents = await with_pod(api)
        api.core.connections = ConnectionLimits(user_max=1, node_max=5)
        give_back = api.core.connections.take("admin", "n1")
        client.ask(EXEC, *HANDSHAKE, V5)
        status, _, body = await client.answer()
        assert status == "HTTP/1.1 429 Too Many Requests"
        assert b"user admin has 1 connections into pods" in body
        give_back()
        client.ask(EXEC, *HANDSHAKE, V5)
        assert (await client.answer(body=False))[0] == "HTTP/1.1 101 Switching Protocols"
        with pytest.raises(ApiError, match="user admin has 1 connections"):
            api.core.connections.take("admin", "n2")
        agents.tunnel.close()
        await client.rest()
        api.core.connections.take("admin", "n2")()

    speak(dialogue, tmp_path)


def test_a_node_has_a_limited_number_of_connections() -> None:
    limits = ConnectionLimits(user_max=5, node_max=2)
    first, _ = limits.take("a", "n"), limits.take("b", "n")
    with pytest.raises(ApiError, match="node n has 2 connections"):
        limits.take("c", "n")
    first()
    first()  # Counts once.
    limits.take("c", "n")
    with pytest.raises(ApiError, match="node n has 2 connections"):
        limits.take("d", "n")
