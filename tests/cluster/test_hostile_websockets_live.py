"""Clients of exec and port-forward that break the rules of WebSocket, send too much, or read nothing: each
ends its own connection, and nothing else."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.clients.running import tls_of
from tests.cluster.connecting import NS
from tests.cluster.living import Cluster, Obj, until

from fathom.api.spdy import SYN_REPLY, Frame, FrameReader, FrameWriter

POD = f"/api/v1/namespaces/{NS}/pods/web"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def frame(
    opcode: int, payload: bytes, *, fin: bool = True, mask: bool = True, rsv: int = 0, length: int = -1
) -> bytes:
    size = len(payload) if length < 0 else length
    head = bytes((fin << 7 | rsv | opcode,))
    bit = 0x80 if mask else 0
    if size < 126:
        head += bytes((bit | size,))
    elif size < 65536:
        head += bytes((bit | 126,)) + struct.pack(">H", size)
    else:
        head += bytes((bit | 127,)) + struct.pack(">Q", size)
    return head + (bytes(4) if mask else b"") + payload  # A mask of zeros changes nothing.


class Raw:
    """A connection that became a WebSocket; what is sent is up to the test."""

    def __init__(self, cluster: Cluster, path: str, protocol: str) -> None:
        at = urlsplit(cluster.url)
        assert at.hostname is not None
        assert at.port is not None
        plain = socket.create_connection((at.hostname, at.port), timeout=30)
        self.link = tls_of(cluster.data / "kubeconfig").wrap_socket(plain, server_hostname=at.hostname)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = (
            f"GET {POD}/{path} HTTP/1.1", f"Host: {at.netloc}", "Connection: Upgrade", "Upgrade: websocket",
            "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", f"Sec-WebSocket-Protocol: {protocol}",
            "Sec-WebSocket-Extensions: permessage-deflate", "", "",
        )  # fmt: skip
        self.link.sendall("\r\n".join(lines).encode())
        self._buffer = b""
        while b"\r\n\r\n" not in self._buffer:
            self._buffer += self.link.recv(65536)
        self.head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        assert self.head.startswith(b"HTTP/1.1 101 "), self.head

    def send(self, raw: bytes) -> None:
        with suppress(OSError):  # It may have been closed meanwhile.
            self.link.sendall(raw)

    def receive(self) -> tuple[int, bytes]:
        """The next frame: (opcode, payload); (-1, b'') at the end."""
        head = self._take(2)
        if len(head) < 2:
            return -1, b""
        size = head[1] & 0x7F
        if size == 126:
            (size,) = struct.unpack(">H", self._take(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self._take(8))
        return head[0] & 0x0F, self._take(size)

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            try:
                data = self.link.recv(65536)
            except (ConnectionError, ssl.SSLError):
                data = b""
            if not data:
                return b""
            self._buffer += data
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def end(self) -> int:
        """The code with which it is closed; 0 if it just ends."""
        while True:
            opcode, payload = self.receive()
            if opcode == CLOSE:
                return int.from_bytes(payload[:2], "big")
            if opcode == -1:
                return 0


@contextmanager
def connected(cluster: Cluster, path: str, protocol: str = "v5.channel.k8s.io") -> Iterator[Raw]:
    raw = Raw(cluster, path, protocol)
    try:
        yield raw
    finally:
        raw.link.close()


CAT = "exec?container=side&command=cat&stdin=true&stdout=true"
SPDY = "SPDY/3.1+portforward.k8s.io"


def still_works(cluster: Cluster) -> None:
    with connected(cluster, CAT) as good:
        good.send(frame(BINARY, b"\0hello") + frame(BINARY, b"\xff\0"))
        assert good.receive() == (BINARY, b"\x01")
        assert good.receive() == (BINARY, b"\x01hello")
        assert good.receive() == (BINARY, b'\x03{"metadata":{},"status":"Success"}')
        assert good.end() == 1000


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("a fragmented ping", 1002), ("a long ping", 1002), ("compressed though not agreed", 1002),
        ("a frame larger than any message", 1009), ("a message of too many fragments", 1009),
        ("an unknown opcode", 1002), ("an unmasked frame", 1002), ("reserved bits", 1002),
        ("text that is not text", 1007), ("a continuation of nothing", 1002),
    ],
)  # fmt: skip
def test_a_client_that_breaks_the_rules_is_closed(cluster: Cluster, web: Obj, what: str, code: int) -> None:
    sent = {
        "a fragmented ping": frame(PING, b"x", fin=False),
        "a long ping": frame(PING, bytes(126)),
        "compressed though not agreed": frame(BINARY, b"\0x", rsv=0x40),
        "a frame larger than any message": frame(BINARY, b"\0", length=1 << 40),
        "a message of too many fragments": frame(BINARY, bytes(600_000), fin=False)
        + frame(0, bytes(600_000)),
        "an unknown opcode": frame(5, b"x"),
        "an unmasked frame": frame(BINARY, b"\0x", mask=False),
        "reserved bits": frame(BINARY, b"\0x", rsv=0x30),
        "text that is not text": frame(TEXT, b"\0\xff\xff"),
        "a continuation of nothing": frame(0, b"x"),
    }
    with connected(cluster, CAT) as raw:
        assert b"extensions" not in raw.head.lower()
        raw.send(sent[what])
        assert raw.end() == code


def test_pings_are_answered_and_a_flood_of_them_harms_nobody(cluster: Cluster, web: Obj) -> None:
    with connected(cluster, CAT) as raw:
        raw.send(frame(PING, b"there?"))
        assert raw.receive() == (BINARY, b"\x01")
        assert raw.receive() == (PONG, b"there?")
        raw.link.settimeout(2)
        flood = frame(PING, bytes(100)) * 1000
        with suppress(TimeoutError):  # Nobody reads the pongs, so at some time no more pings are taken.
            for _ in range(100):
                raw.link.sendall(flood)
        still_works(cluster)


def test_a_client_that_reads_nothing_stops_the_program_and_not_the_agent(cluster: Cluster, web: Obj) -> None:
    with connected(
        cluster, "exec?container=side&command=sh&command=-c&command=exec+yes+unread-4711&stdout=true"
    ):
        agents = cluster.parts()["agent"]
        before = memory_of(agents)
        for _ in range(5):
            still_works(cluster)
        assert memory_of(agents) - before < 32 << 20
        assert running("unread-4711")
    until(lambda: not running("unread-4711"), cluster.told)


def memory_of(pid: int) -> int:
    line = next(
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")
    )
    return int(line.split()[1]) * 1024


def running(word: str) -> list[str]:
    """Processes with this argument."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and word in (process / "cmdline").read_text().split("\0"):
                found.append(process.name)
    return found


@pytest.mark.parametrize("raw", [b"\x80\x02\0\1", bytes(70_000), b"\x80\x03\x00\x01\x01" + bytes(200)])
def test_bytes_that_are_not_spdy_end_a_port_forward(cluster: Cluster, web: Obj, raw: bytes) -> None:
    with connected(cluster, "portforward", SPDY) as link:
        link.send(frame(BINARY, raw + bytes(40)))
        link.send(frame(BINARY, FrameWriter().ping(1)))
        link.send(frame(CLOSE, struct.pack(">H", 1000)))
        assert link.end() in {0, 1000}
    still_works(cluster)


def test_a_port_forward_refuses_streams_it_cannot_use(cluster: Cluster, web: Obj) -> None:
    writer, reader = FrameWriter(), FrameReader()
    with connected(cluster, "portforward", SPDY) as link:
        link.send(frame(BINARY, writer.syn_stream(1, {"streamtype": "shell", "port": "80"})))
        link.send(frame(BINARY, writer.syn_stream(3, {"streamtype": "data", "port": "0"})))
        pair = {"port": "81", "requestid": "0"}
        link.send(frame(BINARY, writer.syn_stream(5, {"streamtype": "error", **pair}, last=True)))
        link.send(frame(BINARY, writer.syn_stream(7, {"streamtype": "data", **pair})))
        frames: list[Frame] = []
        while len(frames) < 6:
            opcode, data = link.receive()
            assert opcode == BINARY
            frames += list(reader.feed(data))
    assert [(each.kind, each.stream) for each in frames] == [
        (3, 1), (3, 3), (SYN_REPLY, 5), (SYN_REPLY, 7), (0, 5), (0, 7),
    ]  # fmt: skip
    assert frames[4].data == b"cannot forward port 81: no process of pod web listens on port 81"
