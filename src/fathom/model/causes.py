"""Causes: what is wrong with one field, worded as kube-apiserver words it.

Clients and people read these sentences, so their form is part of the API: `Invalid value: "x": why`. Values
are printed as Go prints them: strings quoted, numbers bare, anything else as compact JSON with sorted keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from fathom.model.body import encode_sorted
from fathom.model.errors import CAUSE_CHARS_MAX, Cause

MUST_NOT_BE_NEGATIVE = "must be greater than or equal to 0"
MUST_BE_POSITIVE = "must be greater than zero"
IMMUTABLE = "field is immutable"

_GO_ESCAPES = {
    7: "\\a",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    11: "\\v",
    12: "\\f",
    13: "\\r",
    34: '\\"',
    92: "\\\\",
}
# encoding/json keeps its output safe inside HTML.
_JSON_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class _Omitted:
    """Marks a message that shows no value."""


OMITTED = _Omitted()


def quoted(text: str) -> str:
    """As Go's %q."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    code = ord(char)
    if code in _GO_ESCAPES:
        return _GO_ESCAPES[code]
    if char.isprintable():
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown(value: Any) -> str:
    """A value as a message shows it: in full, unless it is longer than a message may be."""
    if isinstance(value, str):
        return quoted(value) if len(value) <= CAUSE_CHARS_MAX else f"{quoted(value[:CAUSE_CHARS_MAX])}..."
    if isinstance(value, dict | list):
        encoded = encode_sorted(value)
        if len(encoded) > CAUSE_CHARS_MAX:
            return f"{encoded[:CAUSE_CHARS_MAX].decode(errors='ignore')}..."
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).translate(
        _JSON_ESCAPES
    )


def _message(problem: str, value: Any, detail: str) -> str:
    with_value = problem if value is OMITTED else f"{problem}: {shown(value)}"
    return f"{with_value}: {detail}" if detail else with_value


def invalid(field: str, value: Any, detail: str) -> Cause:
    return Cause(field, "FieldValueInvalid", _message("Invalid value", value, detail))


def duplicate(field: str, value: Any, detail: str = "") -> Cause:
    return Cause(field, "FieldValueDuplicate", _message("Duplicate value", value, detail))


def not_found(field: str, value: Any, detail: str = "") -> Cause:
    return Cause(field, "FieldValueNotFound", _message("Not found", value, detail))


def not_supported(field: str, value: Any, supported: Sequence[str]) -> Cause:
    detail = (
        f"supported values: {', '.join(quoted(value_text) for value_text in supported)}" if supported else ""
    )
    return Cause(field, "FieldValueNotSupported", _message("Unsupported value", value, detail))


def required(field: str, detail: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", _message("Required value", OMITTED, detail))


def forbidden(field: str, detail: str) -> Cause:
    return Cause(field, "FieldValueForbidden", _message("Forbidden", OMITTED, detail))


def too_long(field: str, limit_bytes: int) -> Cause:
    detail = f"may not be more than {limit_bytes} byte{'' if limit_bytes == 1 else 's'}"
    return Cause(field, "FieldValueTooLong", _message("Too long", OMITTED, detail))


def too_many(field: str, count: int, limit: int) -> Cause:
    detail = f"must have at most {limit} item{'' if limit == 1 else 's'}"
    return Cause(field, "FieldValueTooMany", _message("Too many", count, detail))


def each(field: str, value: Any, details: Iterable[str]) -> list[Cause]:
    """The same value refused for several reasons."""
    return [invalid(field, value, detail) for detail in details]


def not_negative(field: str, value: int | None) -> list[Cause]:
    """A cause if the number is negative, else none. An absent number is fine."""
    return [invalid(field, value, MUST_NOT_BE_NEGATIVE)] if value is not None and value < 0 else []


def unchanged(field: str, new: Any, old: Any) -> list[Cause]:
    """A cause if an immutable field was changed, else none."""
    return [] if new == old else [invalid(field, new, IMMUTABLE)]
