"""What keeps one container from being ready, and what its causes are worded with."""

from __future__ import annotations

import msgspec

from fathom.explain.why.answer import Change
from fathom.explain.why.case import event_time_ns
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS, moment_ns


class Trouble(msgspec.Struct, frozen=True):
    """`severity`: of several containers the one with the lowest is the cause."""

    severity: int
    cause: str
    change: Change | None = None


def one_line(message: object) -> str:
    """One line of a message."""
    lines = str(message or "no message").strip().splitlines()
    return (lines[-1] if len(lines) > 1 else lines[0] if lines else "no message")[:300]


def is_since(event: Obj, stamp: object) -> bool:
    """Whether the Event is of this run and not of one before. Events and statuses have whole seconds."""
    return event_time_ns(event) + SECOND_NS > time_ns(stamp)


def time_ns(stamp: object) -> int:
    return moment_ns(stamp) or 0
