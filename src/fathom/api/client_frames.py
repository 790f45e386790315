"""The WebSocket frames of a client, on their way to an agent.

Only their heads are read. A frame that no client may send does not reach the agent: in its place the agent
gets one that has no meaning, and closes the connection with 1002, as the protocol wants it.
"""

from __future__ import annotations

from collections.abc import Callable

DATA_OPCODES, CONTROL_OPCODES = frozenset({0, 1, 2}), frozenset({8, 9, 10})
MEANINGLESS = bytes((0x85, 0x80, 0, 0, 0, 0))  # Opcode 5, masked, of no bytes.
HEAD_BYTES_MAX = 14
_FIRST_BYTES, _MASK_BYTES = 2, 4
_LENGTH_BYTES = {126: 2, 127: 8}  # Of a longer length, that follows the first two bytes.


class ClientFrames:
    """`look` sees the content of messages, in pieces; what it raises ends the connection."""

    def __init__(self, look: Callable[[bytes], None] | None = None) -> None:
        self.look = look
        self._head = b""  # As far as it is here; it is passed on when it is whole, and good.
        self._left = 0  # Bytes of the frame's content that are still to come.
        self._mask = bytes(_MASK_BYTES)  # Turned, so that it begins with the next byte's.
        self._is_data = False
        self._broken = False

    def passed(self, data: bytes) -> bytes:
        """What of the client's bytes the agent gets now."""
        out = bytearray()
        while data and not self._broken:
            if self._left:
                piece, data = data[: self._left], data[self._left :]
                out += self._content(piece)
            else:
                head, data = self._begin(data)
                out += head
        return bytes(out)

    def _begin(self, data: bytes) -> tuple[bytes, bytes]:
        """The head of a frame, empty if it is not whole yet, and what follows it."""
        before, self._head = len(self._head), self._head + data[:HEAD_BYTES_MAX]
        size = _head_size(self._head)
        if len(self._head) < size:
            return b"", b""
        head, self._head = self._head[:size], b""
        self._broken = not _may_be_sent(head)
        if self._broken:
            return MEANINGLESS, b""
        self._is_data = head[0] & 0x0F in DATA_OPCODES
        self._left = _content_size(head)
        self._mask = head[-_MASK_BYTES:]
        return head, data[size - before :]

    def _content(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        if self._is_data and self.look is not None:
            self.look(self._unmasked(piece))
        return piece

    def _unmasked(self, piece: bytes) -> bytes:
        size = len(piece)
        mask = (self._mask * (size // _MASK_BYTES + 1))[:size]
        turn = size % _MASK_BYTES
        self._mask = self._mask[turn:] + self._mask[:turn]
        # As whole numbers: byte by byte takes a hundred times as long.
        return (int.from_bytes(piece, "big") ^ int.from_bytes(mask, "big")).to_bytes(size, "big")


def _head_size(head: bytes) -> int:
    """How long the head is, as far as can be seen."""
    if len(head) < _FIRST_BYTES:
        return _FIRST_BYTES
    masked = _MASK_BYTES if head[1] & 0x80 else 0
    return _FIRST_BYTES + _LENGTH_BYTES.get(head[1] & 0x7F, 0) + masked


def _content_size(head: bytes) -> int:
    short = head[1] & 0x7F
    length_bytes = _LENGTH_BYTES.get(short, 0)
    return int.from_bytes(head[_FIRST_BYTES : _FIRST_BYTES + length_bytes], "big") if length_bytes else short


def _may_be_sent(head: bytes) -> bool:
    """A client masks what it sends, and no extension was agreed on. Control frames are whole, and short."""
    opcode, reserved, whole = head[0] & 0x0F, head[0] & 0x70, head[0] & 0x80
    if reserved or not head[1] & 0x80:
        return False
    return opcode in DATA_OPCODES or bool(opcode in CONTROL_OPCODES and whole and head[1] & 0x7F < 126)
