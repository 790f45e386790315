"""Durations and moments as people write them: '45m', '1h30m', '2026-03-01T12:00:00Z'."""

from __future__ import annotations

import re
from datetime import UTC, datetime

NS_PER_S = 1_000_000_000

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
    "d": 24 * 3600 * NS_PER_S,
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h|d)")
_WHOLE = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h|d)){1,8}")

# A century: whoever means longer means for ever, and should say that instead.
DURATION_NS_MAX = 100 * 366 * 24 * 3600 * NS_PER_S


def duration_ns(text: str) -> int | None:
    """Go's durations, and days. None: it is no duration, or beyond all reason."""
    if len(text) > 64 or not _WHOLE.fullmatch(text):
        return None
    total = sum(int(float(number) * _UNITS_NS[unit]) for number, unit in _PART.findall(text))
    return total if total <= DURATION_NS_MAX else None


def moment_ns(text: str | None) -> int | None:
    """An RFC 3339 timestamp, since the epoch. None: there is none, or it cannot be read."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    aware = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000_000) * 1_000
