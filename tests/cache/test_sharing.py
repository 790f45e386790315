"""Siblings use each other's parts, a spec is decoded once, and no value changes by it."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.cache.sharing import FAMILIES_MAX, SPECS_MIN, SharedParts, is_typed
from fathom.client.api import Resource
from fathom.client.events import Event, decode_events
from fathom.model.body import encode_json
from fathom.model.objects import Obj

PODS = Resource("", "v1", "pods")
CUSTOM = Resource("example.com", "v1", "widgets")


def sharing(resource: Resource = PODS, live: int = 1) -> SharedParts:
    return SharedParts(resource, lambda: live)


def sibling(name: str, owner: str = "rs") -> Obj:
    meta = {"name": name, "uid": name, "ownerReferences": [{"uid": owner}], "labels": {"app": "web"}}
    spec = {"nodeName": f"node-{name}", "containers": [{"name": "c", "image": "i"}]}
    return {"kind": "Pod", "metadata": meta, "spec": spec}


def decoded(shares: SharedParts, *objs: Obj) -> list[Obj]:
    """As a watch brings them."""
    lines = b"".join(encode_json({"type": "ADDED", "object": obj}) + b"\n" for obj in objs)
    return [event.obj for event in decode_events([lines], shares.assemble)]


def test_siblings_share_what_is_equal_and_keep_what_is_not() -> None:
    shares = sharing()
    one, other = sibling("one"), sibling("other")
    before = copy.deepcopy(other)
    shares.share(one)
    shares.share(other)
    assert other == before
    assert other["spec"]["containers"] is one["spec"]["containers"]
    assert other["metadata"]["labels"] is one["metadata"]["labels"]
    assert other["metadata"] is not one["metadata"]


def test_strangers_share_nothing() -> None:
    one, other = decoded(sharing(), sibling("one"), sibling("other", owner="another"))
    assert other["spec"]["containers"] is not one["spec"]["containers"]


def test_a_spec_that_was_seen_before_is_the_same_object_whatever_else_has_changed() -> None:
    shares = sharing()
    first, second = decoded(shares, sibling("one"), {**sibling("one"), "status": {"phase": "Running"}})
    assert second["spec"] is first["spec"]
    assert second == {**sibling("one"), "status": {"phase": "Running"}}


def test_specs_that_nobody_asks_for_are_forgotten_after_two_generations() -> None:
    shares = sharing()
    first = decoded(shares, sibling("first"))[0]
    kept = decoded(shares, sibling("kept"))[0]
    for number in range(2 * SPECS_MIN):
        decoded(shares, sibling(f"p{number}"))
        if number % 500 == 0:
            assert decoded(shares, sibling("kept"))[0]["spec"] is kept["spec"]
    assert decoded(shares, sibling("first"))[0]["spec"] is not first["spec"]
    assert len(shares._specs) + len(shares._older) <= 2 * SPECS_MIN


@pytest.mark.parametrize("live", [5 * SPECS_MIN, 0])
def test_specs_are_remembered_for_as_many_objects_as_there_are_or_are_being_listed(live: int) -> None:
    shares = sharing(live=live)
    first = decoded(shares, sibling("first"))[0]
    for number in range(4 * SPECS_MIN):
        decoded(shares, sibling(f"p{number}"))
    assert decoded(shares, sibling("first"))[0]["spec"] is first["spec"]


@pytest.mark.parametrize("resource", [PODS, CUSTOM])
@pytest.mark.parametrize(("mine", "theirs"), [(True, 1), (1, True), (1.0, 1), ([0], [False])])
def test_a_free_form_value_is_never_taken_for_one_that_python_calls_equal(
    resource: Resource, mine: object, theirs: object
) -> None:
    """In a spec as bytes: of no kind. Compared as values: only where a schema rules it out."""
    shares = sharing(resource)
    meta = {"namespace": "ns", "uid": "u"}
    decoded(shares, {"metadata": meta, "spec": {"of-no-schema": theirs}})
    found = decoded(shares, {"metadata": meta, "spec": {"of-no-schema": mine}})[0]
    if resource is CUSTOM:
        assert encode_json(found["spec"]) == encode_json({"of-no-schema": mine})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "metadata": st.fixed_dictionaries({"uid": st.just("u")}, optional={"labels": JSON}) | JSON,
            "spec": JSON,
            "status": JSON,
            "kind": JSON,
        },
    ),
    max_size=8,
)


@given(OBJECTS)
def test_what_is_assembled_equals_what_is_decoded(objs: list[dict[str, Any]]) -> None:
    lines = b"".join(encode_json({"type": "ADDED", "object": obj}) + b"\n" for obj in objs)
    plain = decode_events([lines])
    assert decode_events([lines], sharing(CUSTOM).assemble) == plain == [Event("ADDED", obj) for obj in objs]


@given(OBJECTS)
def test_the_spec_and_status_of_a_custom_kind_come_out_byte_for_byte(objs: list[dict[str, Any]]) -> None:
    found = decoded(sharing(CUSTOM), *objs)
    for name in ("spec", "status", "kind"):
        before = [encode_json(obj.get(name)) for obj in objs]
        assert [encode_json(obj.get(name)) for obj in found] == before


@pytest.mark.parametrize(
    ("resource", "typed"),
    [
        (PODS, True),
        (Resource("apps", "v1", "deployments"), True),
        (Resource("coordination.k8s.io", "v1", "leases"), True),
        (Resource("apps", "v1", "controllerrevisions"), False),
        (Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions"), False),
        (CUSTOM, False),
    ],
)
def test_only_kinds_with_a_schema_are_compared_as_a_whole(resource: Resource, *, typed: bool) -> None:
    assert is_typed(resource) is typed


def test_families_are_bounded() -> None:
    shares = sharing()
    for number in range(FAMILIES_MAX + 10):
        shares.share(sibling("x", owner=str(number)))
    assert len(shares._families._first) == FAMILIES_MAX


def test_a_bookmark_is_nobodys_sibling() -> None:
    shares = sharing()
    mark = {"metadata": {"resourceVersion": "7"}}
    assert decoded(shares, mark) == [mark]
    assert shares._families._first == {}


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"metadata": {"uid": "u", "ownerReferences": "x"}},
        {"metadata": {"uid": "u", "ownerReferences": [1]}},
        {"metadata": None},
        {"metadata": {"uid": "u"}, "spec": None},
    ],
)
def test_odd_objects_pass(obj: Obj) -> None:
    shares = sharing()
    assert decoded(shares, obj, obj) == [obj, obj]
    shares.share(copy.deepcopy(obj))


def test_fields_that_are_no_json_are_malformed() -> None:
    with pytest.raises(msgspec.DecodeError):
        sharing().assemble({"spec": msgspec.Raw(b"{")})
