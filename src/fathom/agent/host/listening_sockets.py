"""List listening TCP sockets, asked of the kernel over netlink (sock_diag).

The tables in /proc/net have the same data, but to write them the kernel walks all connections: some 10 ms of
CPU each time, and each probe looks. A query for listening sockets only takes a hundredth.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from struct import Struct

SOCK_DIAG = 4  # The protocol of the netlink socket.
BY_FAMILY, REQUEST, DUMP = 20, 0x1, 0x300
ERROR, DONE = 2, 3
LISTEN = 1 << 10  # As a set of states.
TIMEOUT_S = 1.0
ANSWER_BYTES = 1 << 16

# nlmsghdr; inet_diag_req_v2, its id left empty; inet_diag_msg, of which we read the source and the inode.
_HEADER = Struct("=IHHII")
_QUERY = Struct("=BBxxI48x")
_LISTENER = Struct("=B3x2s2x16s44xI")
_NUMBER = Struct("=i")

Listener = tuple[str, int, int]  # Address, port, inode.


def tcp_listeners() -> list[Listener]:
    """Listeners in this network namespace. Raises OSError if the kernel does not answer."""
    return [listener for family in (socket.AF_INET, socket.AF_INET6) for listener in _dump(family)]


def _dump(family: int) -> Iterator[Listener]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, SOCK_DIAG) as kernel:
        kernel.settimeout(TIMEOUT_S)
        wanted = _QUERY.pack(family, socket.IPPROTO_TCP, LISTEN)
        kernel.send(_HEADER.pack(_HEADER.size + len(wanted), BY_FAMILY, REQUEST | DUMP, 1, 0) + wanted)
        while True:
            answer = kernel.recv(ANSWER_BYTES)
            for kind, body in _messages(answer):
                if kind == DONE:
                    return
                if kind == ERROR:
                    raise OSError(-_NUMBER.unpack_from(body)[0], "sock_diag")
                yield _listener_of(body)


def _messages(answer: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(answer):
        length, kind, *_ = _HEADER.unpack_from(answer, at)
        yield kind, answer[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def _listener_of(body: bytes) -> Listener:
    family, port, source, inode = _LISTENER.unpack_from(body)
    raw = source[:4] if family == socket.AF_INET else source
    return socket.inet_ntop(family, raw), int.from_bytes(port, "big"), inode
