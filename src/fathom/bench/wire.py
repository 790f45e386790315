"""One TLS connection, and just enough HTTP/1.1 to read what comes back on it.

The driver shares the machine with the server it measures, so this is plain: non-blocking sockets, no event
loop, no header objects. Against a static responder a request takes it some 15 µs of CPU; asyncio on uvloop
took the same for requests and for watches of one event a record, and 1.8 times as much for batched ones.
"""

from __future__ import annotations

import select
import socket
import ssl
from typing import NamedTuple

from fathom.bench.errors import BadTarget, BenchFailed
from fathom.bench.kubeconfig import BenchTarget

# A TLS record carries at most 16 KiB, and one read returns at most one record.
READ_BYTES = 16 * 1024
# Longer than any answer takes; a server silent for so long will stay silent.
STALL_S = 30.0
LAST_CHUNK = b"0\r\n\r\n"
# Sizes of an answer that are not known: its head is not complete; it comes in chunks.
HEAD, CHUNKS = 0, -1


class WireAnswer(NamedTuple):
    status: int
    body: bytes
    closes: bool = False  # The server closes the connection after it.


class AnswerParser:
    """Bytes in, whole answers out, one at a time: a caller never has two requests in flight."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._size = HEAD  # Of the answer being read, in bytes with its head, where that is known.

    def feed(self, piece: bytes) -> WireAnswer | None:
        if not self._data:  # Nearly always: an answer of one record, never copied.
            return self._parse(piece)
        self._data += piece
        if len(self._data) < self._size or (self._size == CHUNKS and not self._data.endswith(LAST_CHUNK)):
            return None
        whole, self._data = bytes(self._data), bytearray()
        return self._parse(whole)

    def _parse(self, data: bytes) -> WireAnswer | None:
        try:
            answer, self._size = read_answer(data)
        except ValueError as error:  # A status, a length or a chunk's size that is no number.
            raise BenchFailed(f"not an HTTP/1.1 answer: {error}") from error
        if answer is None:
            self._data += data
        return answer


def read_answer(data: bytes) -> tuple[WireAnswer | None, int]:
    """The answer these bytes hold, and its whole size: `HEAD` or `CHUNKS` while that cannot be known."""
    head_end = data.find(b"\r\n\r\n")
    if head_end < 0:
        return None, HEAD
    head, start = data[:head_end].lower(), head_end + 4
    if not head.startswith(b"http/1.1 "):
        raise BenchFailed(f"not an HTTP/1.1 answer: {head[:40]!r}")
    status, closes = int(head[9:12]), b"\r\nconnection: close" in head
    at = head.find(b"\r\ncontent-length:")
    if at >= 0:
        size = start + int(head[at + 17 :].split(b"\r\n", 1)[0])
        if len(data) > size:
            raise BenchFailed(f"the answer is {len(data) - size} bytes longer than its Content-Length")
        return (WireAnswer(status, data[start:], closes) if len(data) == size else None), size
    if b"\r\ntransfer-encoding: chunked" not in head:
        raise BenchFailed("the answer has neither a Content-Length nor chunks")
    body = read_chunks(data, start)
    return (None if body is None else WireAnswer(status, body, closes)), CHUNKS


def read_chunks(data: bytes, start: int) -> bytes | None:
    """A chunked body, or None while its last chunk has not come."""
    parts: list[bytes] = []
    while (line_end := data.find(b"\r\n", start)) >= 0:
        size = int(data[start:line_end].split(b";", 1)[0], 16)
        start = line_end + 2
        if size == 0:
            return b"".join(parts) if data.startswith(b"\r\n", start) else None
        parts.append(data[start : start + size])
        start += size + 2
    return None


class WireConnection:
    """A keep-alive TLS connection. Its socket is non-blocking once the handshake is done."""

    def __init__(self, target: BenchTarget) -> None:
        """Raises `BadTarget` when there is no such server or it is not trusted."""
        self._target = target
        self._use(_secured(target))

    def _use(self, sock: ssl.SSLSocket) -> None:
        self._socket = sock
        self.fileno = sock.fileno()
        self._receive = sock.read
        self._send = sock.write
        self.is_last = False  # The server closes it after the answer that was read.

    def open_again(self) -> None:
        """Another connection in its place. Only between two requests: no request is sent twice."""
        old = self._socket
        try:
            self._use(_secured(self._target))
        except BadTarget as error:
            raise BenchFailed(f"the server closed a connection and takes no other: {error}") from error
        old.close()

    @property
    def is_closed(self) -> bool:
        """Whether the server has closed it, or will; kube-apiserver closes what is idle for 90 seconds."""
        if self.is_last:
            return True
        try:
            return self._receive(READ_BYTES) == b""
        except ssl.SSLWantReadError:
            return False
        except OSError:
            return True

    def send(self, request: bytes) -> None:
        sent = 0
        while sent < len(request):
            try:
                sent += self._send(request[sent:] if sent else request)
            except ssl.SSLWantWriteError:
                if not select.select([], [self._socket], [], STALL_S)[1]:
                    raise BenchFailed(f"the server has read nothing for {STALL_S:.0f} s") from None
            except OSError as error:
                raise BenchFailed(f"the server closed the connection: {error}") from error

    def receive(self) -> bytes | None:
        """What has come; None when that is not a whole record yet; empty at the end of the stream."""
        try:
            return self._receive(READ_BYTES)
        except ssl.SSLWantReadError:
            return None
        except OSError as error:
            raise BenchFailed(f"the connection failed: {error}") from error

    def close(self) -> None:
        self._socket.close()


def connect(target: BenchTarget) -> WireConnection:
    """Raises `BadTarget` when there is no such server or it is not trusted."""
    return WireConnection(target)


def _secured(target: BenchTarget) -> ssl.SSLSocket:
    address = f"{target.host}:{target.port}"
    try:
        plain = socket.create_connection((target.host, target.port), timeout=STALL_S)
    except OSError as error:
        raise BadTarget(f"cannot connect to {address}: {error.strerror or error}") from error
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secured = target.tls.wrap_socket(plain, server_hostname=target.server_name)
    except OSError as error:
        plain.close()
        raise BadTarget(f"the TLS handshake with {address} failed: {error}") from error
    secured.setblocking(False)
    return secured
