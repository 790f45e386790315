"""Applies a structural schema to custom resources: prunes unknown fields, fills in defaults, validates.

`Structural` is compiled once per schema. Pruning and defaulting change the object in place, so it must belong
to the caller.
"""

from __future__ import annotations

from typing import Any, Final

from fathom.kube.definitions import schema_checks
from fathom.kube.definitions.definitions import Schema
from fathom.kube.definitions.parse import join
from fathom.model.body import decode_json, encode_json
from fathom.model.errors import Cause, too_large
from fathom.model.objects import Obj

# As much as a body may have.
DEFAULTS_BYTES_MAX: Final = 3 * 1024 * 1024
DEFAULT_VALUES_MAX: Final = 100_000
UNKNOWN_MAX: Final = 100  # So many unknown fields are reported, as in kube-apiserver.

# Every object has these; schemas need not mention them.
META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


class Node:
    """One level of a schema. `None` for a level below means that the schema does not describe it."""

    __slots__ = (
        "additional",
        "alternatives",
        "any_field",
        "checks",
        "default",
        "default_json",
        "default_values",
        "defaulted",
        "embedded",
        "has_default",
        "items",
        "nullable",
        "preserve",
        "properties",
        "reads_all",
        "steps",
    )

    def __init__(self, schema: Schema) -> None:
        self.properties = {name: Node(inner) for name, inner in (schema.get("properties") or {}).items()}
        self.items = _node(schema.get("items"))
        additional = schema.get("additionalProperties")
        self.additional = _node(additional)
        self.any_field = additional is not None and additional is not False
        self.preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self.nullable = bool(schema.get("nullable"))
        self.has_default = "default" in schema
        self.default = schema.get("default")
        self.default_json = encode_json(self.default) if self.has_default else b""
        self.default_values = _values(self.default)
        # Fields to fill in: an item of a list is small, and its schema may describe thousands of fields.
        self.defaulted = {name: inner for name, inner in self.properties.items() if inner.has_default}
        self.checks = schema_checks.compile_checks(schema)
        self.alternatives = schema_checks.compile_alternatives(schema)
        self.steps = schema_checks.steps_of(schema)
        self.reads_all = schema_checks.reads_whole_value(schema)


def _node(schema: Any) -> Node | None:
    return Node(schema) if isinstance(schema, dict) else None


def _values(value: Any) -> int:
    """The value itself, and those inside it."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_values, inside))


class Structural:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._root = Node(schema)

    def prune(self, obj: Obj) -> list[str]:
        """Remove fields that are not in the schema; returns their paths."""
        removed: list[str] = []
        _prune(obj, self._root, "", removed, root=True)
        return removed

    def default(self, obj: Obj) -> None:
        """Set what is not set and has a default, and remove nulls of fields that cannot be null, as
        kube-apiserver does. Raises ApiError 413 where defaults would make the object larger than any request
        may be: users choose both the default and the number of list items that get it."""
        _Defaults().fill(obj, self._root)

    def causes(self, obj: Obj) -> list[Cause]:
        """The schema errors of an object."""
        return schema_checks.causes(self._root, obj, "")


def _prune(value: Any, node: Node | None, path: str, removed: list[str], *, root: bool = False) -> None:
    if isinstance(value, dict):
        for name in list(value):
            _prune_field(value, name, node, path, removed, root=root)
    elif isinstance(value, list):
        inner = None if node is None else node.items
        if inner is None and node is not None and node.preserve:
            return
        for at, item in enumerate(value):
            _prune(item, inner, f"{path}[{at}]", removed)


def _prune_field(
    value: Obj, name: str, node: Node | None, path: str, removed: list[str], *, root: bool
) -> None:
    field_path = join(path, name)
    if (root or (node is not None and node.embedded)) and name in META_FIELDS:
        return
    if node is not None and name in node.properties:
        _prune(value[name], node.properties[name], field_path, removed)
    elif node is not None and node.any_field:
        _prune(value[name], node.additional, field_path, removed)
    elif node is None or not node.preserve:
        if len(removed) < UNKNOWN_MAX:
            removed.append(field_path)
        del value[name]


def _drop_nulls(value: Obj, node: Node) -> None:
    """A null of a field that cannot be null, and that has no default, means that the field is not set."""
    for name in [name for name, field_value in value.items() if field_value is None]:
        inner = node.properties.get(name, node.additional)
        if inner is not None and not inner.nullable:
            del value[name]


class _Defaults:
    """One object being defaulted, and how many bytes and values may still be added to it."""

    def __init__(self) -> None:
        self._bytes_left = DEFAULTS_BYTES_MAX
        self._values_left = DEFAULT_VALUES_MAX

    def fill(self, value: Any, node: Node | None) -> None:
        if node is None:
            return
        if isinstance(value, list):
            for item in value:
                self.fill(item, node.items)
        elif isinstance(value, dict):
            for name, inner in node.defaulted.items():
                if name not in value or (value[name] is None and not inner.nullable):
                    value[name] = self._copy(name, inner)
            if None in value.values():
                _drop_nulls(value, node)
            for name, field_value in value.items():
                self.fill(field_value, node.properties.get(name, node.additional))

    def _copy(self, name: str, node: Node) -> Any:
        self._bytes_left -= len(name) + len(node.default_json)
        self._values_left -= node.default_values
        if self._bytes_left < 0 or self._values_left < 0:
            raise too_large(DEFAULTS_BYTES_MAX)
        # Several times faster than `deepcopy`.
        return decode_json(node.default_json) if isinstance(node.default, dict | list) else node.default
