"""Merge patches that put back what another one changed. Pure."""

from __future__ import annotations

from typing import Any

from fathom.model.objects import Obj


def inverse(obj: Obj, patch: Obj) -> Obj:
    """The merge patch that makes `obj` again from `obj` with `patch`."""
    undone: Obj = {}
    for name, value in patch.items():
        before = obj.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            undone[name] = inverse(before, value)
        else:
            undone[name] = before  # None, where there was nothing: that removes it.
    return undone


def still_ours(obj: Obj, patch: Obj, undone: Obj) -> Obj:
    """The part of `undone` whose fields still have the values of `patch`: somebody else changed the rest."""
    left: Obj = {}
    for name, back in undone.items():
        value, now = patch.get(name), obj.get(name)
        if isinstance(back, dict) and isinstance(value, dict) and isinstance(now, dict | None):
            if part := still_ours(now or {}, value, back):
                left[name] = part
        elif now == _without_nulls(value):
            left[name] = back
        elif back is None and isinstance(value, dict) and isinstance(now, dict):
            # The map was not there before, and somebody else has written into it since: only ours goes.
            ours = {each: None for each, given in value.items() if given is not None}
            if part := still_ours(now, value, ours):
                left[name] = part
    return left


def _without_nulls(value: Any) -> Any:
    """What a merge patch leaves of a value that it sets."""
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return value
