"""Helpers for the rules of kinds: read values that a client sent, check quantities and durations.

A value of a wrong type is skipped here: the schema check reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj
from fathom.model.quantity import ZERO, parse
from fathom.model.times import duration_ns

NO_DURATION = "must be a duration such as 30s, 45m or 1h30m"


def mapping(value: Any) -> Obj:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


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
