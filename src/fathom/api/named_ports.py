"""The ports that a client names on a port-forward: read from its bytes, which are SPDY inside a WebSocket.

kubectl names them after the connection is granted, in the headers of its streams, so that they are in no
query. The agent reads the same bytes; what cannot be read here must not reach it, or a port could be used
that is in no audit entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fathom.api.spdy import SYN_STREAM, FrameReader, SpdyError

PORTS_MAX = 50  # Of one connection.
DATA_OPCODES, CONTROL_OPCODES = frozenset({0, 1, 2}), frozenset({8, 9, 10})
_HEAD_BYTES = 2
_MASK_BYTES = 4
_LENGTH_BYTES = {126: 2, 127: 8}  # Of a longer length, that follows the head.


class NamedPorts:
    """`tell` is called with each port, the first time that it is named."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._payloads, self._frames = Payloads(), FrameReader()
        self._named: set[int] = set()

    def feed(self, data: bytes) -> None:
        """Raises SpdyError: the connection has to end."""
        for payload in self._payloads.feed(data):
            for frame in self._frames.feed(payload):
                port = port_of(frame.headers.get("port", "")) if frame.kind == SYN_STREAM else 0
                if port and port not in self._named:
                    self._add(port)

    def _add(self, port: int) -> None:
        if len(self._named) >= PORTS_MAX:
            raise SpdyError(f"at most {PORTS_MAX} ports can be forwarded on one connection")
        self._named.add(port)
        self._tell(port)


class Payloads:
    """The bytes of a client's WebSocket messages, one after the other; it keeps at most a frame's head."""

    def __init__(self) -> None:
        self._head = b""  # As far as it is here.
        self._left = 0  # Bytes of the frame's payload that are still to come.
        self._mask = bytes(_MASK_BYTES)  # Turned, so that it begins with the next byte's.
        self._is_data = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Raises SpdyError."""
        while data:
            if not self._left:
                data = self._begin(data)
                continue
            piece, data = data[: self._left], data[self._left :]
            self._left -= len(piece)
            if self._is_data:
                yield self._unmasked(piece)

    def _begin(self, data: bytes) -> bytes:
        """Read the head of a frame; what follows it."""
        self._head += data[: _HEAD_BYTES + 8 + _MASK_BYTES]
        size = _head_size(self._head)
        if len(self._head) < size:
            return b""
        rest = len(self._head) - size
        taken = len(data[: _HEAD_BYTES + 8 + _MASK_BYTES]) - rest
        self._read_head(self._head[:size])
        self._head = b""
        return data[taken:]

    def _read_head(self, head: bytes) -> None:
        opcode, reserved = head[0] & 0x0F, head[0] & 0x70
        if reserved or opcode not in DATA_OPCODES | CONTROL_OPCODES:
            raise SpdyError("a frame of the WebSocket is of no known kind")
        self._is_data = opcode in DATA_OPCODES
        length_bytes = _LENGTH_BYTES.get(head[1] & 0x7F, 0)
        long = int.from_bytes(head[_HEAD_BYTES : _HEAD_BYTES + length_bytes], "big")
        self._left = long if length_bytes else head[1] & 0x7F
        self._mask = head[-_MASK_BYTES:] if head[1] & 0x80 else bytes(_MASK_BYTES)

    def _unmasked(self, piece: bytes) -> bytes:
        size = len(piece)
        mask = (self._mask * (size // _MASK_BYTES + 1))[:size]
        turn = size % _MASK_BYTES
        self._mask = self._mask[turn:] + self._mask[:turn]
        # As whole numbers, which takes a microsecond for each kilobyte; byte by byte takes a hundred.
        return (int.from_bytes(piece, "big") ^ int.from_bytes(mask, "big")).to_bytes(size, "big")


def port_of(text: str) -> int:
    """0 if it is no port."""
    good = text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536
    return int(text) if good else 0


def _head_size(head: bytes) -> int:
    """How long the head is, as far as can be seen."""
    if len(head) < _HEAD_BYTES:
        return _HEAD_BYTES
    masked = _MASK_BYTES if head[1] & 0x80 else 0
    return _HEAD_BYTES + _LENGTH_BYTES.get(head[1] & 0x7F, 0) + masked
