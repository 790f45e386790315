"""The ports that a client names on a port-forward are read from its bytes, however these are split."""

from __future__ import annotations

import pytest

from fathom.api.named_ports import PORTS_MAX, NamedPorts
from fathom.api.spdy import FrameWriter, SpdyError


def opened(writer: FrameWriter, stream: int, port: str) -> bytes:
    pair = writer.syn_stream(stream, {"streamtype": "error", "port": port, "requestid": "0"}, last=True)
    return pair + writer.syn_stream(stream + 2, {"streamtype": "data", "port": port, "requestid": "0"})


def test_each_port_is_told_once_also_between_data_and_in_pieces() -> None:
    writer, told = FrameWriter(), list[int]()
    ports = NamedPorts(told.append)
    first = opened(writer, 1, "8080")
    ports.feed(first[:10])
    assert told == []
    ports.feed(first[10:])
    ports.feed(writer.data(3, bytes(70_000)) + opened(writer, 5, "8080"))
    ports.feed(opened(writer, 9, "22"))
    for stream, no_port in ((13, "0"), (17, "65536"), (21, "http"), (25, "")):
        ports.feed(opened(writer, stream, no_port))
    assert told == [8080, 22]


@pytest.mark.parametrize("content", [b"x" * 8, bytes(8) * 2 + b"\x80\x02" * 8])
def test_what_cannot_be_read_ends_the_connection(content: bytes) -> None:
    with pytest.raises(SpdyError):
        NamedPorts(lambda port: None).feed(content)


def test_a_client_names_at_most_so_many_ports() -> None:
    writer, told = FrameWriter(), list[int]()
    ports = NamedPorts(told.append)
    for index in range(PORTS_MAX):
        ports.feed(opened(writer, 4 * index + 1, str(index + 1)))
    with pytest.raises(SpdyError, match="at most 50 ports"):
        ports.feed(opened(writer, 4 * PORTS_MAX + 1, "999"))
    assert told == list(range(1, PORTS_MAX + 1))
