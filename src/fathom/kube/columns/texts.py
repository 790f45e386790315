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
    value = lookup(obj, *path)
    return value if isinstance(value, dict) else {}


def items(obj: Any, *path: str) -> list[Any]:
    value = lookup(obj, *path)
    return value if isinstance(value, list) else []


def text(obj: Any, *path: str, missing: str = "") -> str:
    value = lookup(obj, *path)
    return missing if value in (None, "") else str(value)


def number(obj: Any, *path: str) -> int:
    value = lookup(obj, *path)
    return value if isinstance(value, int) else 0


def labels_text(labels: Any) -> str:
    """`a=1,b=2`, in key order."""
    if not isinstance(labels, dict) or not labels:
        return NONE
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def selector_text(selector: Any) -> str:
    """The text of a LabelSelector, or of the plain label map of older kinds."""
    if not isinstance(selector, dict) or not selector:
        return NONE
    if all(isinstance(value, str) for value in selector.values()):
        return labels_text(selector)
    try:
        return str(LabelSelector.from_object(selector)) or NONE
    except ValueError:
        return "<error>"


def listed(texts: Sequence[str], *, missing: str, limit: int = LISTED_MAX, separator: str = ",") -> str:
    """The first few items, and how many more there are."""
    if not texts:
        return missing
    shown = separator.join(texts[:limit])
    return f"{shown} + {len(texts) - limit} more..." if len(texts) > limit else shown


def condition(obj: Obj, kind: str) -> Obj:
    """A condition of the status by its type; {} where there is none."""
    return next(
        (candidate for candidate in items(obj, "status", "conditions") if candidate.get("type") == kind), {}
    )


def is_true(obj: Obj, kind: str) -> bool:
    return bool(condition(obj, kind).get("status") == "True")
