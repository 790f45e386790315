"""Changed paths name every change, nothing that stayed, and stay few."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.model.fields import changed_paths, steps_of, touches, touching

Json = Any

scalars = st.one_of(st.none(), st.booleans(), st.integers(2, 9), st.text("ab", max_size=2))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "c/d", "e"]), inner, max_size=3),
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(["spec", "status", "x.y"]), values, max_size=3)


def leaves(value: Json, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Json]:
    """The twin: every plain value and every empty container by its path."""
    if isinstance(value, dict) and value:
        items = list(value.items())
    elif isinstance(value, list) and value:
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        return {path: value}
    found: dict[tuple[str, ...], Json] = {}
    for name, item in items:
        found |= leaves(item, (*path, name))
    return found


def differing(old: Json, new: Json) -> set[tuple[str, ...]]:
    before, after = leaves(old), leaves(new)
    return {path for path in {*before, *after} if before.get(path, ...) != after.get(path, ...)}


def overlaps(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return all(a == b for a, b in zip(one, other, strict=False))


@given(objects, objects, st.sampled_from([1, 2, 64]))
def test_every_difference_is_told_and_nothing_else(old: Json, new: Json, limit: int) -> None:
    told = changed_paths(old, new, limit)
    assert len(told) <= limit
    assert len(set(told)) == len(told)
    for path in differing(old, new):
        assert told == ("*",) or any(overlaps(steps_of(one), path) for one in told)
    for one in told:
        assert one == "*" or any(overlaps(steps_of(one), path) for path in differing(old, new))


@given(objects)
def test_equal_objects_have_no_changed_paths(obj: Json) -> None:
    assert changed_paths(obj, obj) == ()
    assert changed_paths(obj, {name: obj[name] for name in reversed(obj)}) == ()


def test_a_changed_field_is_told_by_its_path() -> None:
    old = {"spec": {"replicas": 1, "paused": True}, "metadata": {"labels": {"app": "a"}}}
    new = {"spec": {"replicas": 2}, "metadata": {"labels": {"app": "b", "fathom.dev/tenant": "x"}}}
    assert changed_paths(old, new) == (
        "spec.replicas",
        "spec.paused",
        "metadata.labels[app]",
        "metadata.labels[fathom.dev/tenant]",
    )


def test_the_first_label_is_told_like_any_other_and_so_is_the_last() -> None:
    bare: Json = {"metadata": {"name": "x"}}
    labelled: Json = {"metadata": {"name": "x", "labels": {"app": "a"}}}
    assert changed_paths(bare, labelled) == ("metadata.labels[app]",)
    assert changed_paths(labelled, bare) == ("metadata.labels[app]",)
    assert changed_paths(bare, {"metadata": {"name": "x", "labels": {}}}) == ("metadata.labels",)


def test_items_of_known_lists_go_by_their_keys() -> None:
    def pod(*containers: Json) -> Json:
        return {"spec": {"containers": list(containers)}}

    web, side = {"name": "web", "image": "a"}, {"name": "side", "image": "a"}
    assert changed_paths(pod(web, side), pod(side, {**web, "image": "b"})) == (
        "spec.containers[name=web].image",
    )
    assert changed_paths(pod(web), pod(web, side)) == ("spec.containers[name=side]",)
    assert changed_paths(pod(web, side), pod(side)) == ("spec.containers[name=web]",)
    assert changed_paths(pod(web, side), pod(side, web)) == ("spec.containers",)
    # Two of one name: there is no telling which is which.
    assert changed_paths(pod(web, web), pod(web, side)) == ("spec.containers[1].name",)


def test_finalizers_are_told_one_by_one() -> None:
    old = {"metadata": {"finalizers": ["a/x", "b/y"]}}
    assert changed_paths(old, {"metadata": {"finalizers": ["b/y"]}}) == ("metadata.finalizers[a/x]",)


def test_other_lists_go_by_index_or_as_a_whole() -> None:
    old: Json = {"spec": {"args": ["a"], "rules": [{"host": "a"}, {"host": "b"}]}}
    new: Json = {"spec": {"args": ["a", "b"], "rules": [{"host": "a"}, {"host": "c"}, {"host": "d"}]}}
    assert changed_paths(old, new) == ("spec.args", "spec.rules[1].host", "spec.rules[2]")


def test_keys_of_a_list_can_be_taught() -> None:
    old, new = ({"spec": {"pools": [{"id": 1, "size": size}]}} for size in (1, 2))
    assert changed_paths(old, new, list_keys={"pools": ("id",)}) == ("spec.pools[id=1].size",)


def test_what_the_server_writes_with_every_change_is_not_told() -> None:
    old = {"metadata": {"resourceVersion": "1", "managedFields": []}, "spec": {"resourceVersion": "1"}}
    new = {"metadata": {"resourceVersion": "2"}, "spec": {"resourceVersion": "2"}}
    assert changed_paths(old, new) == ("spec.resourceVersion",)


def test_too_many_changes_are_told_by_their_parents() -> None:
    data = {f"k{index}": "v" for index in range(100)}
    assert changed_paths({"data": {}}, {"data": data}, limit=64) == ("data",)
    old = {"metadata": {"name": "x"}, "spec": {}}
    new = {"metadata": {"labels": data}, "spec": {"a": data, "b": 1}}
    assert changed_paths(old, new, limit=64) == ("metadata.labels", "metadata.name", "spec.a", "spec.b")
    assert changed_paths(old, new, limit=2) == ("metadata", "spec")
    assert changed_paths(old, new, limit=1) == ("*",)


def test_an_absent_object_is_an_empty_one() -> None:
    assert changed_paths(None, {"spec": {"a": 1}}) == changed_paths({}, {"spec": {"a": 1}}) == ("spec.a",)
    assert changed_paths({"spec": {"a": 1}}, None) == ("spec.a",)


def test_deep_changes_are_told_by_an_ancestor() -> None:
    def nested(value: int) -> Json:
        obj: Json = value
        for _ in range(300):
            obj = {"a": obj}
        return obj

    (told,) = changed_paths(nested(1), nested(2))
    assert told == ".".join(["a"] * 24)


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("spec.replicas", ("spec", "replicas")),
        ("metadata.labels[app.kubernetes.io/name]", ("metadata", "labels", "app.kubernetes.io/name")),
        ("spec.containers[name=web].image", ("spec", "containers", "name=web", "image")),
        ("[x.y].a[0][1]", ("x.y", "a", "0", "1")),
        ("data[a]b]", ("data", "a]b")),
        ("data[]", ("data", "")),
        ("", ()),
    ],
)
def test_a_path_is_read_back_as_steps(path: str, steps: tuple[str, ...]) -> None:
    assert steps_of(path) == steps


def test_a_change_touches_what_is_above_and_below_it() -> None:
    assert touches("metadata.labels", "metadata.labels[app]")
    assert touches("metadata.labels[app]", "metadata.labels")
    assert touches("metadata.labels[app]", "metadata.labels.app")
    assert not touches("metadata.labels[app]", "metadata.labels[application]")
    assert not touches("spec", "status")
    assert touches("*", "status.phase")
    assert list(touching(("spec.a", "status", "spec.b"), "spec")) == ["spec.a", "spec.b"]
