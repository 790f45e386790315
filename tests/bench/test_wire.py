"""Bytes to answers, however the network cuts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.bench.errors import BenchFailed
from fathom.bench.wire import AnswerParser, WireAnswer, read_chunks

BODIES = st.binary(max_size=200) | st.just(b"x0\r\n\r\n0\r\n\r\n")


def with_length(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d Word\r\nContent-Length: %d\r\nX-Y: z\r\n\r\n%s" % (status, len(body), body)


def in_chunks(status: int, body: bytes, size: int) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%X\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 %d Word\r\ntransfer-encoding: chunked\r\n\r\n%s0\r\n\r\n" % (status, chunks)


@given(
    answers=st.lists(
        st.tuples(st.sampled_from([200, 201, 404]), BODIES, st.integers(0, 9)), min_size=1, max_size=3
    ),
    piece=st.integers(1, 60),
)
def test_every_answer_is_read_whole_however_it_is_cut(
    answers: list[tuple[int, bytes, int]], piece: int
) -> None:
    parser, read = AnswerParser(), []
    for status, body, size in answers:
        data = in_chunks(status, body, size) if size else with_length(status, body)
        pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
        seen = [parser.feed(one) for one in pieces]
        assert seen[:-1] == [None] * (len(pieces) - 1)
        read.append(seen[-1])
    assert read == [WireAnswer(status, body) for status, body, _ in answers]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", "1 bytes longer than"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "not an HTTP/1.1 answer"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc", "neither a Content-Length nor chunks"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nabc", "not an HTTP/1.1 answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "not an HTTP/1.1 answer"),
    ],
)
def test_what_is_not_an_answer_is_said_so(data: bytes, complaint: str) -> None:
    with pytest.raises(BenchFailed, match=complaint):
        AnswerParser().feed(data)


def test_chunk_extensions_are_passed_over() -> None:
    assert read_chunks(b"3;a=b\r\nabc\r\n0\r\n\r\n", 0) == b"abc"
