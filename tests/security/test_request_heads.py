"""Heads of requests have limits, and cost little up to them, whoever sends them: of a real server process."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.chaos.victim import Victim, victim

from fathom.api.http_limits import HEAD_BYTES_MAX, HEADERS_MAX, URL_BYTES_MAX

MAPS = "/api/v1/namespaces/default/configmaps"
CPU_S_MAX = 0.5
ANSWER_S_MAX = 10.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with victim(tmp_path_factory.mktemp("heads")) as made:
        yield made


def cpu_s(server: Victim) -> float:
    """Of the server since it started."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def as_nobody(server: Victim) -> ssl.SSLSocket:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    address = urlsplit(server.url)
    return tls.wrap_socket(socket.create_connection((address.hostname, address.port or 0), ANSWER_S_MAX))


def as_administrator(server: Victim) -> ssl.SSLSocket:
    address = urlsplit(server.url)
    plain = socket.create_connection((address.hostname, address.port or 0), ANSWER_S_MAX)
    return server.tls.wrap_socket(plain, server_hostname="127.0.0.1")


def status_of(sock: socket.socket, sent: bytes) -> int:
    with suppress(OSError):
        sock.sendall(sent)
    answer = b""
    with suppress(OSError):
        while b"\r\n" not in answer and (piece := sock.recv(4096)):
            answer += piece
    return int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def head(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: x", *headers]).encode() + b"\r\n\r\n"


def selector(size: int) -> str:
    terms = ",".join(f"k{at}=v" for at in range(size // 6))
    return f"{MAPS}?labelSelector={terms[:size]}"


TOO_MUCH = {
    "a megabyte of one header, repeated": (head("/livez", *["x: y"] * 180_000), {431}),
    "a megabyte of different headers": (head("/livez", *[f"x{at}: y" for at in range(90_000)]), {431}),
    "a header of a megabyte": (head("/livez", "x: " + "y" * 1_000_000), {431}),
    "one header too many": (head("/livez", *["x: y"] * HEADERS_MAX), {431}),
    "a selector of a megabyte": (head(selector(1_000_000)), {414}),
    "a path of a megabyte": (head("/" + "x" * 1_000_000), {414}),
    "an address that is a byte too long": (head("/" + "x" * URL_BYTES_MAX), {414}),
    "very many parameters": (head(MAPS + "?" + "&".join(["a=b"] * 10_000)), {400}),
}


@pytest.mark.parametrize(("sent", "expected"), TOO_MUCH.values(), ids=TOO_MUCH.keys())
@pytest.mark.parametrize("connect", [as_nobody, as_administrator], ids=["nobody", "administrator"])
def test_too_much_is_refused_and_costs_little(
    server: Victim, connect: object, sent: bytes, expected: set[int]
) -> None:
    before = cpu_s(server)
    with closing(connect(server)) as sock:  # type: ignore[operator]  # One of the two above.
        assert status_of(sock, sent) in expected
    assert cpu_s(server) - before < CPU_S_MAX


def test_heads_up_to_the_limits_are_answered(server: Victim) -> None:
    long = head("/livez", *[f"x{at % 40}: {'y' * 400}" for at in range(HEADERS_MAX - 1)])
    assert len(long) < HEAD_BYTES_MAX
    with closing(as_administrator(server)) as sock:
        assert status_of(sock, long) == 200
    values = ",".join(f"v{at}" for at in range(4_000))
    with closing(as_administrator(server)) as sock:
        assert status_of(sock, head(f"{MAPS}?labelSelector=a%20in%20({values})")) == 200


def test_headers_that_come_several_times_are_all_seen(server: Victim) -> None:
    groups = [f"impersonate-group: g{at}" for at in range(300)]
    with closing(as_administrator(server)) as sock:
        assert status_of(sock, head("/livez", "impersonate-user: jane", *groups)) == 200
    with closing(as_administrator(server)) as sock:
        assert status_of(sock, head(MAPS, "impersonate-user: jane", *groups)) == 403
