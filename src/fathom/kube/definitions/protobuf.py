"""Kubernetes' protobuf, read into the JSON object that the same client would have sent as JSON.

    k8s\\0 ──▶ Unknown {apiVersion, kind, raw} ──▶ raw, by the kind's message ──▶ dict ──▶ as any other body

Only reading: Go's typed clients send it whether or not a server supports it, but accept JSON as an answer.
The wire format has numbers where JSON has names; `protobuf.toml` has the names. A field's type comes from the
definitions, as for JSON bodies.

Go writes every field that is no pointer, even if empty, where its JSON omits empty fields. So a zero is
dropped here, unless the field is required or the table says that a zero is significant. Numbers that are not
in the table come from a newer client, and are skipped.
"""

from __future__ import annotations

import base64
import struct
import tomllib
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from fathom.kube.definitions.definitions import Definitions, Schema, ref_of, type_of
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.parse import MalformedBody
from fathom.kube.definitions.protobuf_forms import ENVELOPE, FORMS
from fathom.model.objects import Obj

MAGIC: Final = b"k8s\x00"
# Nested messages. Only a CRD's schema nests without limit; a level takes five of Python's 1,000 frames.
DEPTH_MAX: Final = 100
# About half a second, which blocks all other requests. A CRD of a megabyte has two thirds of it: Go writes
# some twenty fields for each property of its schema.
FIELDS_MAX: Final = 300_000

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_ONE, _MANY, _MAP = "one", "many", "map"


class _Type(NamedTuple):
    wire: int
    read: Callable[[_Reading, Any], Any]


class _Field(NamedTuple):
    name: str
    type: _Type
    shape: str = _ONE
    zero: bool = True  # A zero is part of the object.
    embedded: dict[int, _Field] | None = None  # Fields that JSON has at the level of the outer message.


class Messages:
    """The fields of each message by number; built on first use."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._fields: dict[str, dict[int, _Field]] = {}

    def read(self, kind: Kind, raw: bytes) -> Obj:
        """The object in a body. Of an object of another kind only `kind` and `apiVersion` are returned, for
        the caller to refuse. Raises `MalformedBody`."""
        if not raw.startswith(MAGIC):
            raise MalformedBody(
                "provided data does not appear to be a protobuf message, expected prefix k8s\\x00"
            )
        reading = _Reading(self)
        envelope = reading.message(ENVELOPE, raw[len(MAGIC) :])
        head: Obj = envelope.get("typeMeta", {})
        if head.get("kind", kind.kind) != kind.kind:
            return head
        return head | reading.message(kind.definition, envelope.get("raw", b""))

    @cached_property
    def _table(self) -> dict[str, str]:
        """Message -> its line in the table. Most servers never get protobuf, so it is loaded on first use."""
        text = Path(__file__).with_name("protobuf.toml").read_text(encoding="utf-8")
        packages = tomllib.loads(text).items()
        return {
            f"{package}.{name}": words for package, messages in packages for name, words in messages.items()
        }

    def fields(self, name: str) -> dict[int, _Field]:
        if name not in self._fields:
            schema = FORMS[name].schema if name in FORMS else self._definitions[name]
            self._fields[name] = self._fields_of(name, schema)
        return self._fields[name]

    def _fields_of(self, name: str, schema: Schema) -> dict[int, _Field]:
        words = enumerate(self._table.get(name, "").split(), 1)
        numbered = ((number, self._field(word, name, schema)) for number, word in words)
        return {number: field for number, field in numbered if field is not None}

    def _field(self, word: str, message: str, schema: Schema) -> _Field | None:
        """None for a number without a field, or with one that the installed definitions lack."""
        if word.startswith("*"):
            inner = f"{message.rpartition('.')[0]}.{word[1:]}"
            return _Field(word, _RAW, embedded=self._fields_of(inner, schema))
        name = word.removesuffix("?")
        inside: Schema | None = schema.get("properties", {}).get(name)
        if inside is None:
            return None
        kind = type_of(inside)
        if kind == "array":
            return _Field(name, self._type(inside["items"]), _MANY)
        if kind == "object":
            return _Field(name, self._type(inside["additionalProperties"]), _MAP)
        meant = name != word or bool(ref_of(inside)) or name in schema.get("required", ())
        return _Field(name, self._type(inside), zero=meant)

    def _type(self, schema: Schema) -> _Type:
        name = ref_of(schema)
        if name in FORMS:
            means = FORMS[name].means
            return _Type(_BYTES, lambda reading, raw: means(reading.message(name, raw)))
        if name:
            return _Type(_BYTES, lambda reading, raw: reading.message(name, raw))
        if type_of(schema) == "array":  # A map's values cannot be lists: each is a message that holds one.
            items = {1: _Field("items", self._type(schema["items"]), _MANY)}
            return _Type(_BYTES, lambda reading, raw: reading.put_all({}, items, raw).get("items", []))
        return _SCALARS[type_of(schema), schema.get("format", "")]


class _Reading:
    """One body being read, and how many more fields and levels are allowed."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._fields_left = FIELDS_MAX
        self._depth_left = DEPTH_MAX

    def message(self, name: str, raw: bytes) -> Obj:
        return self.put_all({}, self._messages.fields(name), raw)

    def put_all(self, obj: Obj, fields: dict[int, _Field], raw: bytes) -> Obj:
        self._depth_left -= 1
        if self._depth_left < 0:
            raise MalformedBody(f"exceeded max depth of {DEPTH_MAX} messages")
        for number, wire, value in self._split(raw):
            field = fields.get(number)
            if field is not None:
                self._put(obj, field, wire, value)
        self._depth_left += 1
        return obj

    def _split(self, raw: bytes) -> Iterator[tuple[int, int, Any]]:
        """(number, wire type, value) of each field in a message."""
        at = 0
        while at < len(raw):
            self._fields_left -= 1
            if self._fields_left < 0:
                raise MalformedBody(f"more than {FIELDS_MAX} fields")
            tag, at = _varint(raw, at)
            number, wire = tag >> 3, tag & 7
            if wire == _VARINT:
                value, at = _varint(raw, at)
                yield number, wire, value
                continue
            size, at = _varint(raw, at) if wire == _BYTES else (_FIXED.get(wire, -1), at)
            if size < 0 or size > len(raw) - at:
                raise MalformedBody(f"field {number} is truncated or has an unknown wire type ({wire})")
            yield number, wire, raw[at : at + size]
            at += size

    def _put(self, obj: Obj, field: _Field, wire: int, value: Any) -> None:
        if field.shape is _MANY:
            obj.setdefault(field.name, []).extend(self._items(field, wire, value))
        elif field.shape is _MAP:
            key, inner = self._entry(field, wire, value)
            obj.setdefault(field.name, {})[key] = inner
        else:
            _expect(field.type.wire, wire, field)
            self._put_one(obj, field, value)

    def _put_one(self, obj: Obj, field: _Field, value: Any) -> None:
        if field.embedded is not None:
            self.put_all(obj, field.embedded, value)
            return
        decoded = field.type.read(self, value)
        if decoded is None or not (decoded or field.zero):
            obj.pop(field.name, None)  # Of a field that comes twice, the last counts.
        else:
            obj[field.name] = decoded

    def _items(self, field: _Field, wire: int, value: Any) -> list[Any]:
        """One value, or several packed numbers."""
        if field.type.wire != _VARINT or wire != _BYTES:
            _expect(field.type.wire, wire, field)
            return [field.type.read(self, value)]
        items, at = [], 0
        while at < len(value):
            number, at = _varint(value, at)
            items.append(field.type.read(self, number))
        return items

    def _entry(self, field: _Field, wire: int, raw: bytes) -> tuple[str, Any]:
        _expect(_BYTES, wire, field)
        parts: dict[int, Any] = {1: b"", 2: 0 if field.type.wire == _VARINT else b""}
        for number, inner, part in self._split(raw):
            if number in parts:
                _expect(field.type.wire if number == 2 else _BYTES, inner, field)
                parts[number] = part
        return _text(self, parts[1]), field.type.read(self, parts[2])


def _expect(expected: int, wire: int, field: _Field) -> None:
    if wire != expected:
        raise MalformedBody(f"wrong wire type {wire} for field {field.name}")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """A number of up to 64 bits, seven in a byte, the lowest first; and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at == len(raw):
            raise MalformedBody("the body ends inside a number")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise MalformedBody("a number is longer than 64 bits")


def _text(_: _Reading, raw: bytes) -> str:
    return raw.decode(errors="replace")  # As Go's JSON writer does.


def _signed(bits: int) -> Callable[[_Reading, int], int]:
    half = 1 << (bits - 1)
    return lambda _, value: ((value + half) & (2 * half - 1)) - half


def _double(_: _Reading, raw: bytes) -> float:
    value: float = struct.unpack("<d", raw)[0]
    # JSON has one type of number. NaN is refused later, with all other values that JSON does not have.
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


_RAW: Final = _Type(_BYTES, lambda _, raw: raw)
_SCALARS: Final[dict[tuple[str, str], _Type]] = {
    ("string", ""): _Type(_BYTES, _text),
    ("string", "byte"): _Type(_BYTES, lambda _, raw: base64.b64encode(raw).decode()),
    ("string", "raw"): _RAW,
    ("boolean", ""): _Type(_VARINT, lambda _, value: value != 0),
    ("integer", "int32"): _Type(_VARINT, _signed(32)),
    ("integer", "int64"): _Type(_VARINT, _signed(64)),
    ("integer", ""): _Type(_VARINT, _signed(64)),
    ("number", "double"): _Type(_FIXED64, _double),
}
