"""Units of time; parses and formats durations ('45m', '1h30m') and timestamps ('2026-03-01T12:00:00Z')."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

SECOND_NS = 1_000_000_000
_MINUTE, _HOUR = 60, 3600  # Seconds.

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


def human_duration(seconds: float) -> str:
    """As tables show it: `5m`, `3h12m`, `2d3h`, as Kubernetes' duration.HumanDuration. A small negative value
    comes from clocks that differ a little."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole <= 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    minutes, hours = whole // _MINUTE, whole // _HOUR
    if minutes < 10:
        return _pair(minutes, "m", whole % _MINUTE, "s")
    if minutes < 3 * 60:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    return _days(hours)


def _days(hours: int) -> str:
    days = hours // 24
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
