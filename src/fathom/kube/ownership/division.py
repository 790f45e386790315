"""An object, field by field: each owned path with its value."""

from __future__ import annotations

from typing import Any

from fathom.kube.ownership import paths
from fathom.kube.ownership.paths import DEPTH_MAX, Path
from fathom.kube.ownership.shapes import ANY, FIELDS, ITEMS, VALUES, Shape

# The value of a path that is there beside what is below it, as an item of a list.
PRESENT = object()


def divided(shape: Shape, obj: Any, *, all_: bool = False) -> dict[Path, Any]:
    """Every path that who applies the object would own, with its value; of items with the same keys, one.
    `all_`: also the objects and lists that they are in."""
    found: dict[Path, Any] = {}
    _divide(shape, obj, (), found, all_=all_)
    return found


def _divide(shape: Shape, value: Any, path: Path, found: dict[Path, Any], *, all_: bool) -> None:
    if len(path) >= DEPTH_MAX:
        found[path] = value
    elif isinstance(value, dict) and shape.division in {FIELDS, ANY}:
        for name, inner in value.items():
            below = (*path, paths.field(name))
            _divide(shape.field(name), inner, below, found, all_=all_)
            if all_ or inner in ({}, None) or not shape.declares(name):
                found.setdefault(below, PRESENT)
    elif isinstance(value, list) and shape.division in {ITEMS, VALUES}:
        for inner in value:
            below = (*path, element_of(shape, inner))
            if shape.division == ITEMS:
                _divide(shape.item, inner, below, found, all_=all_)
            found.setdefault(below, PRESENT)
    else:
        found[path] = value


def element_of(shape: Shape, inner: Any) -> str:
    """What tells an item from the others of its list. Where it lacks a key, validation says so."""
    if shape.division == VALUES or not isinstance(inner, dict):
        return paths.value(inner)
    keys = {key: inner.get(key, shape.key_default(key)) for key in shape.keys}
    return paths.item({key: chosen for key, chosen in keys.items() if chosen is not None})
