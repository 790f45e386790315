"""Violation: which invariant broke, when, and for which objects."""

from __future__ import annotations

import msgspec


class Violation(msgspec.Struct, frozen=True):
    invariant: str
    message: str
    at_s: float  # Since the scenario began.
    objects: tuple[str, ...] = ()  # 'pods/default/web-1': the subjects of the timeline.


class Broken(Exception):
    """Raised inside the scenario; ends it."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(f"{violation.invariant}: {violation.message}")
        self.violation = violation
