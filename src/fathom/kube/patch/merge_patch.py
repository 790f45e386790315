"""JSON merge patch, RFC 7386: objects merge, null deletes, anything else replaces."""

from __future__ import annotations

from typing import Any


def merge(current: Any, patch: Any) -> Any:
    """Recursion is bounded by the patch's depth, which was checked when the patch was read."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(current) if isinstance(current, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = merge(merged.get(name), value)
        else:
            merged[name] = value
    return merged
