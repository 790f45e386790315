"""What woke a key: an event, a timer, a retry, another decision. Every decision records its cause."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["event", "timer", "retry", "decision", "resync", "start", "freshness", "unstated"]


class WakeCause(msgspec.Struct, frozen=True):
    kind: Kind
    detail: str = ""  # Which object at which revision, which decision, what failed.


UNSTATED = WakeCause("unstated")
