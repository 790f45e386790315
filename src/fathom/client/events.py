"""Decodes the chunks of a watch into events.

A chunk is whole lines of JSON when it came over a connection, or a list of (type, object) pairs in
simulation, where nothing is ever encoded. Both give the same events, in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fathom.model.errors import ApiError
from fathom.model.objects import Obj, metadata
from fathom.model.well_known import BOOKMARK_ANNOTATION, WATCH_AGE_ANNOTATION

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
BOOKMARK, ERROR = "BOOKMARK", "ERROR"

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Event(msgspec.Struct, frozen=True, gc=False):
    type: str
    obj: Obj = msgspec.field(name="object")


class MalformedEvent(Exception):
    """The stream contains something that is no watch event. Nothing after it can be trusted: the watch is
    opened again, from the last revision that is known to be complete."""


class RawEvent(msgspec.Struct, frozen=True):
    """An event whose object is not decoded yet beyond its first level."""

    type: str
    fields: dict[str, msgspec.Raw] = msgspec.field(name="object")


# Builds an object from its undecoded fields; may reuse parts that it has decoded before.
Assemble = Callable[[dict[str, msgspec.Raw]], Obj]

_events = msgspec.json.Decoder(Event).decode_lines
_raw_events = msgspec.json.Decoder(RawEvent).decode_lines


def decode_events(chunks: Iterable[Any], assemble: Assemble | None = None) -> list[Event]:
    """All events of some chunks. Raises `MalformedEvent`."""
    events: list[Event] = []
    for chunk in chunks:
        if isinstance(chunk, bytes):
            events += _decoded(chunk, assemble)
        else:
            for kind, obj in chunk:
                events.append(Event(kind, obj))
    return events


def _decoded(chunk: bytes, assemble: Assemble | None) -> list[Event]:
    try:
        if assemble is None:
            return _events(chunk)
        return [Event(raw.type, assemble(raw.fields)) for raw in _raw_events(chunk)]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedEvent(f"{error}: {chunk[:120]!r}") from error


def revision_of(obj: Obj) -> int:
    """Of an object, a list or a bookmark. Raises `MalformedEvent` where there is none: without it a cache
    cannot tell which of two states is newer."""
    try:
        return int(obj["metadata"]["resourceVersion"])
    except (KeyError, TypeError, ValueError):
        raise MalformedEvent(f"object without a resourceVersion: {str(obj)[:120]}") from None


def ends_initial_events(event: Event) -> bool:
    """Whether this is the bookmark that ends the initial events of a WatchList."""
    return _annotation(event, INITIAL_EVENTS_END) == "true"


def promised_bookmark_s(event: Event) -> float:
    """How often the server says that bookmarks come; infinite where it does not say."""
    seconds = _seconds(event, BOOKMARK_ANNOTATION)
    return math.inf if seconds is None else seconds


def watch_age_s(event: Event) -> float | None:
    """How long the watch had been open when its server sent this bookmark; None where it does not say."""
    return _seconds(event, WATCH_AGE_ANNOTATION)


def _seconds(event: Event, annotation: str) -> float | None:
    seconds = _annotation(event, annotation)
    try:
        return None if seconds is None else float(str(seconds))
    except ValueError:
        return None


def _annotation(event: Event, name: str) -> object:
    annotations = metadata(event.obj).get("annotations")
    return annotations.get(name) if isinstance(annotations, dict) else None


def error_of(event: Event) -> ApiError:
    """The error in an ERROR event's Status."""
    status = event.obj
    code = status.get("code")
    details = status.get("details")
    return ApiError(
        code if isinstance(code, int) else 500,
        str(status.get("reason") or ""),
        str(status.get("message") or "the watch ended with an error"),
        details=details if isinstance(details, dict) else None,
    )
