"""Durations as tables show them: `5m`, `3h12m`, `2d3h`. Two or three significant figures, no more."""

from __future__ import annotations

from typing import Any

from fathom.model.objects import Obj, metadata
from fathom.model.times import SECOND_NS, moment_ns

UNKNOWN = "<unknown>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 86400 * 365


def human_duration(seconds: float) -> str:
    """As Kubernetes' duration.HumanDuration. A small negative value comes from clocks that differ a
    little."""
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


def since(timestamp: Any, now_ns: int) -> str:
    """How long ago; '<unknown>' without a time."""
    then = moment_ns(timestamp)
    return UNKNOWN if then is None else human_duration((now_ns - then) / SECOND_NS)


def between(start: Any, end: Any) -> str:
    first, last = moment_ns(start), moment_ns(end)
    return UNKNOWN if first is None or last is None else human_duration((last - first) / SECOND_NS)


def age(obj: Obj, now_ns: int) -> str:
    return since(metadata(obj).get("creationTimestamp"), now_ns)
