"""Custom resources: pruned, defaulted and validated by their structural schema."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.definitions.bodies import WIDGETS, anything

from fathom.kube.definitions.custom import kinds_of_crd
from fathom.kube.definitions.decode import YAML, Decoded
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.registry import Registry
from fathom.kube.definitions.structural import Structural
from fathom.model.errors import ApiError, Cause

REGISTRY = Registry.builtin()
DECODER = REGISTRY.decoder()
WIDGET = kinds_of_crd(WIDGETS)[0]


def widget(**fields: Any) -> dict[str, Any]:
    return {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "a"}, **fields}


def decode(body: Any, kind: Kind = WIDGET) -> Decoded:
    return DECODER.decode(kind, msgspec.json.encode(body))


def with_schema(schema: Any) -> Structural:
    return Structural({"type": "object", "properties": {"spec": schema}})


def causes(schema: Any, value: Any) -> list[Cause]:
    return with_schema(schema).causes({"spec": value})


def test_unknown_fields_are_pruned_and_named() -> None:
    body = widget(spec={"size": 2, "weight": 3}, more=1, status={"any": {"thing": 1}})
    assert decode(body) == Decoded(
        widget(spec={"size": 2}, status={"any": {"thing": 1}}),
        ('unknown field "spec.weight"', 'unknown field "more"'),
    )


def test_metadata_is_that_of_every_object() -> None:
    body = widget(
        metadata={"name": "a", "labels": {"x": "y"}, "bogus": 1, "creationTimestamp": None}, spec={"size": 1}
    )
    assert decode(body) == Decoded(
        widget(metadata={"name": "a", "labels": {"x": "y"}}, spec={"size": 1}),
        ('unknown field "metadata.bogus"',),
    )


def test_defaults_come_with_decoding() -> None:
    assert decode(widget(spec={})).obj["spec"] == {"size": 1}
    assert decode(widget(spec={"size": None})).obj["spec"] == {"size": 1}
    assert "spec" not in decode(widget()).obj


def test_fields_given_twice_are_named() -> None:
    raw = b'{"kind":"Widget","apiVersion":"example.com/v1","spec":{"size":1,"size":2}}'
    assert DECODER.decode(WIDGET, raw).unknown == ('duplicate field "spec.size"',)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"apiVersion": "example.com/v1"},
            "Object 'Kind' is missing in '{\"apiVersion\":\"example.com/v1\"}'",
        ),
        ({"kind": "Widget"}, "Object 'apiVersion' is missing in '{\"kind\":\"Widget\"}'"),
        (
            {"kind": "Widget", "apiVersion": "example.com/v2"},
            "the API version in the data (example.com/v2) does not match the expected API version",
        ),
        (
            {"kind": "Gadget", "apiVersion": "example.com/v1"},
            'Gadget in version "v1" cannot be handled as a Widget',
        ),
        (widget(metadata={"labels": {"a": 1}}), "ObjectMeta.metadata.labels of type string"),
        (widget(metadata="x"), "json: cannot unmarshal string into Go value of type v1.ObjectMeta"),
        (widget(spec={"x": 2**64}), "does not fit into 64 bits"),
        ([], "cannot unmarshal array"),
    ],
)
def test_what_is_no_object_of_the_kind_is_refused(body: Any, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode(body)
    assert caught.value.code == 400
    assert message in caught.value.message


def test_yaml_is_read_too() -> None:
    raw = b"kind: Widget\napiVersion: example.com/v1\nmetadata: {name: a}\nspec: {colour: red}"
    assert DECODER.decode(WIDGET, raw, media_type=YAML).obj == widget(spec={"colour": "red", "size": 1})


def test_a_patched_object_is_not_changed() -> None:
    patched = widget(spec={"weight": 1})
    before = copy.deepcopy(patched)
    assert DECODER.decode_obj(WIDGET, patched) == Decoded(
        widget(spec={"size": 1}), ('unknown field "spec.weight"',)
    )
    assert patched == before


def test_causes_are_asked_of_the_object_as_it_will_be_stored() -> None:
    decoded = decode(widget(spec={"size": "big", "colour": "green"}))
    words = 'Invalid value: "string": spec.size in body must be of type integer: "string"'
    assert DECODER.causes(WIDGET, decoded.obj) == [
        Cause("spec.size", "FieldValueTypeInvalid", words),
        Cause(
            "spec.colour",
            "FieldValueNotSupported",
            'Unsupported value: "green": supported values: "red", "blue"',
        ),
    ]


def test_a_changed_schema_is_noticed() -> None:
    body = widget(spec={"weight": 3})
    assert decode(body).unknown == ('unknown field "spec.weight"',)
    changed = copy.deepcopy(WIDGETS)
    schema = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["weight"] = {"type": "integer"}
    assert decode(body, kinds_of_crd(changed)[0]).unknown == ()


@pytest.mark.parametrize(
    ("schema", "value", "kept", "removed"),
    [
        ({"type": "object"}, {"a": 1}, {}, ["spec.a"]),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            {"a": {"b": 1}},
            {"a": {"b": 1}},
            [],
        ),
        (
            {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"a": {"type": "object"}},
            },
            {"a": {"b": 1}, "c": {"d": 1}},
            {"a": {}, "c": {"d": 1}},
            ["spec.a.b"],
        ),
        (
            {
                "type": "object",
                "additionalProperties": {"type": "object", "properties": {"x": {"type": "integer"}}},
            },
            {"k": {"x": 1, "y": 2}},
            {"k": {"x": 1}},
            ["spec.k.y"],
        ),
        (
            {"type": "object", "additionalProperties": True},
            {"k": 1, "o": {"x": 1}},
            {"k": 1, "o": {}},
            ["spec.o.x"],
        ),
        (
            {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            [{"x": 1}, {"y": 1}],
            [{"x": 1}, {}],
            ["spec[1].y"],
        ),
        (
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "properties": {"spec": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            },
            {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n"}, "spec": {"y": 1}, "z": 1},
            {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n"}, "spec": {}},
            ["spec.spec.y", "spec.z"],
        ),
    ],
)
def test_pruning_follows_the_schema(schema: Any, value: Any, kept: Any, removed: list[str]) -> None:
    obj = {"spec": copy.deepcopy(value)}
    assert with_schema(schema).prune(obj) == removed
    assert obj == {"spec": kept}


@pytest.mark.parametrize(
    ("schema", "value", "whole"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer", "default": 0}}}, {}, {"a": 0}),
        (
            {
                "type": "object",
                "properties": {
                    "a": {
                        "type": "object",
                        "default": {},
                        "properties": {"b": {"type": "string", "default": "x"}},
                    }
                },
            },
            {},
            {"a": {"b": "x"}},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "nullable": True, "default": 1}}},
            {"a": None},
            {"a": None},
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}},
            },
            [{}, {"a": 2}],
            [{"a": 1}, {"a": 2}],
        ),
        (
            {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {"a": {"type": "integer", "default": 1}},
                },
            },
            {"k": {}},
            {"k": {"a": 1}},
        ),
        (
            {
                "type": "object",
                "properties": {
                    "not-set": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "null": {"type": "string", "nullable": True},
                    "free": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {"kind": {"type": "string"}},
                    },
                    "list": {"type": "array", "items": {"type": "string", "nullable": True}},
                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            {
                "not-set": None,
                "null": None,
                "free": {"kind": None, "any": None},
                "list": [None],
                "map": {"k": None},
            },
            {"null": None, "free": {"any": None}, "list": [None], "map": {}},
        ),
    ],
)
def test_defaulting_follows_the_schema(schema: Any, value: Any, whole: Any) -> None:
    obj = {"spec": copy.deepcopy(value)}
    with_schema(schema).default(obj)
    assert obj == {"spec": whole}


INVALID, TYPE = "FieldValueInvalid", "FieldValueTypeInvalid"


def in_body(value: str, words: str) -> str:
    return f"Invalid value: {value}: spec in body {words}"


@pytest.mark.parametrize(
    ("schema", "value", "reason", "message"),
    [
        ({"type": "integer"}, "x", TYPE, in_body('"string"', 'must be of type integer: "string"')),
        ({"type": "integer"}, 1.5, TYPE, in_body('"number"', 'must be of type integer: "number"')),
        ({"type": "string"}, None, TYPE, in_body('"null"', 'must be of type string: "null"')),
        ({"type": "boolean"}, 1, TYPE, in_body('"integer"', 'must be of type boolean: "integer"')),
        ({"type": "number"}, True, TYPE, in_body('"boolean"', 'must be of type number: "boolean"')),
        ({"type": "object"}, [], TYPE, in_body('"array"', 'must be of type object: "array"')),
        ({"type": "array"}, {}, TYPE, in_body('"object"', 'must be of type array: "object"')),
        (
            {"x-kubernetes-int-or-string": True},
            1.5,
            TYPE,
            in_body('"number"', 'must be of type integer,string: "number"'),
        ),
        ({"minimum": 1}, 0, INVALID, in_body("0", "should be greater than or equal to 1")),
        ({"minimum": 1, "exclusiveMinimum": True}, 1, INVALID, in_body("1", "should be greater than 1")),
        ({"maximum": 5}, 6, INVALID, in_body("6", "should be less than or equal to 5")),
        ({"maximum": 5, "exclusiveMaximum": True}, 5, INVALID, in_body("5", "should be less than 5")),
        ({"multipleOf": 5}, 7, INVALID, in_body("7", "should be a multiple of 5")),
        ({"multipleOf": 0.1}, 0.25, INVALID, in_body("0.25", "should be a multiple of 0.1")),
        ({"minLength": 3}, "ab", INVALID, in_body('"ab"', "should be at least 3 chars long")),
        ({"maxLength": 1}, "ab", "FieldValueTooLong", "Too long: may not be more than 1 byte"),
        ({"pattern": "^a+$"}, "b", INVALID, in_body('"b"', "should match '^a+$'")),
        ({"minItems": 1}, [], INVALID, in_body("[]", "should have at least 1 items")),
        ({"maxItems": 1}, [1, 2], "FieldValueTooMany", "Too many: 2: must have at most 1 item"),
        ({"minProperties": 1}, {}, INVALID, in_body("{}", "should have at least 1 properties")),
        ({"maxProperties": 0}, {"a": 1}, "FieldValueTooMany", "Too many: 1: must have at most 0 items"),
        (
            {"enum": ["a", 1]},
            True,
            "FieldValueNotSupported",
            'Unsupported value: true: supported values: "a", "1"',
        ),
        ({"format": "date-time"}, "now", TYPE, in_body('"now"', 'must be of type date-time: "now"')),
        ({"format": "int32"}, 2**31, TYPE, in_body('"2147483648"', 'must be of type int32: "2147483648"')),
        ({"anyOf": [{"minimum": 5}, {"maximum": 1}]}, 3, INVALID, None),
        ({"allOf": [{"minimum": 5}]}, 3, INVALID, in_body("3", "should be greater than or equal to 5")),
        ({"not": {"minimum": 1}}, 1, INVALID, 'Invalid value: 1: "spec" must not validate the schema (not)'),
        (
            {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
            3,
            INVALID,
            'Invalid value: 3: "spec" must validate one and only one schema (oneOf). '
            "Found 2 valid alternatives",
        ),
    ],
)
def test_each_keyword_refuses_in_its_words(schema: Any, value: Any, reason: str, message: str | None) -> None:
    found = causes(schema, value)
    assert (found[0].field, found[0].reason) == ("spec", reason)
    if message is not None:
        assert found == [Cause("spec", reason, message)]
    else:
        assert "must validate at least one schema (anyOf)" in found[0].message


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 3.0),
        ({"type": "string", "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, "5%"),
        ({"minimum": 1, "maximum": 5}, 3),
        ({"multipleOf": 0.1}, 0.3),
        ({"pattern": "b"}, "abc"),
        ({"enum": ["a", None], "nullable": True}, None),
        ({"format": "whatever"}, "x"),
        ({"format": "ipv4"}, "10.0.0.1"),
        ({"format": "ipv6"}, "::1"),
        ({"format": "cidr"}, "10.0.0.0/8"),
        ({"format": "uuid"}, "0a0a0a0a-1111-2222-3333-444444444444"),
        ({"format": "duration"}, "1h30m"),
        ({"format": "byte"}, "aGk="),
        ({"format": "date"}, "2024-02-29"),
        ({"oneOf": [{"minimum": 5}, {"maximum": 1}]}, 0),
        ({"x-kubernetes-list-type": "set"}, ["a", "b"]),
        ({"x-kubernetes-list-type": "atomic"}, ["a", "a"]),
        ({"x-kubernetes-validations": [{"rule": "false"}]}, 1),
    ],
)
def test_what_a_schema_allows_passes(schema: Any, value: Any) -> None:
    assert causes(schema, value) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ipv4", "::1"),
        ("ipv6", "1.1.1.1"),
        ("cidr", "x"),
        ("uuid", "x"),
        ("duration", "5"),
        ("byte", "!"),
        ("date", "2023-02-29"),
        ("date", "20230101"),
        ("mac", "x"),
        ("email", "x"),
        ("uri", "x y"),
        ("hostname", "A_"),
    ],
)
def test_formats_refuse_what_is_not_theirs(name: str, value: str) -> None:
    assert [cause.reason for cause in causes({"format": name}, value)] == [TYPE]


def test_paths_lead_through_lists_maps_and_objects() -> None:
    schema = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "object", "required": ["name"]}},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }
    found = causes(schema, {"list": [{"name": 1}, {}], "map": {"k": "x"}})
    assert [(cause.field, cause.reason) for cause in found] == [
        ("spec.list[1].name", "FieldValueRequired"),
        ("spec.map.k", TYPE),
    ]


def test_items_of_sets_and_maps_are_unique() -> None:
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    assert causes(keyed, [{"name": "a", "x": 1}, {"name": "b"}, {"name": "a", "x": 2}]) == [
        Cause("spec[2]", "FieldValueDuplicate", 'Duplicate value: {"name":"a"}')
    ]
    assert causes({"x-kubernetes-list-type": "set"}, [1, True, 1]) == [
        Cause("spec[2]", "FieldValueDuplicate", "Duplicate value: 1")
    ]


def test_embedded_objects_say_what_they_are() -> None:
    schema = {"type": "object", "x-kubernetes-embedded-resource": True}
    assert causes(schema, {"kind": "X"}) == [
        Cause("spec.apiVersion", "FieldValueRequired", "Required value: must not be empty")
    ]


def test_a_pattern_that_would_take_for_ever_elsewhere_is_answered_at_once() -> None:
    assert len(causes({"pattern": "^(a+)+$"}, "a" * 50_000 + "b")) == 1


@given(anything)
def test_nothing_but_a_refusal_comes_of_a_strange_body(body: Any) -> None:
    for value in (body, widget(spec=body), widget(metadata=body)):
        try:
            decoded = DECODER.decode(WIDGET, msgspec.json.encode(value))
        except ApiError:
            continue
        DECODER.causes(WIDGET, decoded.obj)
        assert DECODER.decode_obj(WIDGET, decoded.obj) == Decoded(decoded.obj)


@given(st.binary(max_size=48))
def test_nothing_but_a_refusal_comes_of_strange_bytes(raw: bytes) -> None:
    with pytest.raises(ApiError):
        DECODER.decode(WIDGET, raw)
