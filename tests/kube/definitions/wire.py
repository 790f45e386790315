"""Protobuf, written a second time: by hand, with numbers from whoever writes a test; and whole objects, with
the numbers of fathom's table."""

from __future__ import annotations

import base64
import json
import math
import struct
from datetime import datetime
from typing import Any

from fathom.kube.definitions.definitions import (
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITY,
    TIME,
    Definitions,
    Schema,
    ref_of,
    type_of,
)

MEDIA = "application/vnd.kubernetes.protobuf"
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

Value = int | str | bytes | float


def varint(value: int) -> bytes:
    value &= 2**64 - 1  # Negative numbers travel as their 64-bit complement.
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def field(number: int, value: Value) -> bytes:
    """One field: integers as varints, floats as doubles, text and messages with their length."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def message(*fields: tuple[int, Value]) -> bytes:
    return b"".join(field(number, value) for number, value in fields)


def at(value: Value, *numbers: int) -> bytes:
    """A value in a field of a message in a field of a message ..."""
    for number in reversed(numbers):
        value = field(number, value)
    assert isinstance(value, bytes)
    return value


def entry(key: str, value: Value) -> bytes:
    """One entry of a map."""
    return message((1, key), (2, value))


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    head = message((1, api_version), (2, kind))
    return b"k8s\x00" + message((1, head), (2, raw), (3, ""), (4, ""))


def go_meta(name: str, *more: tuple[int, Value]) -> bytes:
    """ObjectMeta as Go writes it: what is no pointer is always there."""
    return message((1, name), (2, ""), (3, ""), (4, ""), (5, ""), (6, ""), (7, 0), (8, b""), *more)


class Writer:
    """Objects by their definitions and a table of names; only what an object has is written."""

    def __init__(self, definitions: Definitions, table: dict[str, str]) -> None:
        self._definitions = definitions
        self._table = table

    def message(self, name: str, obj: dict[str, Any]) -> bytes:
        return self._message(name, self._definitions[name], obj)

    def _message(self, name: str, schema: Schema, obj: dict[str, Any]) -> bytes:
        written = b""
        for number, word in enumerate(self._table.get(name, "").split(), 1):
            if word.startswith("*"):
                inner = f"{name.rpartition('.')[0]}.{word[1:]}"
                written += field(number, self._message(inner, schema, obj))
            elif word.removesuffix("?") in obj:
                inside = schema["properties"][word.removesuffix("?")]
                written += self._field(number, inside, obj[word.removesuffix("?")])
        return written

    def _field(self, number: int, schema: Schema, value: Any) -> bytes:
        kind = type_of(schema)
        if kind == "array":
            return b"".join(field(number, self._value(schema["items"], item)) for item in value)
        if kind == "object":
            inside = schema["additionalProperties"]
            return b"".join(field(number, entry(k, self._value(inside, v))) for k, v in value.items())
        return field(number, self._value(schema, value))

    def _value(self, schema: Schema, value: Any) -> Value:
        name = ref_of(schema)
        if name:
            return self._odd(name, value) if name in ODD else self.message(name, value)
        if type_of(schema) == "array":
            return message(*((1, item) for item in value))
        if schema.get("format") == "byte":
            return base64.b64decode(value)
        if type_of(schema) == "number":
            return float(value)
        plain: Value = value
        return plain

    def _odd(self, name: str, value: Any) -> bytes:
        if name in {TIME, MICRO_TIME}:
            moment = datetime.fromisoformat(value)
            return message((1, math.floor(moment.timestamp())), (2, moment.microsecond * 1000))
        if name == QUANTITY:
            return message((1, value))
        if name == INT_OR_STRING:
            number = value if isinstance(value, int) else 0
            return message((1, value != number), (2, number), (3, "" if value == number else value))
        props = f"{EXTENSIONS}JSONSchemaProps"
        if name == f"{props}OrArray":
            return message(*((2, self.message(props, one)) for one in value))
        if name == f"{props}OrBool":
            return message((1, value))
        if name == f"{props}OrStringArray":
            return message(*((2, one) for one in value))
        return message((1, json.dumps(value)))


# Messages that are one value in JSON, each with such a value.
ODD: dict[str, Any] = {
    TIME: "2024-02-29T12:00:01Z",
    MICRO_TIME: "1969-12-31T23:59:58.123456Z",
    QUANTITY: "1500m",
    INT_OR_STRING: "25%",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": {"f:spec": {}},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"a": [1, None, "x"]},
    f"{EXTENSIONS}JSON": {"free": 1.5},
    f"{EXTENSIONS}JSONSchemaPropsOrArray": [{"type": "string"}, {"nullable": True}],
    f"{EXTENSIONS}JSONSchemaPropsOrBool": True,
    f"{EXTENSIONS}JSONSchemaPropsOrStringArray": ["a", ""],
}
_SAMPLES = {"string": "x", "boolean": True, "integer": -7, "number": 0.5}


def sample(definitions: Definitions, schema: Schema, above: tuple[str, ...] = ()) -> Any:
    """A value with every field that a definition has, each different from Go's zero."""
    name = ref_of(schema)
    if name in ODD:
        return ODD[name]
    schema = definitions.resolve(schema)
    kind = type_of(schema)
    if kind == "array":
        return [sample(definitions, schema["items"], above)]
    if schema.get("additionalProperties"):
        return {"key": sample(definitions, schema["additionalProperties"], above)}
    if kind in _SAMPLES:
        return "AAH/" if schema.get("format") == "byte" else _SAMPLES[kind]
    if name in above:  # A definition that contains itself.
        return {}
    # What a whole object is called does not travel inside of it.
    left_out = ("kind", "apiVersion") if "x-kubernetes-group-version-kind" in schema else ()
    return {
        field: sample(definitions, inside, (*above, name))
        for field, inside in schema.get("properties", {}).items()
        if field not in left_out
    }
