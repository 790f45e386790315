"""How a value divides into fields that are owned one by one.

Kubernetes' schemas say it: the fields of an object are owned one by one unless `x-kubernetes-map-type` is
`atomic`; a list is owned as a whole unless `x-kubernetes-list-type` is `map` (items, by their keys) or `set`
(plain values).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fathom.kube.definitions.definitions import Definitions, Schema, ref_of, type_of

WHOLE, FIELDS, ITEMS, VALUES, ANY = "whole", "fields", "items", "values", "any"

# Key fields that clients may leave out. The definitions of the built-in kinds do not have their defaults.
KEY_DEFAULTS: Mapping[str, Any] = {"protocol": "TCP"}


class Shape:
    """One level of a schema. `field` and `item` are looked up on demand: definitions are cyclic."""

    __slots__ = ("_definitions", "_fields", "_item", "_schema", "division", "keys")

    def __init__(self, schema: Schema, definitions: Definitions, marked: Schema | None = None) -> None:
        """`marked`: where the schema is referred to; what it says about the division counts first."""
        self._schema, self._definitions = schema, definitions
        self._fields: dict[str, Shape] = {}
        self._item: Shape | None = None
        words = {**schema, **(marked or {})}
        self.keys: tuple[str, ...] = tuple(words.get("x-kubernetes-list-map-keys") or ())
        self.division = _division(schema, words)

    def declares(self, name: str) -> bool:
        """Whether the schema names the field, and not the user."""
        return name in (self._schema.get("properties") or {})

    def field(self, name: str) -> Shape:
        properties = self._schema.get("properties") or {}
        if name in properties:
            if name not in self._fields:
                self._fields[name] = self._inside(properties[name])
            return self._fields[name]
        values = self._schema.get("additionalProperties")
        return self._inside(values) if isinstance(values, dict) else ANYTHING

    @property
    def item(self) -> Shape:
        if self._item is None:
            items = self._schema.get("items")
            self._item = self._inside(items) if isinstance(items, dict) else ANYTHING
        return self._item

    def key_default(self, key: str) -> Any:
        """What a key field is where an item leaves it out; None if it must be there."""
        declared = (self.item._schema.get("properties") or {}).get(key) or {}
        return declared.get("default", KEY_DEFAULTS.get(key) if ref_of(self._items) else None)

    @property
    def _items(self) -> Schema:
        items: Schema = self._schema.get("items") or {}
        return items

    def _inside(self, schema: Schema) -> Shape:
        return Shape(self._definitions.resolve(schema), self._definitions, schema)


def _division(schema: Schema, words: Schema) -> str:
    type_ = type_of(schema)
    if type_ == "array":
        return {"map": ITEMS, "set": VALUES}.get(words.get("x-kubernetes-list-type", ""), WHOLE)
    if words.get("x-kubernetes-map-type") == "atomic":
        return WHOLE
    if schema.get("properties") or isinstance(schema.get("additionalProperties"), dict):
        return FIELDS
    return ANY if type_ in {"", "object"} and not words.get("x-kubernetes-int-or-string") else WHOLE


ANYTHING = Shape({}, Definitions({}, ""))


def shape_of(definitions: Definitions, definition: str) -> Shape:
    """The shape of a built-in kind."""
    return Shape(definitions.schemas.get(definition, {}), definitions)


def custom_shape(definitions: Definitions, schema: Schema, metadata: str) -> Shape:
    """The shape of a custom kind; `metadata` is the definition of its metadata."""
    properties = {**(schema.get("properties") or {}), "metadata": {"$ref": f"#/$defs/{metadata}"}}
    for word in ("apiVersion", "kind"):
        properties.setdefault(word, {"type": "string"})
    return Shape({**schema, "type": "object", "properties": properties}, definitions)
