"""Who owns a field after applies and updates, on a kind with every way of dividing a value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.kube.definitions.definitions import OBJECT_META, load
from fathom.kube.ownership import entries, paths
from fathom.kube.ownership.division import divided
from fathom.kube.ownership.merging import merged, without
from fathom.kube.ownership.owners import (
    ANCIENT,
    APPLY,
    UPDATE,
    UPDATERS_MAX,
    Conflicts,
    Owned,
    Owner,
    Owners,
    applied,
    updated,
)
from fathom.kube.ownership.shapes import custom_shape
from fathom.model.objects import Obj

ITEM = {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}
MARKED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
SCHEMA: Obj = {
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "whole": {"type": "array", "items": {"type": "string"}},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "items": {"type": "array", "items": ITEM, **MARKED},
                "atom": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
    }
}
SHAPE = custom_shape(load(), SCHEMA, OBJECT_META)
ONE, TWO = Owner(APPLY, "one", "v1"), Owner(APPLY, "two", "v1")
HAND = Owner(UPDATE, "hand", "v1")

small = st.integers(0, 2)
words = st.sampled_from("abc")
specs = st.fixed_dictionaries(
    {},
    optional={
        "n": small,
        "whole": st.lists(words, min_size=1, max_size=2),
        "set": st.lists(words, min_size=1, unique=True),
        "items": st.lists(
            st.fixed_dictionaries({"k": words}, optional={"v": small}),
            min_size=1,
            unique_by=lambda item: item["k"],
        ),
        "atom": st.dictionaries(words, small, min_size=1),
        "map": st.dictionaries(words, words, min_size=1),
        "free": st.dictionaries(words, small | st.dictionaries(words, small, min_size=1), min_size=1),
    },
)
objects = specs.map(lambda spec: {"spec": spec} if spec else {})


def apply(
    live: Obj, config: Obj, owners: Owners, by: Owner = ONE, *, force: bool = True
) -> tuple[Obj, Owners]:
    return applied(SHAPE, live, config, owners, by, force=force, now="now")


@given(objects, objects)
def test_what_is_applied_is_there_and_what_others_own_stays(first: Obj, second: Obj) -> None:
    live, owners = apply({}, first, {}, ONE)
    assert divided(SHAPE, live).keys() == divided(SHAPE, first).keys()
    both, owners = apply(live, second, owners, TWO)
    have = divided(SHAPE, both)
    assert {path: have.get(path) for path in divided(SHAPE, second)} == divided(SHAPE, second)
    for owned in owners.values():
        assert owned.fields <= have.keys()


@given(objects, objects)
def test_the_same_again_changes_nothing(first: Obj, second: Obj) -> None:
    live, owners = apply({}, first, {}, ONE)
    live, owners = apply(live, second, owners, TWO)
    again, after = applied(SHAPE, live, second, owners, TWO, force=False, now="later")
    assert (again, after) == (live, owners)


@given(objects, objects)
def test_who_applies_alone_has_exactly_what_was_applied(first: Obj, second: Obj) -> None:
    live, owners = apply({}, first, {})
    live, owners = apply(live, second, owners)
    assert divided(SHAPE, live) == divided(SHAPE, second)


@given(objects, objects, objects)
def test_a_conflict_names_exactly_the_fields_that_would_change(first: Obj, second: Obj, third: Obj) -> None:
    live, owners = apply({}, first, {}, ONE)
    live, owners = apply(live, second, owners, TWO)
    mine, wanted = divided(SHAPE, live), divided(SHAPE, third)
    differ = {path for path, value in wanted.items() if path in mine and mine[path] != value}
    try:
        applied(SHAPE, live, third, owners, ONE, force=False, now="now")
        found: frozenset[paths.Path] = frozenset()
    except Conflicts as conflicts:
        found = conflicts.found[TWO]
    owned = owners[TWO].fields if TWO in owners else frozenset()
    assert differ & owned == found & differ


@given(objects, objects)
def test_an_update_owns_what_it_changed_and_nobody_owns_what_is_gone(first: Obj, second: Obj) -> None:
    live, owners = apply({}, first, {}, ONE)
    after = updated(SHAPE, live, second, owners, HAND, now="later")
    have = divided(SHAPE, second, all_=True)
    owned = [path for each in after.values() for path in each.fields]
    assert len(owned) == len(set(owned))
    assert set(owned) <= have.keys()
    had = divided(SHAPE, live)
    changed = {path for path, value in divided(SHAPE, second).items() if had.get(path, ...) != value}
    assert changed <= (after[HAND].fields if HAND in after else frozenset())


@given(objects, objects)
def test_what_is_written_is_read_again(first: Obj, second: Obj) -> None:
    live, owners = apply({}, first, {}, ONE)
    _, owners = apply(live, second, owners, TWO)
    assert entries.read(entries.written(owners)) == owners


@given(objects)
def test_everything_taken_out_leaves_nothing(obj: Obj) -> None:
    assert without(SHAPE, obj, paths.tree_of(divided(SHAPE, obj))) == {}


@pytest.mark.parametrize(
    ("live", "config", "result"),
    [
        ("abc", "ca", "bca"),
        ("ab", "xb", "axb"),
        ("abc", "b", "abc"),
        ("", "ba", "ba"),
        ("ab", "ba", "ba"),
        ("axb", "ba", "xba"),
    ],
)
def test_the_order_is_that_of_what_is_applied(live: str, config: str, result: str) -> None:
    both = merged(SHAPE, {"spec": {"set": list(live)}}, {"spec": {"set": list(config)}})
    assert "".join(both["spec"]["set"]) == result


def test_many_updaters_become_one() -> None:
    live: Obj = {"spec": {"map": {"a": "0"}}}
    owners: Owners = {ONE: Owned(frozenset(divided(SHAPE, live)), "0")}
    for number in range(UPDATERS_MAX + 5):
        new: Obj = {"spec": {"map": {**live["spec"]["map"], f"k{number}": "1"}}}
        by = Owner(UPDATE, f"program-{number}", "v1")
        owners = updated(SHAPE, live, new, owners, by, now=f"{number:02}")
        live = new
    updaters = [owner.manager for owner in owners if owner.operation == UPDATE]
    assert len(updaters) <= UPDATERS_MAX + 1
    assert ANCIENT in updaters
    everything = frozenset[paths.Path]().union(*(owned.fields for owned in owners.values()))
    assert everything == divided(SHAPE, live).keys()


def test_what_is_very_deep_is_owned_as_a_whole() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = {"a": deep}
    (path,) = [path for path in divided(SHAPE, {"spec": {"free": deep}}) if len(path) == paths.DEPTH_MAX]
    assert path[-1] == "f:a"


@pytest.mark.parametrize("tree", [[], {"x": {}}, {"f:a": 1}, {"f:a": {"b": {}}}])
def test_what_is_no_set_of_fields_is_refused(tree: Any) -> None:
    with pytest.raises(ValueError, match="not a"):
        paths.paths_in(tree)


def test_a_path_reads_as_in_kubernetes() -> None:
    path = ("f:spec", paths.item({"port": 80, "name": "a"}), "f:x", paths.value("v"), "i:3")
    assert paths.text(path) == '.spec[name="a",port=80].x[="v"][3]'
