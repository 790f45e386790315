"""Helpers for the rules of kinds: read values that a client sent, check quantities and durations.

A value of a wrong type is skipped here: the schema check reports it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj
from fathom.model.quantity import ZERO, parse
from fathom.model.times import duration_ns

NO_DURATION = "must be a duration such as 30s, 45m or 1h30m"
# Letters and symbols that show nothing: the fillers of Hangul, and Braille without dots.
SHOW_NOTHING = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def mapping(value: Any) -> Obj:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def is_blank(written: str) -> bool:
    """Whether a reader sees nothing: spaces, control characters, characters without width, lone accents."""
    return not any(_shows(char) for char in written)


def visible(written: str) -> str:
    """What a reader sees of it, with one space between words."""
    return " ".join("".join(char for char in written if _is_seen(char)).split())


def _is_seen(char: str) -> bool:
    return _shows(char) or char.isspace() or unicodedata.category(char).startswith("M")


def _shows(char: str) -> bool:
    """Letters, numbers, punctuation and symbols do."""
    return char not in SHOW_NOTHING and unicodedata.category(char)[0] in "LNPS"


def amount_causes(amounts: Any, field: str) -> Iterator[Cause]:
    for name, value in mapping(amounts).items():
        where = f"{field}[{name}]"
        for why in formats.qualified_name(name):
            yield causes.invalid(where, name, why)
        try:
            amount = parse(value)
        except ValueError as error:
            yield causes.invalid(where, value, str(error))
            continue
        if amount < ZERO:
            yield causes.invalid(where, value, causes.MUST_NOT_BE_NEGATIVE)


def duration_causes(value: object, field: str) -> list[Cause]:
    if value is None or not isinstance(value, str) or duration_ns(value) is not None:
        return []
    return [causes.invalid(field, value, NO_DURATION)]


def stamps(old: Obj, fields: tuple[str, ...]) -> Obj:
    """These fields of the stored status: writers of status cannot change them."""
    before = mapping(old.get("status"))
    return {field: before[field] for field in fields if field in before}
