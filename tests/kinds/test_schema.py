"""A schema follows from a Struct's annotations."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest

from fathom.kinds.schema import (
    KEEPS_UNKNOWN_FIELDS,
    REQUIRED,
    Amounts,
    Count,
    Name,
    field_schema,
    one_of,
    schema_of,
)
from fathom.kinds.shape import Conditions, Meta, Shape, read


class Part(Shape, frozen=True):
    full_name: Annotated[Name, field_schema("Who.", required=True)] = ""
    from_: Annotated[int, field_schema(minimum=1)] = msgspec.field(default=1, name="from")


class Spec(Shape, frozen=True):
    parts: Annotated[tuple[Part, ...], REQUIRED] = ()
    few: Annotated[tuple[str, ...], field_schema(maxItems=3)] = ()
    size: Annotated[Amounts | None, field_schema("How much.")] = None
    weights: dict[str, Count] = msgspec.field(default_factory=dict)
    open_: Annotated[Part, KEEPS_UNKNOWN_FIELDS] = msgspec.field(default=Part(), name="open")
    anything: dict[str, Any] = msgspec.field(default_factory=dict)
    paused: bool | None = None


class Gadget(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[Spec, REQUIRED] = Spec()
    phase: Annotated[str, one_of("On", "Off"), field_schema("How it is.")] = ""


PART = {
    "type": "object",
    "properties": {
        "fullName": {"type": "string", "minLength": 1, "maxLength": 253, "description": "Who."},
        "from": {"type": "integer", "minimum": 1},
    },
    "required": ["fullName"],
}


def test_types_bounds_descriptions_and_what_is_required_come_from_the_struct() -> None:
    spec = {
        "type": "object",
        "properties": {
            "parts": {"type": "array", "items": PART, "maxItems": 256},
            "few": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "size": {
                "type": "object",
                "additionalProperties": {"x-kubernetes-int-or-string": True},
                "maxProperties": 64,
                "description": "How much.",
            },
            "weights": {
                "type": "object",
                "additionalProperties": {"type": "integer", "format": "int64", "minimum": 0},
            },
            "open": {**PART, "x-kubernetes-preserve-unknown-fields": True},
            "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "paused": {"type": "boolean"},
        },
        "required": ["parts"],
    }
    assert schema_of(Gadget) == {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "phase": {"type": "string", "enum": ["On", "Off"], "description": "How it is."},
        },
        "required": ["spec"],
    }


def test_conditions_are_one_per_type_without_a_bound() -> None:
    class Conditioned(Shape, frozen=True):
        conditions: Conditions = ()

    conditions = schema_of(Conditioned)["properties"]["conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert conditions["items"]["required"] == ["type", "status"]
    assert "maxItems" not in conditions


def test_fields_keep_their_order_since_clients_keep_a_document_by_its_hash() -> None:
    assert list(schema_of(Gadget)["properties"]["spec"]["properties"]) == [
        "parts", "few", "size", "weights", "open", "anything", "paused",
    ]  # fmt: skip


def test_a_type_that_no_schema_can_say_is_refused() -> None:
    class Choice(Shape, frozen=True):
        value: str | int = ""

    class Pair(Shape, frozen=True):
        value: tuple[int, str] = (0, "")

    for shape in (Choice, Pair):
        with pytest.raises(TypeError, match="no schema for"):
            schema_of(shape)


def test_who_reads_takes_what_a_write_would_refuse() -> None:
    """Another server, or an older one, may have stored it."""
    gadget = read(Gadget, {"spec": {"parts": [{"fullName": "", "from": -4}]}, "phase": "Elsewhere"})
    assert gadget == Gadget(spec=Spec(parts=(Part(from_=-4),)), phase="Elsewhere")
