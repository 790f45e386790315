"""The patch of an apply: declared fields hold, dropped ones go, those of others stay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.kube.patch.merge_patch import merge
from fathom.kube.patch.schema import DefinitionSchema
from fathom.kube.patch.strategic import merge_strategically
from fathom.kube.patch.three_way import three_way_patch

Obj = dict[str, Any]

ITEM = {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}}
SCHEMA = DefinitionSchema(
    {},
    {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "items": {
                "type": "array",
                "items": ITEM,
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "name",
            },
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
            "list": {"type": "array", "items": {"type": "integer"}},
            "union": {
                "type": "object",
                "properties": {"type": {"type": "string"}, "more": {"type": "integer"}},
                "x-kubernetes-patch-strategy": "retainKeys",
            },
        },
    },
)

NAMES = st.sampled_from("abcd")
NUMBERS = st.integers(0, 2)
ITEMS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"value": NUMBERS}),
    max_size=4,
    unique_by=lambda item: item["name"],
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "size": NUMBERS,
        "map": st.dictionaries(NAMES, NUMBERS, max_size=3),
        "items": ITEMS,
        "set": st.lists(NAMES, max_size=3, unique=True),
        "list": st.lists(NUMBERS, max_size=3),
    },
)


def covers(obj: Any, declared: Any) -> bool:
    """Whether everything declared is in the object; of lists with a key and of sets, among other items."""
    if isinstance(declared, dict):
        return all(name in obj and covers(obj[name], value) for name, value in declared.items())
    return bool(obj == declared)


@given(before=OBJECTS, declared=OBJECTS, others=OBJECTS)
def test_declared_fields_hold_and_dropped_ones_go_and_the_others_stay(
    before: Obj, declared: Obj, others: Obj
) -> None:
    current = merge_strategically(others, before, SCHEMA)
    patched = merge_strategically(current, three_way_patch(before, declared, current, SCHEMA), SCHEMA)
    by_name = {item["name"]: item for item in patched.get("items", ())}
    assert all(covers(by_name.get(item["name"]), item) for item in declared.get("items", ()))
    assert set(declared.get("set", ())) <= set(patched.get("set", ()))
    whole = {name: value for name, value in declared.items() if name not in {"items", "set"}}
    assert covers(patched, whole)
    assert not [
        name
        for name in before.get("map", {})
        if name not in declared.get("map", {}) and name in patched.get("map", {})
    ]
    if "items" in declared:
        dropped = {item["name"] for item in before.get("items", ())} - {
            item["name"] for item in declared["items"]
        }
        assert not dropped & by_name.keys()
        theirs = {item["name"] for item in others.get("items", ())} - {
            item["name"] for item in before.get("items", ())
        }
        assert theirs <= by_name.keys()
        mine = [item["name"] for item in declared["items"]]
        assert [item["name"] for item in patched.get("items", ()) if item["name"] in mine] == mine
    assert three_way_patch(declared, declared, patched, SCHEMA) == {}


@given(before=OBJECTS, declared=OBJECTS, others=OBJECTS)
def test_without_a_schema_it_is_a_merge_patch(before: Obj, declared: Obj, others: Obj) -> None:
    current = merge(others, before)
    patched = merge(current, three_way_patch(before, declared, current, None))
    assert covers(patched, declared)
    assert not [name for name in before if name not in declared and name in patched]
    assert three_way_patch(declared, declared, patched, None) == {}


@pytest.mark.parametrize(
    ("before", "declared", "current", "patch"),
    [
        ({"size": 1}, {"size": 1}, {"size": 1, "map": {"a": 1}}, {}),
        ({"size": 1}, {}, {"size": 2}, {"size": None}),
        ({"size": 1}, {}, {}, {}),
        ({}, {"size": None}, {"size": 2}, {}),
        ({}, {"set": ["a"]}, {"set": ["b"]}, {"set": ["a"]}),
        ({"set": ["b"]}, {"set": ["a"]}, {"set": ["b", "a"]}, {"$deleteFromPrimitiveList/set": ["b"]}),
        (
            {"union": {"type": "A", "more": 1}},
            {"union": {"type": "B"}},
            {"union": {"type": "A", "more": 1}},
            {"union": {"type": "B", "more": None, "$retainKeys": ["type"]}},
        ),
        (
            {"items": [{"name": "a"}, {"name": "b"}]},
            {"items": [{"name": "c", "value": 1}, {"name": "a"}]},
            {"items": [{"name": "a"}, {"name": "x"}, {"name": "b"}]},
            {
                "$setElementOrder/items": [{"name": "c"}, {"name": "a"}],
                "items": [{"name": "c", "value": 1}, {"$patch": "delete", "name": "b"}],
            },
        ),
        (
            {},
            {"items": [{"name": "a", "value": 1}, {"name": "a", "value": 2}]},
            {"items": [{"name": "a", "value": 1}]},
            {"items": [{"$patch": "replace"}, {"name": "a", "value": 1}, {"name": "a", "value": 2}]},
        ),
    ],
)
def test_patches(before: Obj, declared: Obj, current: Obj, patch: Obj) -> None:
    assert three_way_patch(before, declared, current, SCHEMA) == patch
