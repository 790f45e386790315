"""Columns of times: how long ago something was, as `5m`, `3h12m` or `2d3h`."""

from __future__ import annotations

from typing import Any

from fathom.model.objects import Obj, metadata
from fathom.model.times import SECOND_NS, human_duration, moment_ns

UNKNOWN = "<unknown>"


def since(timestamp: Any, now_ns: int) -> str:
    """How long ago; '<unknown>' without a time."""
    then = moment_ns(timestamp)
    return UNKNOWN if then is None else human_duration((now_ns - then) / SECOND_NS)


def between(start: Any, end: Any) -> str:
    first, last = moment_ns(start), moment_ns(end)
    return UNKNOWN if first is None or last is None else human_duration((last - first) / SECOND_NS)


def age(obj: Obj, now_ns: int) -> str:
    return since(metadata(obj).get("creationTimestamp"), now_ns)
