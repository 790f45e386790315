"""msgspec Structs made from definitions: the fast path, in C, which checks that a body fits its kind.

A Struct here is only a filter between bytes and a plain dictionary; none is kept. It refuses unknown fields
and wrong types, drops nulls and empty fields, and puts quantities and times in their canonical form. Bodies
that it refuses are read again by `walk`, which is slow and explains the error.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import Annotated, Any, Final

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
    refs_in,
    type_of,
)

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class _Marking(type):
    """Plain JSON values count as instances: msgspec checks the result of `normalise`."""

    plain: tuple[type, ...]

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.plain)


def _mark(name: str, *plain: type) -> type:
    """A type that msgspec does not know, so that it calls `normalise`; its values stay plain JSON."""
    marked = _Marking(name, (), {})
    marked.plain = plain
    return marked


Quantity: Final = _mark("Quantity", str)
Time: Final = _mark("Time", str)
MicroTime: Final = _mark("MicroTime", str)
Free: Final = _mark("Free", dict, list, str, int, float, bool, type(None))  # Any JSON value.

_NORMALISE: Final[dict[type, Callable[[Any], Any]]] = {
    Quantity: scalars.quantity,
    Time: scalars.time,
    MicroTime: scalars.micro_time,
    Free: scalars.free,
}

_INT32 = Annotated[int, msgspec.Meta(ge=-INT32_MAX - 1, le=INT32_MAX)]
_INT64 = Annotated[int, msgspec.Meta(ge=-INT64_MAX - 1, le=INT64_MAX)]
_BY_NAME: Final[dict[str, Any]] = {
    QUANTITY: Quantity,
    TIME: Time,
    MICRO_TIME: MicroTime,
    INT_OR_STRING: _INT32 | str,
}
_BY_TYPE: Final[dict[tuple[str, str], Any]] = {
    ("string", ""): str,
    ("string", "byte"): bytes,
    ("boolean", ""): bool,
    ("integer", "int32"): _INT32,
    ("integer", "int64"): _INT64,
    ("integer", ""): _INT64,
    ("number", "double"): float,
}
# The first fields of every object, in the order in which `canonical` stores them.
_FIRST: Final[tuple[str, ...]] = ("kind", "apiVersion", "metadata")


def normalise(mark: type, value: Any) -> Any:
    """msgspec's `dec_hook`. A ValueError becomes its ValidationError."""
    return _NORMALISE[mark](value)


class Structs:
    """Struct types by definition name, each made when it is first needed."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._types: dict[str, Any] = {}

    def of(self, name: str) -> Any:
        """The type of a definition. A definition inside itself is not checked here."""
        if name not in self._types:
            self._types[name] = Free  # Used where a definition contains itself.
            self._types[name] = self._make(name)
        return self._types[name]

    def recursive(self, name: str) -> bool:
        """Whether a definition, or anything in it, contains itself: then a Struct checks too little."""
        return _has_cycle(self._definitions, name, ())

    def _make(self, name: str) -> Any:
        if name in _BY_NAME:
            return _BY_NAME[name]
        schema = self._definitions[name]
        if not schema.get("properties"):
            return self._type(schema)
        return self._struct(name, schema)

    def _struct(self, name: str, schema: Schema) -> type[msgspec.Struct]:
        properties = schema["properties"]
        ordered = [field for field in _FIRST if field in properties]
        ordered += [field for field in properties if field not in _FIRST]
        safe = {field: _attribute(field) for field in ordered}
        return msgspec.defstruct(
            name.rpartition(".")[2],
            [(safe[field], *self._field(schema, field)) for field in ordered],
            rename={attribute: field for field, attribute in safe.items() if attribute != field},
            forbid_unknown_fields=True,
            omit_defaults=True,
            gc=False,  # A tree by construction: nothing to collect.
        )

    def _field(self, schema: Schema, field: str) -> tuple[Any, Any]:
        """A field's type, and its default: the value that is dropped from the result."""
        kind = self._type(schema["properties"][field])
        empty = dropped_when_empty(schema, field)
        # A null in place of a collection is left to `walk`: msgspec would keep it.
        return (kind, msgspec.field(default_factory=empty)) if empty else (kind | None, None)

    def _type(self, schema: Schema) -> Any:
        if ref := ref_of(schema):
            return self.of(ref)
        kind = type_of(schema)
        if kind == "array":
            return _generic(list, self._type(schema["items"]))
        if kind == "object":
            inner = schema.get("additionalProperties")
            return _generic(dict, str, self._type(inner) if inner else Free)
        return _BY_TYPE.get((kind, schema.get("format", "")), Free)


def _generic(around: Any, *inside: Any) -> Any:
    """`list[X]` of a type made at run time."""
    return around[inside if len(inside) > 1 else inside[0]]


def _attribute(field: str) -> str:
    if field.isidentifier() and not keyword.iskeyword(field):
        return field
    return "field_" + "".join(char if char.isalnum() else "_" for char in field)


def _has_cycle(definitions: Definitions, name: str, above: tuple[str, ...]) -> bool:
    if name in above:
        return True
    return any(_has_cycle(definitions, ref, (*above, name)) for ref in refs_in(definitions[name]))
