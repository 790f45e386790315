"""What an invariant says when it is broken."""

from __future__ import annotations

import msgspec


class Violation(msgspec.Struct, frozen=True):
    invariant: str
    message: str
    at_s: float  # Of the story.
    objects: tuple[str, ...] = ()  # 'pods/default/web-1': whose story to tell.


class Broken(Exception):
    """Raised where a story sees it; ends the story."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(f"{violation.invariant}: {violation.message}")
        self.violation = violation
