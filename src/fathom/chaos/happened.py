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
