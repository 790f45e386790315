"""SPDY/3.1 as kubectl speaks it: any split of the bytes gives the same frames, and a peer is bounded."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.api.spdy import (
    DICTIONARY,
    FIN,
    GOAWAY,
    HEADER_BLOCK_BYTES_MAX,
    PING,
    RST_STREAM,
    SYN_REPLY,
    SYN_STREAM,
    Frame,
    FrameReader,
    FrameWriter,
    SpdyError,
)  # fmt: skip

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
names = words.map(str.lower).filter(lambda name: name == name.lower())
streams = st.integers(1, 2**31 - 1)


@st.composite
def sent(draw: st.DrawFn) -> tuple[bytes, list[Frame]]:
    """Bytes of several frames, and the frames."""
    writer, raw, frames = FrameWriter(), b"", []
    for kind in draw(st.lists(st.sampled_from((0, SYN_STREAM, SYN_REPLY, RST_STREAM, PING)), max_size=6)):
        stream, number, last = draw(streams), draw(st.integers(0, 2**32 - 1)), draw(st.booleans())
        if kind == 0:
            data = draw(st.binary(max_size=200))
            raw += writer.data(stream, data, last=last)
            frames.append(Frame(0, stream, FIN * last, data))
        elif kind == SYN_STREAM:
            headers = draw(st.dictionaries(names, words, max_size=5))
            raw += writer.syn_stream(stream, headers, last=last)
            frames.append(Frame(kind, stream, FIN * last, headers=headers))
        elif kind == SYN_REPLY:
            raw += writer.syn_reply(stream)
            frames.append(Frame(kind, stream))
        elif kind == RST_STREAM:
            raw += writer.reset(stream, number)
            frames.append(Frame(kind, stream, number=number))
        else:
            raw += writer.ping(number)
            frames.append(Frame(kind, number=number))
    return raw, frames


@given(sent(), st.lists(st.integers(1, 40), min_size=1))
def test_frames_do_not_depend_on_where_the_bytes_are_split(
    case: tuple[bytes, list[Frame]], sizes: list[int]
) -> None:
    raw, frames = case
    reader, read, at, turn = FrameReader(), [], 0, 0
    while at < len(raw):
        size = sizes[turn % len(sizes)]
        read += list(reader.feed(raw[at : at + size]))
        at, turn = at + size, turn + 1
    assert read == frames


@given(st.binary(max_size=400))
def test_no_bytes_do_more_than_break_the_rules(raw: bytes) -> None:
    with suppress(SpdyError):
        list(FrameReader().feed(raw))


def control(kind: int, content: bytes, version: int = 3) -> bytes:
    return struct.pack(">II", 1 << 31 | version << 16 | kind, len(content)) + content


def deflated(text: bytes) -> bytes:
    deflater = zlib.compressobj(zdict=DICTIONARY)
    return deflater.compress(text) + deflater.flush(zlib.Z_SYNC_FLUSH)


def opening(text: bytes) -> bytes:
    return control(SYN_STREAM, struct.pack(">IIH", 1, 0, 0) + deflated(text))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (struct.pack(">II", 1, (1 << 20) + 1), "too large"),
        (struct.pack(">II", 1 << 31 | 3 << 16 | SYN_STREAM, 1 << 23), "too large"),
        (control(PING, b"\0\0\0\1", version=2), "version 2"),
        (control(PING, b"\0"), "too short"),
        (control(GOAWAY, b"\0\0\0\0"), "too short"),
        (opening(b""), "too short"),
        (opening(bytes(HEADER_BLOCK_BYTES_MAX + 1)), "headers are too large"),
        (opening(bytes(1 << 24)), "headers are too large|too large"),
        (opening(struct.pack(">I", 33)), "33 headers"),
        (opening(struct.pack(">II", 1, 99) + b"x"), "longer than its block"),
        (control(SYN_STREAM, bytes(10) + b"no zlib"), "cannot be read"),
    ],
)
def test_a_peer_that_breaks_the_rules_is_told_which(raw: bytes, words: str) -> None:
    with pytest.raises(SpdyError, match=words):
        list(FrameReader().feed(raw))


def test_sixteen_megabytes_in_a_small_block_are_never_inflated() -> None:
    """A block that fits into a frame, and would take a thousand times its size."""
    bomb = opening(bytes(8 << 20))
    assert len(bomb) < 16 << 10
    with pytest.raises(SpdyError, match="headers are too large"):
        list(FrameReader().feed(bomb))


def test_the_dictionary_is_the_one_of_the_protocol() -> None:
    """Every SPDY/3 peer begins its first block of headers with this checksum of it."""
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_frames_of_no_use_here_are_left_out() -> None:
    settings = control(4, struct.pack(">III", 1, 4, 65536))
    window = control(9, struct.pack(">II", 1, 1000))
    assert list(FrameReader().feed(settings + window + FrameWriter().ping(1))) == [Frame(PING, number=1)]
