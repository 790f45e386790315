"""Small text functions that many columns share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fathom.model.objects import Obj, lookup
from fathom.model.selectors import LabelSelector

NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"
LISTED_MAX = 3


def part(obj: Any, *path: str) -> Any:
    """A dictionary at a path; an empty one where there is none."""
    found = lookup(obj, *path)
    return found if isinstance(found, dict) else {}


def items(obj: Any, *path: str) -> list[Any]:
    found = lookup(obj, *path)
    return found if isinstance(found, list) else []


def text(obj: Any, *path: str, missing: str = "") -> str:
    found = lookup(obj, *path)
    return missing if found in (None, "") else str(found)


def number(obj: Any, *path: str) -> int:
    found = lookup(obj, *path)
    return found if isinstance(found, int) else 0


def labels_text(labels: Any) -> str:
    """`a=1,b=2`, in key order."""
    if not isinstance(labels, dict) or not labels:
        return NONE
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def selector_text(selector: Any) -> str:
    """Of a LabelSelector, or of the plain map of older kinds."""
    if not isinstance(selector, dict) or not selector:
        return NONE
    if all(isinstance(value, str) for value in selector.values()):
        return labels_text(selector)
    try:
        return str(LabelSelector.from_object(selector)) or NONE
    except ValueError:
        return "<error>"


def listed(found: Sequence[str], *, missing: str, limit: int = LISTED_MAX, separator: str = ",") -> str:
    """The first few items, and how many more there are."""
    if not found:
        return missing
    shown = separator.join(found[:limit])
    return f"{shown} + {len(found) - limit} more..." if len(found) > limit else shown


def condition(obj: Obj, kind: str) -> Obj:
    """A condition of the status by its type; {} where there is none."""
    return next((one for one in items(obj, "status", "conditions") if one.get("type") == kind), {})


def is_true(obj: Obj, kind: str) -> bool:
    return bool(condition(obj, kind).get("status") == "True")
