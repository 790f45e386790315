"""The schema for strategic merge: which lists of a kind merge, and by which key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

# Of our definitions, and of OpenAPI documents.
_REFS = ("#/$defs/", "#/components/schemas/")


class PatchSchema(Protocol):
    """How one field merges. For a list, `field` looks into its items."""

    @property
    def merge_key(self) -> str:
        """The field that identifies an item of the list; '' for lists of plain values and other fields."""
        ...

    @property
    def strategy(self) -> str:
        """'merge', 'replace', or '' for the default: objects merge, lists are replaced."""
        ...

    @property
    def retains_keys(self) -> bool:
        """Whether a client that changes the object removes the fields that it does not name."""
        ...

    def field(self, name: str) -> PatchSchema | None: ...


class DefinitionSchema:
    """A PatchSchema over definitions as Kubernetes publishes them (`x-kubernetes-patch-merge-key`,
    `x-kubernetes-patch-strategy`, `$ref`). Fields are looked up on demand: definitions are cyclic."""

    __slots__ = ("_definitions", "_fields", "_inside", "merge_key", "retains_keys", "strategy")

    def __init__(self, definitions: Mapping[str, Mapping[str, Any]], node: Mapping[str, Any]) -> None:
        self.merge_key: str = node.get("x-kubernetes-patch-merge-key", "")
        strategies = node.get("x-kubernetes-patch-strategy", "").split(",")
        self.strategy: str = next((word for word in strategies if word in {"merge", "replace"}), "")
        self.retains_keys: bool = "retainKeys" in strategies
        self._definitions = definitions
        self._inside = self._resolve(node)
        self._fields: dict[str, DefinitionSchema | None] = {}  # A cache of lookups in the definitions.

    def field(self, name: str) -> DefinitionSchema | None:
        if name in self._fields:
            return self._fields[name]
        properties = self._inside.get("properties", {})
        if name in properties:
            self._fields[name] = schema = DefinitionSchema(self._definitions, properties[name])
            return schema
        # Users choose the keys of a map, so they are not cached.
        values = self._inside.get("additionalProperties")
        return DefinitionSchema(self._definitions, values) if isinstance(values, dict) else None

    def _resolve(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema that has the properties: behind references, and inside a list."""
        while True:
            if "$ref" in node:
                node = self._definitions.get(_name_of(node["$ref"]), {})
            elif len(node.get("allOf", ())) == 1:  # OpenAPI 3: a reference with other fields beside it.
                node = node["allOf"][0]
            elif isinstance(node.get("items"), dict):
                node = node["items"]
            else:
                return node


def _name_of(reference: str) -> str:
    for prefix in _REFS:
        reference = reference.removeprefix(prefix)
    return reference


def patch_schema(definitions: Mapping[str, Mapping[str, Any]], name: str) -> DefinitionSchema | None:
    """The schema of a named definition; None if there is none. Keep it: it caches its fields."""
    node = definitions.get(name)
    return None if node is None else DefinitionSchema(definitions, node)
