"""JSON merge patch, against an obvious twin."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.kube.patch.merge_patch import merge

Json = Any

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.just("x")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=10,
)
objects = st.dictionaries(st.sampled_from(["a", "b", "c"]), values, max_size=3)


def twin(target: Json, patch: Json) -> Json:
    """The RFC's definition, on a copy."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = copy.deepcopy(target) if isinstance(target, dict) else {}
    for name in patch:
        if patch[name] is None:
            if name in result:
                del result[name]
        else:
            result[name] = twin(result.get(name), patch[name])
    return result


def difference(old: Json, new: Json) -> Json:
    """A patch from one object to another; possible because the new one has no nulls."""
    patch: Json = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            patch[name] = difference(before, value)
        elif before != value:
            patch[name] = value
    return patch


def without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value


@given(objects, objects)
def test_merging_does_what_the_twin_does_and_changes_neither_side(current: Json, patch: Json) -> None:
    before = copy.deepcopy((current, patch))
    assert merge(current, patch) == twin(current, patch)
    assert (current, patch) == before


@given(objects, objects)
def test_merging_twice_changes_nothing_more(current: Json, patch: Json) -> None:
    once = merge(current, patch)
    assert merge(once, patch) == once


@given(objects.map(without_nulls), objects.map(without_nulls))
def test_a_difference_leads_from_one_object_to_the_other(old: Json, new: Json) -> None:
    assert merge(old, difference(old, new)) == new or any(
        isinstance(old.get(name), dict) != isinstance(new.get(name), dict) for name in {*old, *new}
    )


@pytest.mark.parametrize(
    ("current", "patch", "expected"),
    [
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": None, "z": 3}}, {"a": {"y": 2, "z": 3}}),
        ({"a": [1, 2]}, {"a": [3, None]}, {"a": [3, None]}),
        ({"a": 1}, {"a": {"b": None, "c": {"d": None}}}, {"a": {"c": {}}}),
        ({"a": 1}, {}, {"a": 1}),
        ({}, {"a": None}, {}),
    ],
)
def test_examples(current: Json, patch: Json, expected: Json) -> None:
    assert merge(current, patch) == expected


def test_what_the_patch_left_alone_is_shared() -> None:
    current = {"a": {"b": 1}, "c": {"d": 1}}
    merged = merge(current, {"c": {"d": 2}})
    assert merged["a"] is current["a"]
    assert current == {"a": {"b": 1}, "c": {"d": 1}}
