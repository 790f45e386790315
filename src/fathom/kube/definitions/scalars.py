"""Checks quantities, times and free-form values, and converts them to kube-apiserver's canonical form.

Each function takes a decoded JSON value and returns the canonical one, or raises ValueError with
kube-apiserver's message.
"""

from __future__ import annotations

import base64
import math
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from fathom.model import quantity as model_quantity
from fathom.model.causes import quoted

# kube-apiserver's JSON reader stops at 10,000 levels. Python stops at 1,000 frames, and plain recursive code
# (a walk, a patch, a deep copy) takes up to four frames a level; no real object is deeper than 60.
DEPTH_MAX: Final = 200
INT64_MAX: Final = 2**63 - 1
TOO_DEEP: Final = f"exceeded max depth of {DEPTH_MAX} levels"

# The 29th of February is left to the slow path, which handles leap years.
_DAY = (
    r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8])"
)
_DATE = rf"[1-9]\d{{3}}-(?:{_DAY})"
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
_is_canonical = re.compile(rf"{_DATE}T{_CLOCK}Z", re.ASCII).fullmatch
is_micro_time = re.compile(rf"{_DATE}T{_CLOCK}\.\d{{6}}Z", re.ASCII).fullmatch
_split_time = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)", re.ASCII
).fullmatch

_BASE64: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n")

LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"


def quantity(value: Any) -> str:
    if type(value) is str and len(value) <= model_quantity.CHARS_MAX:
        return _canonical_quantity(value)
    if type(value) is int or type(value) is float:
        return model_quantity.canonical(value)
    return model_quantity.canonical(str(value))  # Nothing else is a quantity: this raises the error.


# A cache of a pure function: a cluster's pods use the same few amounts.
_canonical_quantity = lru_cache(maxsize=4096)(model_quantity.canonical)


def time(value: Any) -> str:
    """metav1.Time: RFC 3339 in, whole seconds in UTC out."""
    if type(value) is str and _is_canonical(value):
        return value
    return _text(_moment(value, LAYOUT), "seconds")


def micro_time(value: Any) -> str:
    """metav1.MicroTime. Unlike kube-apiserver, fathom also accepts times without exactly six digits: many
    clients omit a fraction of zero."""
    if type(value) is str and is_micro_time(value):
        return value
    return _text(_moment(value, MICRO_LAYOUT), "microseconds")


def _moment(value: Any, layout: str) -> datetime:
    match = _split_time(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(_unreadable(value, layout))
    whole, fraction, zone = match.groups()
    try:
        read = datetime.fromisoformat(f"{whole}.{(fraction or '0')[:6]:0<6}{zone}")
        utc = read.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(_unreadable(value, layout)) from None
    return utc


def _text(utc: datetime, precision: str) -> str:
    """With four digits of the year, which `strftime` does not write before the year 1000."""
    return f"{utc.replace(tzinfo=None).isoformat(timespec=precision)}Z"


def _unreadable(value: Any, layout: str) -> str:
    text = quoted(value) if isinstance(value, str) else str(value)
    return f'parsing time {text} as "{layout}": cannot parse {text} as "2006"'


def blob(value: Any) -> str:
    """Base64, read as Go does, which skips line ends, and written as Go does."""
    if not isinstance(value, str):
        raise ValueError(f"json: cannot unmarshal {json_kind(value)} into Go value of type []uint8")
    text = value.replace("\n", "").replace("\r", "")
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode()
    except (ValueError, UnicodeError):
        wrong = next((at for at, char in enumerate(value) if char not in _BASE64), len(value))
        raise ValueError(f"illegal base64 data at input byte {wrong}") from None


def json_kind(value: Any) -> str:
    """The name of a value's type in Go's JSON reader."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return {dict: "object", list: "array", type(None): "null"}.get(_plain_type(value), "string")


def _plain_type(value: Any) -> type:
    return next((plain for plain in (dict, list, type(None)) if isinstance(value, plain)), str)


def free(value: Any) -> Any:
    """Any JSON value within fathom's limits: no number beyond 64 bits, not nested too deeply."""
    level = [value]
    for _ in range(DEPTH_MAX):
        deeper: list[Any] = []
        for item in level:
            _free_one(item, deeper)
        if not deeper:
            return value
        level = deeper
    raise ValueError(TOO_DEEP)


def _free_one(value: Any, deeper: list[Any]) -> None:
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return
    if isinstance(value, dict):
        deeper.extend(value.values())
    elif isinstance(value, list):
        deeper.extend(value)
    elif kind is int:
        if not -INT64_MAX - 1 <= value <= INT64_MAX:
            raise ValueError(f"number {value} does not fit into 64 bits")
    elif kind is float:
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a JSON number")
    else:
        raise ValueError(f"{kind.__name__} is not a JSON value")
