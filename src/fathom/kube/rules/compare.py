"""Compares two parts of an object by meaning, and says where they differ.

An absent field and an empty one are equal. For numbers and flags that holds only where the API has no third
state, so those are named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fathom.model import causes
from fathom.model.causes import shown
from fathom.model.errors import Cause
from fathom.model.objects import Obj

_ZERO_IS_ABSENT = frozenset(
    {
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "stdin",
        "stdinOnce",
        "tty",
        "readOnly",
        "hostPort",
        "initialDelaySeconds",
    }
)
_LINES_MAX = 10


def same(new: Any, old: Any) -> bool:
    return new == old or next(_differences(new, old, ""), None) is None


def check_fixed(problems: list[Cause], spec: Obj, old: Obj, *names: str) -> None:
    """Fields of the spec that must not change after creation."""
    before = old.get("spec") or {}
    for name in names:
        if not same(spec.get(name), before.get(name)):
            problems.append(causes.invalid(f"spec.{name}", spec.get(name), causes.IMMUTABLE))


def difference(new: Any, old: Any, field: str) -> str:
    """A few lines for a message: which paths changed, from what to what."""
    lines: list[str] = []
    for path, before, after in _differences(new, old, field):
        if len(lines) == _LINES_MAX:
            lines.append("  ...")
            break
        lines.append(f"  {path}: {shown(before)} -> {shown(after)}")
    return "\n".join(lines)


def _differences(new: Any, old: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if new == old:
        return
    if isinstance(new, dict | None) and isinstance(old, dict | None):
        old_fields, new_fields = old or {}, new or {}
        for name in (*old_fields, *(name for name in new_fields if name not in old_fields)):
            before, after = _present(name, old_fields.get(name)), _present(name, new_fields.get(name))
            yield from _differences(after, before, f"{path}.{name}" if path else name)
    elif isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        for index, (after, before) in enumerate(zip(new, old, strict=True)):
            yield from _differences(after, before, f"{path}[{index}]")
    else:
        yield path, old, new


def _present(name: str, value: Any) -> Any:
    if value in (None, "", [], {}):
        return None
    return None if not value and name in _ZERO_IS_ABSENT else value
