"""Units of time; parses and formats durations ('45m', '1h30m') and timestamps ('2026-03-01T12:00:00Z')."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

SECOND_NS = 1_000_000_000

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": SECOND_NS,
    "m": 60 * SECOND_NS,
    "h": 3600 * SECOND_NS,
    "d": 24 * 3600 * SECOND_NS,
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h|d)")
_WHOLE = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h|d)){1,8}")

# A century: a longer duration means for ever, which should be stated instead.
DURATION_NS_MAX = 100 * 366 * 24 * 3600 * SECOND_NS


def duration_ns(text: str) -> int | None:
    """Parse a duration in Go's format, or with days. None: it is not a duration, or too long."""
    if len(text) > 64 or not _WHOLE.fullmatch(text):
        return None
    total = sum(int(float(number) * _UNITS_NS[unit]) for number, unit in _PART.findall(text))
    return total if total <= DURATION_NS_MAX else None


def moment_ns(text: object) -> int | None:
    """An RFC 3339 timestamp, since the epoch. None: it is absent, cannot be parsed, or has no time zone."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    # Exact in integers: a float cannot hold today's nanoseconds.
    return (moment - EPOCH) // _MICROSECOND * 1_000


@lru_cache(maxsize=16)
def _hour(hour: int) -> str:
    """Cached: thousands of writes need the same text."""
    return datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%dT%H:")


@lru_cache(maxsize=16)
def _second(second: int) -> str:
    hour, rest = divmod(second, 3600)
    return f"{_hour(hour)}{rest // 60:02d}:{rest % 60:02d}"


def timestamp(now_ns: int) -> str:
    """Kubernetes' metav1.Time: RFC 3339, whole seconds, UTC."""
    return f"{_second(now_ns // SECOND_NS)}Z"


def micro_timestamp(now_ns: int) -> str:
    """Kubernetes' metav1.MicroTime."""
    second, rest_ns = divmod(now_ns, SECOND_NS)
    return f"{_second(second)}.{rest_ns // 1000:06d}Z"
