"""The slow path of decoding: reads bodies that `structs` refuses, and explains what is wrong with them.

It cleans a value by its definition, lists every field that is not in the definition, and reports wrong values
with kube-apiserver's messages. For every body that the fast path accepts, both give the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from fathom.kube.definitions import scalars
from fathom.kube.definitions.definitions import (
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITY,
    TIME,
    Definitions,
    Schema,
    dropped_when_empty,
    ref_of,
    type_of,
)
from fathom.kube.definitions.parse import join
from fathom.model.objects import Obj

_APIEXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_PROPS: Final = {"$ref": f"#/$defs/{_APIEXTENSIONS}JSONSchemaProps"}
_STRING: Final[Schema] = {"type": "string"}
# Definitions without a type -> what they may be besides a JSONSchemaProps.
_ALTERNATIVES: Final[dict[str, Schema]] = {
    f"{_APIEXTENSIONS}JSONSchemaPropsOrArray": {"type": "array", "items": _PROPS},
    f"{_APIEXTENSIONS}JSONSchemaPropsOrBool": {"type": "boolean"},
    f"{_APIEXTENSIONS}JSONSchemaPropsOrStringArray": {"type": "array", "items": _STRING},
}
_GO_NAMES: Final = {QUANTITY: "resource.Quantity", INT_OR_STRING: "intstr.IntOrString"}
_GO_TYPES: Final = {"string": "string", "boolean": "bool", "number": "float64"}
# kube-apiserver's limit too.
UNKNOWN_MAX: Final = 100


class WrongField(ValueError):
    """A value does not have the type of its field."""


class FieldPlace(NamedTuple):
    """The place of a value: the Go struct around it, its path as Go prints it, and its path with indexes."""

    struct: str
    dotted: str
    exact: str

    def field(self, name: str) -> FieldPlace:
        return self._replace(dotted=join(self.dotted, name), exact=join(self.exact, name))

    def item(self, at: int) -> FieldPlace:
        return self._replace(exact=f"{self.exact}[{at}]")

    def key(self, name: str) -> FieldPlace:
        return self._replace(exact=join(self.exact, name))


def walk(definitions: Definitions, name: str, value: Any, *, at: str = "") -> tuple[Obj, list[str]]:
    """The cleaned value, and the paths of its unknown fields. Raises `WrongField`."""
    walker = _Walker(definitions)
    cleaned = walker.named(name, value, FieldPlace("", at, at))
    return cleaned, walker.unknown


class _Walker:
    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self.unknown: list[str] = []

    def value(self, schema: Schema, value: Any, place: FieldPlace) -> Any:
        if ref := ref_of(schema):
            return self.named(ref, value, place)
        kind = type_of(schema)
        if kind == "array":
            return self._array(schema, value, place)
        if kind == "object":
            return self._map(schema, value, place)
        return _scalar(schema, value, place)

    def named(self, name: str, value: Any, place: FieldPlace) -> Any:
        if name in _SCALARS:
            return _or_wrong_field(_SCALARS[name], value)
        schema = self._definitions[name]
        if schema.get("properties"):
            return self._struct(name, schema, value, place)
        if name in _ALTERNATIVES and not isinstance(value, dict):
            return self.value(_ALTERNATIVES[name], value, place)
        return self.value(_PROPS if name in _ALTERNATIVES else schema, value, place)

    def _struct(self, name: str, schema: Schema, value: Any, place: FieldPlace) -> Obj:
        if not isinstance(value, dict):
            raise _mismatch(value, go_name(name), place)
        properties = schema["properties"]
        inside = place._replace(struct=name.rpartition(".")[2])
        cleaned = {}
        for field, inner in value.items():
            if field not in properties:
                self._note_unknown(inside.key(field))
            elif inner is not None:
                read = self.value(properties[field], inner, inside.field(field))
                if read or not dropped_when_empty(schema, field):
                    cleaned[field] = read
        return cleaned

    def _note_unknown(self, place: FieldPlace) -> None:
        if len(self.unknown) < UNKNOWN_MAX:
            self.unknown.append(place.exact)

    def _array(self, schema: Schema, value: Any, place: FieldPlace) -> list[Any]:
        if not isinstance(value, list):
            raise _mismatch(value, self.go_type(schema), place)
        items = schema["items"]
        return [
            self.zero(items) if item is None else self.value(items, item, place.item(at))
            for at, item in enumerate(value)
        ]

    def _map(self, schema: Schema, value: Any, place: FieldPlace) -> Obj:
        if not isinstance(value, dict):
            raise _mismatch(value, self.go_type(schema), place)
        values = schema.get("additionalProperties")
        if not values:
            return {name: _free(item) for name, item in value.items()}
        return {
            name: self.zero(values) if item is None else self.value(values, item, place.key(name))
            for name, item in value.items()
        }

    def zero(self, schema: Schema) -> Any:
        """The meaning of a null in a list or a map: Go's zero value."""
        ref = ref_of(schema)
        if ref == QUANTITY:
            return "0"
        kind = type_of(self._definitions.resolve(schema))
        zeros: dict[str, Any] = {"string": "", "integer": 0, "boolean": False, "array": [], "object": {}}
        return zeros.get(kind)

    def go_type(self, schema: Schema) -> str:
        if ref := ref_of(schema):
            return go_name(ref)
        kind = type_of(schema)
        if kind == "array":
            return f"[]{self.go_type(schema['items'])}"
        if kind == "object":
            return f"map[string]{self.go_type(schema.get('additionalProperties') or {})}"
        return _go_scalar(schema)


def go_name(name: str) -> str:
    """'v1.Container' for io.k8s.api.core.v1.Container."""
    return _GO_NAMES.get(name) or ".".join(name.split(".")[-2:])


def _go_scalar(schema: Schema) -> str:
    if schema.get("format") == "byte":
        return "[]uint8"
    kind = type_of(schema)
    if kind == "integer":
        return str(schema.get("format", "int64"))
    return _GO_TYPES.get(kind, "interface {}")


def _scalar(schema: Schema, value: Any, place: FieldPlace) -> Any:
    kind = type_of(schema)
    if kind == "string" and schema.get("format") == "byte":
        return _or_wrong_field(scalars.blob, value)
    if kind == "string" and isinstance(value, str):
        return value
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "integer" and type(value) is int and _fits(value, schema):
        return value
    if kind == "number" and type(value) in {int, float}:
        return _free(value)
    if not kind:
        return _free(value)
    raise _mismatch(value, _go_scalar(schema), place)


def _fits(value: int, schema: Schema) -> bool:
    limit = 2**31 if schema.get("format") == "int32" else 2**63
    return -limit <= value < limit


def _mismatch(value: Any, expected: str, place: FieldPlace) -> WrongField:
    json_type = scalars.json_kind(value)
    if json_type == "number" and expected.startswith("int"):
        json_type = f"number {value}"
    into = f"Go struct field {place.struct}.{place.dotted}" if place.struct else "Go value"
    return WrongField(f"json: cannot unmarshal {json_type} into {into} of type {expected}")


def _int_or_string(value: Any) -> Any:
    if isinstance(value, str) or (type(value) is int and -(2**31) <= value < 2**31):
        return value
    json_type = scalars.json_kind(value)
    shown = f"number {value}" if json_type == "number" else json_type
    raise ValueError(f"json: cannot unmarshal {shown} into Go value of type int32")


def _free(value: Any) -> Any:
    """A copy: the argument may be shared, the result belongs to the request."""
    return msgspec.to_builtins(_or_wrong_field(scalars.free, value))


def _or_wrong_field(normalise: Callable[[Any], Any], value: Any) -> Any:
    try:
        return normalise(value)
    except ValueError as error:
        raise WrongField(str(error)) from None


_SCALARS: Final[dict[str, Callable[[Any], Any]]] = {
    QUANTITY: scalars.quantity,
    TIME: scalars.time,
    MICRO_TIME: scalars.micro_time,
    INT_OR_STRING: _int_or_string,
}
