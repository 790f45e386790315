"""What happened in a live run, in order: writes, faults, starts and ends. The report is made of it."""

from __future__ import annotations

from typing import Literal

import msgspec

Sort = Literal["write", "fault", "process", "story"]


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    at_s: float  # Since the faults' clock began.
    sort: Sort
    who: str
    what: str
    objects: tuple[str, ...] = ()  # Of a write: what it wrote, and its owners.
    revision: int = 0  # Of a write, or of the write that a fault met.
    culprit: str = ""  # 'lost reply': a possible cause of a violation.


class Diary:
    """The clock of a run and what happened in it."""

    def __init__(self, monotonic_ns: int) -> None:
        self.began_ns = monotonic_ns
        self.events: list[Happened] = []

    def ordered(self) -> list[Happened]:
        """Writes are noticed a moment after they were made: their time is that of the audit log."""
        return sorted(self.events, key=lambda event: event.at_s)
