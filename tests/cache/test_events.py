"""Chunks of a watch, over a wire and in simulation, become the same events."""

from __future__ import annotations

import pytest

from fathom.client.events import (
    Event,
    MalformedEvent,
    decode_events,
    ends_initial_events,
    error_of,
    revision_of,
)
from fathom.model.body import decode_json
from fathom.model.objects import Obj

POD: Obj = {"metadata": {"name": "a", "resourceVersion": "7"}}


def test_lines_and_pairs_are_the_same_events() -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}\n'
    expected = [Event("ADDED", POD), Event("ADDED", POD), Event("DELETED", POD)]
    assert decode_events([line + line, line.replace(b"ADDED", b"DELETED")]) == expected
    assert decode_events([[("ADDED", POD), ("ADDED", POD)], [("DELETED", POD)]]) == expected


def test_objects_of_a_simulation_are_not_copied() -> None:
    assert decode_events([[("ADDED", POD)]])[0].obj is POD


@pytest.mark.parametrize(
    "chunk",
    [
        b"<html>",
        b'{"type":"ADDED"}\n',
        b'{"type":"ADDED","object":[]}\n',
        b'{"type":7,"object":{}}\n',
        b"[]\n",
        b'{"type":"ADDED","object":{}}\n{"type":"ADD',
        b'{"type":"\xff","object":{}}\n',
    ],
)
def test_what_is_no_event_is_said_to_be_malformed(chunk: bytes) -> None:
    with pytest.raises(MalformedEvent):
        decode_events([chunk])
    with pytest.raises(MalformedEvent):
        decode_events([chunk], lambda fields: {name: decode_json(raw) for name, raw in fields.items()})


def test_empty_lines_are_no_events() -> None:
    assert decode_events([b"\n", b""]) == []


@pytest.mark.parametrize(
    "obj", [{}, {"metadata": None}, {"metadata": {"resourceVersion": None}}, {"metadata": []}]
)
def test_without_a_revision_nobody_can_tell_which_state_is_newer(obj: Obj) -> None:
    with pytest.raises(MalformedEvent):
        revision_of(obj)


@pytest.mark.parametrize(
    ("annotations", "ends"),
    [
        ({"k8s.io/initial-events-end": "true"}, True),
        ({"k8s.io/initial-events-end": "no"}, False),
        (None, False),
    ],
)
def test_the_end_of_the_initial_events_is_told_by_an_annotation(
    annotations: Obj | None, *, ends: bool
) -> None:
    assert ends_initial_events(Event("BOOKMARK", {"metadata": {"annotations": annotations}})) is ends


def test_an_error_event_carries_a_status() -> None:
    error = error_of(Event("ERROR", {"code": 410, "reason": "Expired", "message": "too old"}))
    assert (error.code, error.reason, error.message) == (410, "Expired", "too old")
    odd = error_of(Event("ERROR", {"code": "x"}))
    assert (odd.code, odd.message) == (500, "the watch ended with an error")
