"""Objects that are wrong in one place: every place of a kind's schema, and the values to put there."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from fathom.model.objects import Obj

Place = tuple[str | int, ...]

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, 1e308),
    *("", "x", "\u0000", "\ud800", "9" * 400, "1e999999999", "-1", "1.5.5", "100Q", "٣", "😀" * 400),
    *("2024-13-45T99:99:99Z", "0000-00-00T00:00:00Z", "99999-01-01T00:00:00Z", "2024-01-01", "1h2", "-5m"),
    *([], {}, [None], [[]], [{}], [1], ["x", "x"], {"": None}, {"x": {}}, {"x": "y"}, {"cpu": "x"}),
    *({"cpu": None}, {"cpu": -1}, {"cpu": "1e400"}, {"cpu": 10**30}, {"cpu": []}, {"\ud800": "1"}),
)


def filled(schema: dict[str, Any]) -> Any:
    """A value of the schema's type with every field that it knows."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "array":
        return [filled(schema["items"])]
    if kind == "object":
        found = {name: filled(one) for name, one in (schema.get("properties") or {}).items()}
        values = schema.get("additionalProperties")
        return found or ({"cpu": filled(values)} if isinstance(values, dict) else {})
    if kind == "string":
        return "2024-01-01T00:00:00Z" if schema.get("format") == "date-time" else "x"
    return {"integer": 1, "number": 1, "boolean": True}.get(str(kind), 1)


def places(value: Any, above: Place = ()) -> Iterator[Place]:
    if above:
        yield above
    if isinstance(value, dict):
        for name, one in value.items():
            yield from places(one, (*above, name))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from places(one, (*above, index))


def bent(obj: Obj) -> Iterator[tuple[Place, Obj]]:
    """The object with one place exchanged, or left out; not what names it."""
    for place in places(obj):
        if place[0] in {"apiVersion", "kind"} or place == ("metadata",) or place[:2] == ("metadata", "name"):
            continue
        for value in ODD:
            yield place, _with(obj, place, value)
        yield place, _without(obj, place)


def _with(obj: Obj, place: Place, value: Any) -> Obj:
    copy = deepcopy(obj)
    *way, last = place
    inner: Any = copy
    for step in way:
        inner = inner[step]
    inner[last] = value
    return copy


def _without(obj: Obj, place: Place) -> Obj:
    copy = deepcopy(obj)
    *way, last = place
    inner: Any = copy
    for step in way:
        inner = inner[step]
    del inner[last]
    return copy
