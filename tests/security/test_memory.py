"""Memory is bounded by numbers that we chose, not by what clients write or send: of a real server process."""

from __future__ import annotations

import gc
import http.client
import json
import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.api.bending import definition
from tests.api.fuzzing import CRDS, NAMESPACE, World, encoded
from tests.chaos.victim import Victim, eventually, victim

from fathom.api import http_limits, resource_cache, watch_cache
from fathom.api.resource_cache import ResourceCache
from fathom.api.watch_cache import WatchCache
from fathom.kube.definitions.structural import Structural
from fathom.model.body import Body
from fathom.store.protocol import Batch, Change, Entry

MAPS = "/api/v1/namespaces/default/configmaps"
MB = 1 << 20
MEASURE_S = 10.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Victim]:
    with victim(tmp_path) as made:
        yield made


def memory_mb(server: Victim) -> float:
    text = Path(f"/proc/{server.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None
    return int(found.group(1)) / 1024


def metric(server: Victim, name: str) -> float:
    connection = http.client.HTTPSConnection(
        urlsplit(server.url).netloc, context=server.tls, timeout=MEASURE_S
    )
    with closing(connection):
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def config_map(name: str, size: int, version: int = 0) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": {"version": str(version), "text": "x" * size}}


# What was written


@pytest.mark.full
def test_five_hundred_updates_of_a_large_object_leave_no_trace_in_memory(server: Victim) -> None:
    with server.client() as client:
        assert client.call("POST", MAPS, config_map("large", 700_000)).status == 201
        before = memory_mb(server)
        for version in range(500):
            assert client.call("PUT", f"{MAPS}/large", config_map("large", 700_000, version)).status == 200
    assert memory_mb(server) - before < 250


def test_a_watch_of_large_objects_gets_them_in_small_pieces(server: Victim) -> None:
    """Every event comes, in order, and the server does not hold all of them at once."""
    with (
        server.client() as client,
        closing(_watching(server, f"{MAPS}?watch=true&resourceVersion=0")) as stream,
    ):
        for version in range(40):
            assert client.call("PUT", f"{MAPS}/seen", config_map("seen", 300_000, version)).status in {
                200,
                404,
            }
            if version == 0:
                assert client.call("POST", MAPS, config_map("seen", 300_000, -1)).status == 201
        before = memory_mb(server)
        assert _versions(stream, until="39")[-1] == "39"
        assert memory_mb(server) - before < 60


def _watching(server: Victim, path: str) -> socket.socket:
    sock = _as_administrator(server)
    sock.settimeout(MEASURE_S)
    sock.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    return sock


def _versions(sock: socket.socket, *, until: str) -> list[str]:
    text = b""
    while f'"version":"{until}"'.encode() not in text:
        piece = sock.recv(1 << 20)
        assert piece, "the watch ended early"
        text += piece
    return [found.decode() for found in re.findall(rb'"version":"(-?\d+)"', text)]


class Writer:
    """A cache that is told of writes, without a store."""

    def __init__(self) -> None:
        self.cache = WatchCache()
        self.revision = 0

    def write(self, resource: str, name: str, size: int) -> None:
        self.revision += 1
        key = f"/registry/{resource}/default/{name}"
        obj = {"kind": "X", "apiVersion": "v1", "metadata": {"name": name}, "data": "x" * size}
        body = Body(obj)
        assert body.encoded
        entry = Entry(key, body, self.revision, self.revision)
        self.cache.apply(Batch((Change(key, self.revision, entry, None),), self.revision))


def test_the_log_of_one_kind_is_bounded_in_bytes_and_its_oldest_events_go_first() -> None:
    writer = Writer()
    for number in range(200):
        writer.write("configmaps", f"a{number}", MB)
    log = writer.cache.of("configmaps")
    assert log.log_bytes <= resource_cache.LOG_BYTES_MAX
    assert log.log[-1].revision == writer.revision
    assert [event.revision for event in log.log] == list(range(log.floor + 1, writer.revision + 1))
    assert log.base == log.floor


def test_the_logs_of_all_kinds_together_are_bounded_in_bytes() -> None:
    writer = Writer()
    for number in range(100):
        for kind in range(20):
            writer.write(f"kind{kind}", f"a{number}", 200_000)
    assert writer.cache.log_bytes <= watch_cache.LOGS_BYTES_MAX
    assert all(writer.cache.of(f"kind{kind}").log for kind in range(20))
    assert writer.cache.log_bytes == sum(writer.cache.of(f"kind{kind}").log_bytes for kind in range(20))


def test_an_event_larger_than_the_bound_is_still_told() -> None:
    writer = Writer()
    writer.write("configmaps", "huge", resource_cache.LOG_BYTES_MAX)
    log = writer.cache.of("configmaps")
    assert [event.key for event in log.read(log.base, 10)] == ["/registry/configmaps/default/huge"]


def test_small_events_are_kept_by_their_number() -> None:
    writer = Writer()
    for number in range(resource_cache.LOG_EVENTS_MAX):
        writer.write("pods", f"a{number}", 1500)
    assert len(writer.cache.of("pods").log) == resource_cache.LOG_EVENTS_MAX


def test_a_chunk_ends_before_it_gets_too_long() -> None:
    writer = Writer()
    for number in range(8):
        writer.write("configmaps", f"a{number}", 400_000)
    cache: ResourceCache = writer.cache.of("configmaps")
    ends = [cache.chunk_end(start, count_max=500, bytes_max=MB) for start in range(cache.base, cache.end)]
    assert ends == [2, 3, 4, 5, 6, 7, 8, 8]
    assert cache.chunk_end(cache.base, count_max=500, bytes_max=1) == 1
    assert cache.chunk_end(cache.base, count_max=3, bytes_max=10 * MB) == 3


# What is sent


def _plain(server: Victim) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port or 0), timeout=MEASURE_S)


def _as_administrator(server: Victim) -> ssl.SSLSocket:
    return server.tls.wrap_socket(_plain(server), server_hostname="127.0.0.1")


NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
NOBODY.check_hostname, NOBODY.verify_mode = False, ssl.CERT_NONE


def _as_nobody(server: Victim) -> ssl.SSLSocket:
    return NOBODY.wrap_socket(_plain(server))


def _head(path: str, length: int, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: x", "content-type: application/json", *headers]
    return "\r\n".join([*lines, f"content-length: {length}"]).encode() + b"\r\n\r\n"


def _status(sock: socket.socket) -> int:
    answer = b""
    with suppress(OSError):
        while b"\r\n" not in answer and (piece := sock.recv(4096)):
            answer += piece
    return int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def test_whoever_shows_no_credentials_is_refused_before_the_body_is_read(server: Victim) -> None:
    with closing(_as_nobody(server)) as sock:
        sock.sendall(_head(MAPS, 3_000_000))
        assert _status(sock) == 401


def test_a_wrong_token_is_refused_before_a_large_body_is_read(server: Victim) -> None:
    with closing(_as_nobody(server)) as sock:
        sock.sendall(_head(MAPS, 3_000_000, "authorization: Bearer wrong"))
        assert _status(sock) == 401


def test_a_wrong_token_is_refused_before_a_body_of_unknown_length_is_read(server: Victim) -> None:
    head = _head(MAPS, 0, "authorization: Bearer wrong").replace(
        b"content-length: 0", b"transfer-encoding: chunked"
    )
    with closing(_as_nobody(server)) as sock:
        sock.sendall(head)
        assert _status(sock) == 401


def test_a_client_that_is_still_sending_sees_why_it_was_refused(server: Victim) -> None:
    with closing(_as_nobody(server)) as sock:
        sock.sendall(_head(MAPS, 2_000_000) + b" " * 2_000_000)
        assert _status(sock) == 401


def test_many_bodies_without_credentials_take_no_memory(server: Victim) -> None:
    """Two hundred of nearly 3 MB would be half a gigabyte."""
    before = memory_mb(server)
    with ExitStack() as open_ones:
        for _ in range(200):
            sock = open_ones.enter_context(closing(_as_nobody(server)))
            with suppress(OSError):
                sock.sendall(_head(MAPS, 3_000_000, "authorization: Bearer wrong") + b" " * 2_500_000)
        grown = memory_mb(server) - before
        with server.client() as client:
            assert client.get(f"{MAPS}?limit=1").status == 200
    assert grown < 150  # TLS has some hundred kilobytes for each connection.


def test_bodies_of_known_clients_have_room_up_to_a_limit_and_are_then_asked_to_wait(server: Victim) -> None:
    """Each sends nearly all of its 3 MB and stops."""
    count = http_limits.BODIES_BYTES_MAX // 2_900_000 + 20
    with ExitStack() as open_ones:
        socks = [open_ones.enter_context(closing(_as_administrator(server))) for _ in range(count)]
        threads = [threading.Thread(target=_send_most, args=(sock,)) for sock in socks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        statuses = eventually(lambda: _answers(socks), seconds=60)
        assert statuses == {429}
        assert memory_mb(server) < 1200


def _send_most(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.sendall(_head(MAPS, 3_000_000) + b" " * 2_900_000)


def _answers(socks: list[ssl.SSLSocket]) -> set[int]:
    """The statuses that have come; empty while there is none."""
    found = set()
    for sock in socks:
        sock.settimeout(0.01)
        found.add(_status(sock))
    return found - {0}


def test_unfinished_heads_are_bounded_in_all(server: Victim) -> None:
    before = memory_mb(server)
    head = b"GET / HTTP/1.1\r\nx: " + b"x" * (http_limits.HEAD_BYTES_MAX - 1000)
    with ExitStack() as open_ones:
        for _ in range(400):
            sock = open_ones.enter_context(closing(_as_nobody(server)))
            with suppress(OSError):
                sock.sendall(head)
        assert memory_mb(server) - before < 300
        with server.client() as client:
            assert client.get(f"{MAPS}?limit=1").status == 200


def test_connections_that_are_gone_leave_nothing_behind(server: Victim) -> None:
    """Nor wait for the garbage collector: each has some ten kilobytes of TLS."""
    asked = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"

    def come_and_go(count: int) -> float:
        for _ in range(count):
            with closing(_as_nobody(server)) as sock:
                sock.sendall(asked)
                assert _status(sock) == 200
        return memory_mb(server)

    before = come_and_go(100)
    assert come_and_go(500) - before < 12


def test_very_many_requests_in_one_piece_are_read_as_they_are_served(server: Victim) -> None:
    one = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"
    count = 20_000
    before = memory_mb(server)
    with closing(_as_nobody(server)) as sock:
        seen, last, deadline = 0, b"", time.monotonic() + 60
        for piece in _answers_while_sending(sock, one * count):
            seen += (last + piece).count(b"HTTP/1.1 200") - last.count(b"HTTP/1.1 200")
            last = piece[-20:]
            if seen >= count or time.monotonic() > deadline:
                break
    assert seen == count
    assert memory_mb(server) - before < 30


def _answers_while_sending(sock: ssl.SSLSocket, sent: bytes) -> Iterator[bytes]:
    """What comes while as much is sent as is taken, to the end. In one thread: Python's TLS sockets must not
    be read by one while another writes."""
    sock.setblocking(False)
    rest = memoryview(sent)
    while True:
        moved = False
        with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            rest = rest[sock.send(rest[: 1 << 16]) :] if rest else rest
            moved = bool(rest)
        with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            piece = sock.recv(1 << 16)
            if not piece:
                return
            moved = True
            yield piece
        if not moved:
            select.select([sock], [sock] if rest else [], [], 0.1)


@pytest.mark.full
def test_clients_that_do_not_read_their_answers_are_cut_off_when_they_are_too_many(server: Victim) -> None:
    """Answers that nobody reads are bounded in all: those that have not read for longest go."""
    with server.client() as client:
        for number in range(8):
            assert client.call("POST", MAPS, config_map(f"m{number}", 900_000)).status == 201
    before = memory_mb(server)
    asked = f"GET {MAPS}?watch=true&resourceVersion=0 HTTP/1.1\r\nhost: x\r\n\r\n".encode()
    with ExitStack() as open_ones:

        def cut_off() -> bool:
            sock = open_ones.enter_context(closing(_as_administrator(server)))
            sock.sendall(asked)
            return metric(server, "fathom_connections_cut_off") > 3

        assert eventually(cut_off, seconds=60)
        assert memory_mb(server) - before < http_limits.UNREAD_BYTES_MAX / MB + 250


def test_what_is_held_is_told_as_metrics(server: Victim) -> None:
    for name in (
        "fathom_watch_log_bytes",
        "fathom_request_body_bytes",
        "fathom_request_bodies_refused",
        "fathom_unread_answer_bytes",
    ):
        assert metric(server, name) >= 0


def test_the_body_of_a_request_is_given_back_however_it_ends(server: Victim) -> None:
    with closing(_as_administrator(server)) as sock:
        sock.sendall(_head(MAPS, 2_000_000) + b" " * 1_000_000)
        assert eventually(lambda: metric(server, "fathom_request_body_bytes") >= 1_000_000, seconds=10)
    assert eventually(lambda: metric(server, "fathom_request_body_bytes") == 0, seconds=10)
    with server.client() as client:
        assert client.call("POST", MAPS, json.loads('{"metadata":{"name":"a"}}')).status == 201
    assert metric(server, "fathom_request_body_bytes") == 0


def test_kinds_that_are_gone_leave_no_schema_behind(tmp_path: Path) -> None:
    """Whoever may define kinds chooses how large their schemas are."""
    world = World(tmp_path)
    fields = {"type": "object", "properties": {"spec": {"type": "object", "title": "churned"}}}
    for at in range(5):
        crd = definition(f"churn{at}", schema=fields)
        assert world.send("POST", CRDS, encoded(crd)).status == 201
        head = {"kind": "Fuzzling", "apiVersion": f"churn{at}.example.com/v1", "metadata": {"name": "a"}}
        where = f"/apis/churn{at}.example.com/v1/namespaces/{NAMESPACE}/fuzzlings"
        assert world.send("POST", where, encoded({**head, "spec": {}})).status == 201
        assert world.send("DELETE", f"{where}/a").status == 200
        assert world.send("DELETE", f"{CRDS}/{crd['metadata']['name']}").status == 200
    gc.collect()
    kept = [one for one in gc.get_objects() if isinstance(one, Structural) and "churned" in str(one.schema)]
    world.close()
    # The last requests may still refer to the last kind.
    assert len(kept) <= 1
