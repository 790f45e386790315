"""Checks that a CustomResourceDefinition's schema is structural, with kube-apiserver's messages.

A structural schema gives the type of every field it mentions, so that unknown fields can be pruned and absent
ones defaulted without guessing. Inside `allOf`, `anyOf`, `oneOf` and `not` it only restricts values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fathom.kube.definitions import schema_checks, schema_formats
from fathom.kube.definitions.definitions import Schema
from fathom.kube.definitions.parse import PATH_CHARS_MAX
from fathom.kube.definitions.structural import META_FIELDS, Node
from fathom.model import causes
from fathom.model.errors import Cause

ROOT, ITEM, FIELD = "at the root", "for specified array items", "for specified object fields"
TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf")
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
# Each is compiled when the schema is checked, and again when it is first used.
PATTERNS_MAX: Final = 5_000
# Not allowed where a schema only restricts values: keyword -> what it must be.
_NOT_NESTED: Final = {
    "type": "empty",
    "additionalProperties": "undefined",
    "default": "undefined",
    "title": "empty",
    "description": "empty",
    "nullable": "false",
    "x-kubernetes-preserve-unknown-fields": "false",
    "x-kubernetes-embedded-resource": "false",
    "x-kubernetes-int-or-string": "false",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined",
    "x-kubernetes-validations": "empty",
}


def schema_causes(schema: Schema, path: str) -> Iterator[Cause]:
    """The errors in the root schema of a version, one by one: a caller may stop after some of them."""
    patterns = sum("pattern" in level for _, level in levels(schema, path))
    if patterns > PATTERNS_MAX:
        yield causes.too_many(f"{path}.pattern", patterns, PATTERNS_MAX)
        return
    structured = True
    for cause in _structure_causes(schema, path):
        structured = False
        yield cause
    if structured:
        yield from _defaults(schema, path)


def _structure_causes(schema: Schema, path: str) -> Iterator[Cause]:
    if schema.get("nullable"):
        yield causes.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    for at, level in levels(schema, path):
        yield from _anywhere(level, at)
    yield from _structural(schema, path, ROOT)


def _property(path: str, name: str) -> str:
    """Every nested schema gets a path: its length is limited however long names are."""
    joined = f"{path}.properties[{name}]"
    return joined if len(joined) <= PATH_CHARS_MAX else f"{joined[:PATH_CHARS_MAX]}..."


def levels(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Every schema in a schema, itself first, with its path."""
    yield path, schema
    for name, inner in (schema.get("properties") or {}).items():
        yield from levels(inner, _property(path, name))
    for word in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(word), dict):
            yield from levels(schema[word], f"{path}.{word}")
    for word in _JUNCTORS:
        for at, inner in enumerate(schema.get(word) or ()):
            yield from levels(inner, f"{path}.{word}[{at}]")


def _anywhere(schema: Schema, path: str) -> Iterator[Cause]:
    """Rules for every level."""
    kind = schema.get("type")
    if kind == "null":
        yield causes.forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    elif kind and kind not in TYPES:
        yield causes.not_supported(f"{path}.type", kind, TYPES)
    for word in _UNSUPPORTED:
        if schema.get(word):
            yield causes.forbidden(f"{path}.{word}", f"{word} is not supported")
    if isinstance(schema.get("items"), list):
        yield causes.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield causes.forbidden(f"{path}.uniqueItems", why)
    additional = schema.get("additionalProperties")
    if schema.get("properties") and additional is not None and additional is not True:
        why = "additionalProperties and properties are mutual exclusive"
        yield causes.forbidden(f"{path}.additionalProperties", why)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        field = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield causes.invalid(field, False, "must be true or undefined")
    yield from _pattern(schema, path)
    yield from _list_type(schema, path)
    yield from _map_type(schema, path)


def _pattern(schema: Schema, path: str) -> Iterator[Cause]:
    pattern = schema.get("pattern")
    if not pattern:
        return
    try:
        schema_formats.compile_pattern(pattern)
    except ValueError as error:
        why = f"must be a valid regular expression, but isn't: {' '.join(str(error).split())}"
        yield causes.invalid(f"{path}.pattern", pattern, why)


def _list_type(schema: Schema, path: str) -> Iterator[Cause]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if keys and kind != "map":
        field, why = (
            f"{path}.x-kubernetes-list-type",
            "must be map if x-kubernetes-list-map-keys is non-empty",
        )
        yield causes.invalid(field, kind, why) if kind else causes.required(field, why)
    if not kind:
        return
    if kind not in {"atomic", "map", "set"}:
        yield causes.not_supported(f"{path}.x-kubernetes-list-type", kind, ("atomic", "set", "map"))
    yield from _typed(schema, path, "array", "x-kubernetes-list-type is specified")
    if kind == "map":
        yield from _list_map(schema, path, keys or [])


def _list_map(schema: Schema, path: str, keys: list[str]) -> Iterator[Cause]:
    if not keys:
        field = f"{path}.x-kubernetes-list-map-keys"
        yield causes.required(field, "must not be empty if x-kubernetes-list-type is map")
    items = schema.get("items")
    if not isinstance(items, dict):
        yield causes.required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        yield causes.invalid(
            f"{path}.items.type",
            items.get("type"),
            "must be object if parent array's x-kubernetes-list-type is map",
        )
    required = set(items.get("required") or ())
    for at, key in enumerate(keys):
        prop = (items.get("properties") or {}).get(key)
        if prop is None:
            field = f"{path}.x-kubernetes-list-map-keys[{at}]"
            yield causes.invalid(field, key, "entries must all be names of item properties")
        elif key not in required and prop.get("default") is None:
            field = f"{path}.items.properties[{key}].default"
            why = "so it must have a default or be a required property"
            yield causes.required(field, f"this property is in x-kubernetes-list-map-keys, {why}")


def _map_type(schema: Schema, path: str) -> Iterator[Cause]:
    kind = schema.get("x-kubernetes-map-type")
    if not kind:
        return
    if kind not in {"atomic", "granular"}:
        yield causes.not_supported(f"{path}.x-kubernetes-map-type", kind, ("atomic", "granular"))
    yield from _typed(schema, path, "object", "x-kubernetes-map-type is specified")


def _typed(schema: Schema, path: str, wanted: str, where: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if kind != wanted:
        field, why = f"{path}.type", f"must be {wanted} if {where}"
        yield causes.invalid(field, kind, why) if kind else causes.required(field, why)


def _structural(schema: Schema, path: str, where: str) -> Iterator[Cause]:
    """Rules of structure, for every level that describes fields."""
    yield from _own_structure(schema, path, where)
    yield from _embedded(schema, path, where)
    if isinstance(schema.get("items"), dict):
        yield from _structural(schema["items"], f"{path}.items", ITEM)
    for name, inner in (schema.get("properties") or {}).items():
        yield from _structural(inner, _property(path, name), FIELD)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _structural(schema["additionalProperties"], f"{path}.additionalProperties", FIELD)
    for at, word, inner in _value_rules(schema):
        yield from _nested(inner, f"{path}.{word}{at}")


def _own_structure(schema: Schema, path: str, where: str) -> Iterator[Cause]:
    kind, either = schema.get("type"), schema.get("x-kubernetes-int-or-string")
    preserve = schema.get("x-kubernetes-preserve-unknown-fields")
    if kind == "array" and schema.get("items") is None:
        yield causes.required(f"{path}.items", "must be specified")
    if where == ROOT and schema.get("additionalProperties") is not None:
        yield causes.forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if schema.get("x-kubernetes-embedded-resource"):
        yield from _typed(schema, path, "object", "x-kubernetes-embedded-resource is true")
    elif not kind and not either and not preserve:
        yield causes.required(f"{path}.type", f"must not be empty {where}")
    if where == ROOT and kind and kind != "object":
        yield causes.invalid(f"{path}.type", kind, "must be object at the root")
    if either and preserve:
        field = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield causes.invalid(field, True, "must be false if x-kubernetes-int-or-string is true")


def _embedded(schema: Schema, path: str, where: str) -> Iterator[Cause]:
    """Rules about apiVersion, kind and metadata in the schema of an object."""
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    properties = schema.get("properties") or {}
    if embedded and not properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
        why = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield causes.required(f"{path}.properties", why)
    if where != ROOT and not embedded:
        return
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            yield causes.invalid(
                f"{path}.properties[{name}].type", properties[name].get("type"), "must be string"
            )
    if "metadata" not in properties:
        return
    meta, at = properties["metadata"], f"{path}.properties[metadata]"
    if meta.get("type") != "object":
        yield causes.invalid(f"{at}.type", meta.get("type"), "must be object")
    extra = [word for word in meta if word not in {"type", "properties", "description", "default"}]
    inside = [name for name in meta.get("properties") or () if name not in {"name", "generateName"}]
    if where == ROOT and (extra or inside):
        why = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield causes.forbidden(at, why)


def _value_rules(schema: Schema) -> Iterator[tuple[str, str, Schema]]:
    """(index, keyword, schema) of parts that only restrict values; the idiom for int-or-string is allowed."""
    for word in _JUNCTORS:
        inner = schema.get(word) or []
        if word == "anyOf" and inner == _INT_OR_STRING:
            continue
        for at, alternative in enumerate(inner):
            if word == "allOf" and at == 0 and alternative.get("anyOf") == _INT_OR_STRING:
                alternative = {key: value for key, value in alternative.items() if key != "anyOf"}  # noqa: PLW2901 - without the idiom
            yield f"[{at}]", word, alternative
    if isinstance(schema.get("not"), dict):
        yield "", "not", schema["not"]


def _nested(schema: Schema, path: str) -> Iterator[Cause]:
    for word, demanded in _NOT_NESTED.items():
        if schema.get(word):
            yield causes.forbidden(f"{path}.{word}", f"must be {demanded} to be structural")
    if "metadata" in (schema.get("properties") or {}):
        yield causes.forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _nested(inner, _property(path, name))
    for at, word, inner in _value_rules(schema):
        yield from _nested(inner, f"{path}.{word}{at}")


def _defaults(schema: Schema, path: str) -> list[Cause]:
    """Defaults must be valid themselves, and are not allowed for apiVersion, kind and metadata."""
    errors: list[Cause] = []
    for name in sorted(META_FIELDS & set(schema.get("properties") or ())):
        for at, level in levels(schema["properties"][name], _property(path, name)):
            if "default" in level:
                errors.append(causes.forbidden(f"{at}.default", f"must not be set in top-level {name}"))
    if not any("default" in level for _, level in levels(schema, path)):
        return errors  # Compiling takes longer than everything else, and most schemas have none.
    steps = schema_checks.Steps()
    for at, node in _nodes(Node(schema), path):
        if node.has_default:
            errors += schema_checks.causes(node, node.default, f"{at}.default", steps)
    return errors


def _nodes(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    """Every level of a compiled schema, itself first, with its path. Alternatives have no defaults."""
    yield path, node
    for name, inner in node.properties.items():
        yield from _nodes(inner, _property(path, name))
    for word, below in (("items", node.items), ("additionalProperties", node.additional)):
        if below is not None:
            yield from _nodes(below, f"{path}.{word}")
