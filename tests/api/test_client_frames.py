"""Frames of a client's WebSocket are passed on as they are; one that no client may send is not."""

from __future__ import annotations

import struct
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.api.client_frames import MEANINGLESS, ClientFrames

CONTINUATION, BINARY, PING = 0, 2, 9


def frame(content: bytes, mask: bytes = b"abcd", opcode: int = BINARY, first: int = 0x80) -> bytes:
    """As a client sends it; `mask` b'': unmasked."""
    bit, size = 0x80 if mask else 0, len(content)
    if size < 126:
        head = bytes((first | opcode, bit | size))
    elif size < 65536:
        head = bytes((first | opcode, bit | 126)) + struct.pack(">H", size)
    else:
        head = bytes((first | opcode, bit | 127)) + struct.pack(">Q", size)
    masked = bytes(byte ^ key for byte, key in zip(content, cycle(mask), strict=False)) if mask else content
    return head + mask + masked


def passed_in_pieces(frames: ClientFrames, raw: bytes, sizes: list[int]) -> bytes:
    out, turns = b"", cycle(sizes)
    while raw:
        size = next(turns)
        out += frames.passed(raw[:size])
        raw = raw[size:]
    return out


contents = st.lists(st.tuples(st.binary(max_size=300), st.binary(min_size=4, max_size=4), st.booleans()))


@given(contents, st.lists(st.integers(1, 40), min_size=1))
def test_frames_pass_however_they_are_split(sent: list[tuple[bytes, bytes, bool]], sizes: list[int]) -> None:
    told: list[bytes] = []
    kinds = [PING if is_ping and len(content) < 126 else BINARY for content, _, is_ping in sent]
    raw = b"".join(frame(content, mask, kind) for (content, mask, _), kind in zip(sent, kinds, strict=True))
    assert passed_in_pieces(ClientFrames(told.append), raw, sizes) == raw
    messages = [content for (content, *_), kind in zip(sent, kinds, strict=True) if kind == BINARY]
    assert b"".join(told) == b"".join(messages)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(frame(b"x", mask=b""), id="unmasked"),
        pytest.param(frame(bytes(70_000), mask=b""), id="long and unmasked"),
        pytest.param(frame(b"x", first=0xC0), id="compressed"),
        pytest.param(frame(b"x", first=0xA0), id="second reserved bit"),
        pytest.param(frame(b"x", first=0x90), id="third reserved bit"),
        pytest.param(frame(b"x", opcode=5), id="unknown opcode"),
        pytest.param(frame(b"x", opcode=PING, first=0), id="fragmented ping"),
        pytest.param(frame(bytes(126), opcode=PING), id="long ping"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_a_frame_that_no_client_may_send_is_replaced_and_nothing_follows(bad: bytes, size: int) -> None:
    good = frame(b"a", first=0) + frame(b"b", opcode=CONTINUATION)
    assert passed_in_pieces(ClientFrames(), good + bad + good, [size]) == good + MEANINGLESS
