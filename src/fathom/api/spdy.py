"""SPDY/3.1 frames, as far as `kubectl port-forward` uses them: streams of bytes on one connection.

Pure: bytes in, frames out; bytes may be split anywhere. Everything that a peer sends is bounded: the size of
a frame, of a block of headers before and after it is inflated, and the number of headers.

    control   1 | version 15 | type 16 | flags 8 | length 24 | …
    data      0 | stream 31  |           flags 8 | length 24 | bytes
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import msgspec

VERSION = 3
SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FIN = 0x01
CANCEL, REFUSED_STREAM, PROTOCOL_ERROR = 5, 3, 1  # Statuses of RST_STREAM.
FRAME_BYTES_MAX = 1 << 20
CONTROL_BYTES_MAX = 16 << 10  # Of a control frame.
HEADER_BLOCK_BYTES_MAX = 16 << 10  # Inflated.
HEADERS_MAX = 32

_HEAD = struct.Struct(">II")

# fmt: off
_COMMON_NAMES = (  # noqa: SIM905  # As a list it would be sixty lines.
    "options, head, post, put, delete, trace, accept, accept-charset, accept-encoding, "
    "accept-language, accept-ranges, age, allow, authorization, cache-control, connection, "
    "content-base, content-encoding, content-language, content-length, content-location, content-md5, "
    "content-range, content-type, date, etag, expect, expires, from, host, if-match, "
    "if-modified-since, if-none-match, if-range, if-unmodified-since, last-modified, location, "
    "max-forwards, pragma, proxy-authenticate, proxy-authorization, range, referer, retry-after, "
    "server, te, trailer, transfer-encoding, upgrade, user-agent, vary, via, warning, "
    "www-authenticate, method, get, status, 200 OK, version, HTTP/1.1, url, public, set-cookie, "
    "keep-alive, origin"
).split(", ")
# fmt: on
_COMMON_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 No"
    "n-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403"
    " Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Fe"
    "b Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunke"
    "d,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/"
    "javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
# What both ends agree to have seen before the first header: part of the protocol.
DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in _COMMON_NAMES) + _COMMON_TEXT.encode()
)


class SpdyError(Exception):
    """The peer breaks the rules: the connection has to end."""


class Frame(msgspec.Struct, frozen=True):
    """`kind` 0: data. Only the fields that its kind has are set."""

    kind: int
    stream: int = 0
    flags: int = 0
    data: bytes = b""
    headers: dict[str, str] = {}
    number: int = 0  # Of a ping; the status of RST_STREAM and GOAWAY.

    @property
    def is_last(self) -> bool:
        return bool(self.flags & FIN)


class FrameReader:
    """Bytes in, frames out. Frames of no use here are left out."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflater = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Raises SpdyError."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._buffer)
            is_control, flags, length = bool(first >> 31), second >> 24, second & 0xFFFFFF
            if length > (CONTROL_BYTES_MAX if is_control else FRAME_BYTES_MAX):
                raise SpdyError(f"a frame of {length} bytes is too large")
            if len(self._buffer) < _HEAD.size + length:
                return
            content = bytes(self._buffer[_HEAD.size : _HEAD.size + length])
            del self._buffer[: _HEAD.size + length]
            if not is_control:
                yield Frame(0, first, flags, content)
            elif (frame := self._control(first, flags, content)) is not None:
                yield frame

    def _control(self, first: int, flags: int, content: bytes) -> Frame | None:
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != VERSION:
            raise SpdyError(f"version {version} of SPDY is not spoken here")
        try:
            if kind == SYN_STREAM:
                return Frame(kind, _stream(content), flags, headers=self._headers(content[10:]))
            if kind in {SYN_REPLY, HEADERS}:
                return Frame(kind, _stream(content), flags, headers=self._headers(content[4:]))
            if kind == RST_STREAM:
                return Frame(kind, _stream(content), number=_number(content, 4))
            if kind == PING:
                return Frame(kind, number=_number(content, 0))
            if kind == GOAWAY:
                return Frame(kind, _stream(content), number=_number(content, 4))
        except struct.error:
            raise SpdyError("a control frame is too short") from None
        return None  # SETTINGS, WINDOW_UPDATE: kubectl has no windows.

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            text = self._inflater.decompress(block, HEADER_BLOCK_BYTES_MAX + 1)
        except zlib.error as error:
            raise SpdyError(f"headers cannot be read: {error}") from None
        if len(text) > HEADER_BLOCK_BYTES_MAX or self._inflater.unconsumed_tail or self._inflater.eof:
            raise SpdyError("headers are too large")
        return _parsed(text)


class FrameWriter:
    """Frames as bytes."""

    def __init__(self) -> None:
        self._deflater = zlib.compressobj(zdict=DICTIONARY)

    def data(self, stream: int, data: bytes, *, last: bool = False) -> bytes:
        return _HEAD.pack(stream, (FIN if last else 0) << 24 | len(data)) + data

    def syn_stream(self, stream: int, headers: dict[str, str], *, last: bool = False) -> bytes:
        content = struct.pack(">IIH", stream, 0, 0) + self._block(headers)
        return _control(SYN_STREAM, content, FIN if last else 0)

    def syn_reply(self, stream: int) -> bytes:
        return _control(SYN_REPLY, struct.pack(">I", stream) + self._block({}))

    def reset(self, stream: int, status: int) -> bytes:
        return _control(RST_STREAM, struct.pack(">II", stream, status))

    def ping(self, number: int) -> bytes:
        return _control(PING, struct.pack(">I", number))

    def go_away(self, last_stream: int) -> bytes:
        return _control(GOAWAY, struct.pack(">II", last_stream, 0))

    def _block(self, headers: dict[str, str]) -> bytes:
        words = [word.encode() for pair in headers.items() for word in pair]
        text = b"".join(struct.pack(">I", len(word)) + word for word in words)
        block = struct.pack(">I", len(headers)) + text
        return self._deflater.compress(block) + self._deflater.flush(zlib.Z_SYNC_FLUSH)


def _control(kind: int, content: bytes, flags: int = 0) -> bytes:
    return _HEAD.pack(1 << 31 | VERSION << 16 | kind, flags << 24 | len(content)) + content


def _stream(content: bytes) -> int:
    return _number(content, 0) & 0x7FFFFFFF


def _number(content: bytes, at: int) -> int:
    return int(struct.unpack_from(">I", content, at)[0])


def _parsed(text: bytes) -> dict[str, str]:
    """Names in lower case; values of a repeated name are separated by zero bytes, and stay so."""
    try:
        (count,), at = struct.unpack_from(">I", text), 4
        if count > HEADERS_MAX:
            raise SpdyError(f"{count} headers are too many")
        words = []
        for _ in range(count * 2):
            (length,) = struct.unpack_from(">I", text, at)
            if length > len(text) - at - 4:
                raise SpdyError("a header is longer than its block")
            words.append(text[at + 4 : at + 4 + length].decode("utf-8", "replace"))
            at += 4 + length
    except struct.error:
        raise SpdyError("a block of headers is too short") from None
    return {name.lower(): value for name, value in zip(words[::2], words[1::2], strict=True)}
