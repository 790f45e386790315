"""Bytes that no client should send, and clients that never finish: refused or ignored, in bounded memory,
while everybody else is served."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from urllib.parse import urlsplit

import pytest
from tests.chaos.victim import Victim, eventually, victim

from fathom.api.http_limits import HEAD_S_MAX
from fathom.api.limits import REQUEST_S
from fathom.record.audit import SYNC_S

MAPS = "/api/v1/namespaces/default/configmaps"
BODY = b'{"metadata":{"generateName":"a-"}}'
ANSWER_S_MAX = 3.0
GROWTH_MB_MAX = 120


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with victim(tmp_path_factory.mktemp("hostile")) as made:
        yield made


@pytest.fixture(autouse=True)
def others_are_served(server: Victim) -> Iterator[None]:
    """Whatever the test did."""
    before = memory_mb(server)
    yield
    with server.client(timeout_s=ANSWER_S_MAX) as client:
        assert client.get(f"{MAPS}?limit=1").status == 200
    assert memory_mb(server) - before < GROWTH_MB_MAX
    assert "Traceback" not in server.log.read_text()


def memory_mb(server: Victim) -> float:
    text = open(f"/proc/{server.pid}/status").read()  # noqa: SIM115 - gone at once
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None
    return int(found.group(1)) / 1024


def plain(server: Victim) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port or 0), timeout=ANSWER_S_MAX)


def connected(server: Victim) -> ssl.SSLSocket:
    """As the administrator, so that nothing is refused for want of credentials."""
    return server.tls.wrap_socket(plain(server), server_hostname="127.0.0.1")


def answered(server: Victim, sent: bytes) -> bytes:
    """All that comes back until the server closes, or falls silent."""
    with closing(connected(server)) as sock:
        with suppress(OSError):  # It may have had enough before all is sent.
            sock.sendall(sent)
        return received(sock)


def received(sock: socket.socket) -> bytes:
    found = b""
    with suppress(OSError):
        while piece := sock.recv(65536):
            found += piece
            if _is_whole(found):
                break
    return found


def _is_whole(answer: bytes) -> bool:
    head, separator, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return bool(separator and length and len(body) >= int(length.group(1)))


def status_of(answer: bytes) -> int:
    """0 where there was none."""
    return int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def request(method: str = "POST", path: str = MAPS, *headers: str, body: bytes = BODY) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: x", "content-type: application/json", *headers]
    if not any(header.startswith(("content-length", "transfer-encoding")) for header in headers):
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def test_a_good_request_by_hand_is_answered(server: Victim) -> None:
    assert status_of(answered(server, request())) == 201


MALFORMED = {
    "nonsense": b"\x00\xff\x13nonsense\r\n\r\n",
    "no method": b" / HTTP/1.1\r\n\r\n",
    "another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a strange method": b"F\xc3\xb6\xc3\xb6 / HTTP/1.1\r\nhost: x\r\n\r\n",
    "a path with a zero": b"GET /api\x00/v1 HTTP/1.1\r\nhost: x\r\n\r\n",
    "a path that is not ASCII": b"GET /api/\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n",
    "a header without a name": b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    "a header with a line end": b"GET / HTTP/1.1\r\nhost: a\rb\r\n\r\n",
    "a negative length": request("POST", MAPS, "content-length: -1"),
    "a length in words": request("POST", MAPS, "content-length: many"),
    "two lengths": request("POST", MAPS, "content-length: 5", "content-length: 35"),
    "a length and chunks": request("POST", MAPS, "content-length: 5", "transfer-encoding: chunked"),
    "a chunk of no size": request("POST", MAPS, "transfer-encoding: chunked", body=b"zz\r\nxx\r\n"),
    "a chunk of immense size": request("POST", MAPS, "transfer-encoding: chunked", body=b"f" * 40 + b"\r\nx"),
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_requests_are_refused(server: Victim, sent: bytes) -> None:
    assert status_of(answered(server, sent)) in {0, 400}


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: Victim) -> None:
    declared = request("POST", MAPS, "content-length: 10000000000", body=b"{")
    assert status_of(answered(server, declared)) == 413
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    endless = request("POST", MAPS, "transfer-encoding: chunked", body=chunk * 8)
    assert status_of(answered(server, endless)) == 413


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nx: " + b"x" * (64 << 20),
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * (8 << 20),
        b"GET /" + b"x" * (64 << 20),
    ],
    ids=["one header", "many headers", "path"],
)
def test_heads_of_any_size_are_refused_in_bounded_memory(server: Victim, sent: bytes) -> None:
    before = memory_mb(server)
    assert status_of(answered(server, sent)) in {0, 400, 414, 431}
    assert memory_mb(server) - before < 40


def test_requests_cut_off_anywhere_leave_no_trace(server: Victim) -> None:
    """And none of them is carried out."""
    whole = request("POST", MAPS, body=b'{"metadata":{"name":"cut-off"}}')
    for length in range(1, len(whole), 7):
        with closing(connected(server)) as sock:
            sock.sendall(whole[:length])
    with server.client() as client:
        assert client.get(f"{MAPS}/cut-off").status == 404


def test_random_bytes_on_the_wire_are_ignored(server: Victim) -> None:
    rng = random.Random(4)
    for _ in range(40):
        with closing(plain(server)) as sock, suppress(OSError):
            sock.sendall(rng.randbytes(rng.choice((1, 5, 50, 5000))))
    for _ in range(40):
        damaged = bytearray(request())
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        with closing(connected(server)) as sock, suppress(OSError):
            sock.sendall(damaged)
            sock.settimeout(0.05)
            sock.recv(65536)


def test_plain_http_on_the_tls_port_gets_nowhere(server: Victim) -> None:
    with closing(plain(server)) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"ok" not in received(sock)


def test_pipelined_requests_are_answered_in_order(server: Victim) -> None:
    count = 50
    paths = [f"{MAPS}/nothing-{number}" for number in range(count)]
    with closing(connected(server)) as sock:
        sock.sendall(b"".join(request("GET", path, body=b"") for path in paths))
        found = b""
        while found.count(b"HTTP/1.1 404") < count or not found.endswith(b"}"):
            found += sock.recv(65536)
    assert [int(number) for number in re.findall(rb'"nothing-(\d+)\\" not found', found)] == [*range(count)]


def test_a_body_is_asked_for_when_the_client_waits_for_that(server: Victim) -> None:
    with closing(connected(server)) as sock:
        head, _, body = request(
            "POST", MAPS, "expect: 100-continue", f"content-length: {len(BODY)}"
        ).partition(b"\r\n\r\n")
        sock.sendall(head + b"\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 100 ")
        sock.sendall(body)
        assert status_of(received(sock)) == 201


def test_many_clients_that_never_finish_disturb_nobody(server: Victim) -> None:
    """Some never speak, some stop in the head, some in the body, some in the handshake."""
    whole = request()
    beginnings = (b"", whole[:10], whole[: whole.index(b"\r\n\r\n") + 10])
    held: list[socket.socket] = []
    try:
        for number in range(150):
            held.append(connected(server))
            held[-1].sendall(beginnings[number % len(beginnings)])
        held += [plain(server) for _ in range(50)]
        with server.client(timeout_s=ANSWER_S_MAX) as client:
            started = time.monotonic()
            for _ in range(20):
                assert client.post(MAPS, json.loads(BODY)).status == 201
            assert time.monotonic() - started < ANSWER_S_MAX
    finally:
        for sock in held:
            sock.close()


def test_a_server_outlives_more_clients_than_it_can_have_files(server: Victim) -> None:
    given = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (64, given[1]))
    held: list[socket.socket] = []
    try:
        with server.client() as client:
            assert client.get(f"{MAPS}?limit=1").status == 200
            held = [plain(server) for _ in range(100)]
            assert client.post(MAPS, json.loads(BODY)).status == 201  # Whoever is inside is served.
            time.sleep(2 * SYNC_S)  # The audit log has something to sync.
    finally:
        for sock in held:
            sock.close()
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, given)
    assert server.alive


@pytest.mark.full
def test_clients_that_never_finish_are_left_alone_in_the_end(server: Victim) -> None:
    whole = request()
    silent, stuck, slow = (connected(server) for _ in range(3))
    with closing(silent), closing(stuck), closing(slow):
        stuck.sendall(whole[:10])
        slow.sendall(whole[:-5])
        for sock in (silent, stuck, slow):
            sock.settimeout(HEAD_S_MAX + REQUEST_S)
        assert (received(silent), received(stuck)) == (b"", b"")
        assert status_of(received(slow)) == 408


def test_watchers_that_do_not_read_disturb_nobody(server: Victim) -> None:
    """What they are owed waits in the server's one log, not in a queue for each."""
    held = [connected(server) for _ in range(20)]
    for sock in held:
        sock.sendall(request("GET", f"{MAPS}?watch=true&resourceVersion=0", body=b""))
    with server.client() as client:
        client.post(MAPS, {"metadata": {"name": "fat"}, "data": {"a": "x" * 200_000}})
        for number in range(60):
            assert client.patch(f"{MAPS}/fat", {"data": {"n": str(number)}}).status == 200
    for sock in held:
        sock.close()
    with server.client() as client:
        assert client.delete(f"{MAPS}/fat").status == 200


def test_connections_that_come_and_go_leave_nothing_open(server: Victim) -> None:
    before = len(os.listdir(f"/proc/{server.pid}/fd"))
    for _ in range(100):
        connected(server).close()
    for _ in range(30):
        with closing(connected(server)) as sock:
            sock.sendall(request("GET", f"{MAPS}?watch=true", body=b""))
    eventually(lambda: len(os.listdir(f"/proc/{server.pid}/fd")) <= before + 3)


def test_watchers_who_left_are_forgotten(server: Victim) -> None:
    for _ in range(30):
        with closing(connected(server)) as sock:
            sock.sendall(request("GET", f"{MAPS}?watch=true", body=b""))
            sock.recv(100)
    counted = request("GET", "/metrics", "connection: close", body=b"")
    eventually(lambda: b"\napiserver_registered_watchers 0.0\n" in answered(server, counted))
