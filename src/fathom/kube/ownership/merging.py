"""The fields of one object put into another, and fields taken out of one. Both leave their input alone."""

from __future__ import annotations

from typing import Any

from fathom.kube.ownership import paths
from fathom.kube.ownership.division import element_of
from fathom.kube.ownership.paths import MEMBER
from fathom.kube.ownership.shapes import ANY, FIELDS, ITEMS, VALUES, Shape


def merged(shape: Shape, live: Any, config: Any) -> Any:
    """`live` with every field of `config`."""
    if isinstance(live, dict) and isinstance(config, dict) and shape.division in {FIELDS, ANY}:
        return live | {
            name: merged(shape.field(name), live[name], inner) if name in live else inner
            for name, inner in config.items()
        }
    if isinstance(live, list) and isinstance(config, list) and shape.division in {ITEMS, VALUES}:
        return _merged_list(shape, live, config)
    return config


def _merged_list(shape: Shape, live: list[Any], config: list[Any]) -> list[Any]:
    """In the order of `config`; an item that only `live` has stays after those that it came after. An item
    that both have comes at its place in `live`, unless others of `config` must come before it."""
    wanted = {element_of(shape, inner): inner for inner in config}
    there: dict[str, Any] = {}
    for inner in live:
        there.setdefault(element_of(shape, inner), inner)
    order, at = list(wanted), 0
    both = iter([element for element in order if element in there])
    next_of_both = next(both, None)
    out: list[Any] = []

    def put(element: str) -> None:
        inner = wanted[element]
        both_have = element in there and shape.division == ITEMS
        out.append(merged(shape.item, there[element], inner) if both_have else inner)

    for inner in live:
        element = element_of(shape, inner)
        if element not in wanted:
            out.append(inner)
        elif element == next_of_both:
            next_of_both = next(both, None)
            while order[at] != element:
                put(order[at])
                at += 1
            put(element)
            at += 1
    for element in order[at:]:
        put(element)
    return out


def without(shape: Shape, obj: Any, tree: dict[str, Any]) -> Any:
    """`obj` without the fields of the tree; an object or a list that is empty after that goes, too."""
    if isinstance(obj, dict) and shape.division in {FIELDS, ANY}:
        return {
            name: left
            for name, inner in obj.items()
            if (left := _left(shape.field(name), inner, tree.get(paths.field(name)))) is not _GONE
        }
    if isinstance(obj, list) and shape.division in {ITEMS, VALUES}:
        kept = (_left(shape.item, inner, tree.get(element_of(shape, inner))) for inner in obj)
        return [left for left in kept if left is not _GONE]
    return obj


_GONE = object()


def _left(shape: Shape, inner: Any, tree: dict[str, Any] | None) -> Any:
    if tree is None:
        return inner
    if not tree or MEMBER in tree:
        return _GONE
    left = without(shape, inner, tree)
    return left if left or not inner else _GONE
