"""A value and where it comes from. A value that is not known is null, and its source says why."""

from __future__ import annotations

from typing import Any

import msgspec

NO_DATA = "no data"


class Sourced(msgspec.Struct, frozen=True):
    value: Any
    source: str
