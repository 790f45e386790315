"""A span, and its ids. Every process derives the same ids from the same records, so parents and links are
known before the span that they name is exported.

    trace     the UID of the object: 128 bits
    root      the object's creation                               root_id(uid)
    request   a committed write, found by whoever saw its event   request_id(uid, revision)
    decision  a decision about the object, or in the trace of     decision_id(id)
              another object that it wrote, that write
    write     a decision's write of its own object                write_id(id)
    start     a container's start                                 start_id(uid, container, attempt)
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal

import msgspec

AttributeValue = str | int | float | bool
SpanKind = Literal["internal", "client", "server"]

# W3C: version, trace id, span id, flags, all in lower-case hexadecimal.
TRACEPARENT_PARTS = (2, 32, 16, 2)
HEX = frozenset("0123456789abcdef")


class SpanLink(msgspec.Struct, frozen=True):
    trace: int
    span: int


class Span(msgspec.Struct, frozen=True, kw_only=True):
    trace: int
    id: int
    name: str  # Of few values, as OpenTelemetry wants: 'scheduler bind'. Objects are in attributes.
    start_ns: int
    end_ns: int
    parent: int = 0  # In the same trace; 0: none.
    kind: SpanKind = "internal"
    attributes: Mapping[str, AttributeValue] = {}
    links: tuple[SpanLink, ...] = ()
    error: str = ""  # What failed; '': nothing did.


def trace_id(uid: str) -> int:
    """The UID without its dashes. Anything else than 32 digits is hashed."""
    digits = uid.replace("-", "").lower()
    if len(digits) == 32 and set(digits) <= HEX and digits.strip("0"):
        return int(digits, 16)
    return _hash(16, "trace", uid)


def root_id(uid: str) -> int:
    return _hash(8, "root", uid)


def request_id(uid: str, revision: int) -> int:
    return _hash(8, "request", uid, str(revision))


def decision_id(id_: str) -> int:
    return _hash(8, "decision", id_)


def write_id(id_: str) -> int:
    return _hash(8, "write", id_)


def start_id(uid: str, container: str, attempt: int) -> int:
    return _hash(8, "start", uid, container, str(attempt))


def other_id(*parts: str) -> int:
    """Of a span that no other span names."""
    return _hash(8, "other", *parts)


def client_link(traceparent: str) -> tuple[SpanLink, ...]:
    """The span in which a client sent its request; none if the header is malformed."""
    parts = traceparent.split("-")
    if tuple(map(len, parts[:4])) != TRACEPARENT_PARTS or not set("".join(parts[:4])) <= HEX:
        return ()
    trace, span = int(parts[1], 16), int(parts[2], 16)
    return (SpanLink(trace, span),) if trace and span else ()


def _hash(size: int, *parts: str) -> int:
    """Never 0, which OpenTelemetry reads as "no id"."""
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=size).digest(), "big") or 1
