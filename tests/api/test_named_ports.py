"""The ports that a client names on a port-forward, read from its bytes however they are split, and bounded."""

from __future__ import annotations

import struct
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.api.named_ports import PORTS_MAX, NamedPorts, Payloads
from fathom.api.spdy import FrameWriter, SpdyError

BINARY, CONTINUATION, PING = 2, 0, 9


def frame(payload: bytes, mask: bytes = b"abcd", opcode: int = BINARY, first: int = 0x80) -> bytes:
    """As a client sends it; `mask` b'': unmasked."""
    bit, size = 0x80 if mask else 0, len(payload)
    if size < 126:
        head = bytes((first | opcode, bit | size))
    elif size < 65536:
        head = bytes((first | opcode, bit | 126)) + struct.pack(">H", size)
    else:
        head = bytes((first | opcode, bit | 127)) + struct.pack(">Q", size)
    masked = bytes(byte ^ key for byte, key in zip(payload, cycle(mask), strict=False)) if mask else payload
    return head + mask + masked


def opened(writer: FrameWriter, stream: int, port: str) -> bytes:
    pair = writer.syn_stream(stream, {"streamtype": "error", "port": port, "requestid": "0"}, last=True)
    return pair + writer.syn_stream(stream + 2, {"streamtype": "data", "port": port, "requestid": "0"})


@given(
    st.lists(
        st.tuples(st.binary(max_size=300), st.sampled_from((b"", b"\1\2\3\4")), st.booleans()), max_size=6
    ),
    st.lists(st.integers(1, 40), min_size=1),
)
def test_payloads_do_not_depend_on_where_the_bytes_are_split(
    sent: list[tuple[bytes, bytes, bool]], sizes: list[int]
) -> None:
    raw = b"".join(
        frame(data, mask, PING if is_ping and len(data) < 126 else BINARY) for data, mask, is_ping in sent
    )
    payloads, read, turns = Payloads(), b"", cycle(sizes)
    while raw:
        size = next(turns)
        read += b"".join(payloads.feed(raw[:size]))
        raw = raw[size:]
    assert read == b"".join(data for data, _, is_ping in sent if not (is_ping and len(data) < 126))


def test_each_port_is_told_once_also_between_data_and_in_fragments() -> None:
    writer, told = FrameWriter(), list[int]()
    ports = NamedPorts(told.append)
    first = opened(writer, 1, "8080")
    ports.feed(frame(first[:10], first=0) + frame(b"alive?", opcode=PING))
    assert told == []
    ports.feed(frame(first[10:], opcode=CONTINUATION))
    ports.feed(frame(writer.data(3, bytes(70_000)) + opened(writer, 5, "8080")))
    ports.feed(frame(opened(writer, 9, "22")))
    for stream, no_port in ((13, "0"), (17, "65536"), (21, "http"), (25, "")):
        ports.feed(frame(opened(writer, stream, no_port)))
    assert told == [8080, 22]


@pytest.mark.parametrize(
    "raw",
    [
        frame(b"x", first=0xC0),
        frame(b"x", first=0x90),
        frame(b"x", opcode=5),
        frame(b"x" * 8),
        frame(bytes(8) * 2 + b"\x80\x02" * 8),
    ],
)
def test_what_cannot_be_read_ends_the_connection(raw: bytes) -> None:
    with pytest.raises(SpdyError):
        NamedPorts(lambda port: None).feed(raw)


def test_a_client_names_at_most_so_many_ports() -> None:
    writer, told = FrameWriter(), list[int]()
    ports = NamedPorts(told.append)
    for index in range(PORTS_MAX):
        ports.feed(frame(opened(writer, 4 * index + 1, str(index + 1))))
    with pytest.raises(SpdyError, match="at most 50 ports"):
        ports.feed(frame(opened(writer, 4 * PORTS_MAX + 1, "999")))
    assert told == list(range(1, PORTS_MAX + 1))
