"""JSON patch does what RFC 6902 and the `jsonpatch` library say, and refuses to grow without bound."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import jsonpointer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.kube.patch.json_patch import OPERATIONS_MAX, apply_operations, read_operations, same
from fathom.model.body import encode_json
from fathom.model.errors import ApiError

Json = Any


def patched(document: Json, *operations: Json) -> Json:
    return apply_operations(document, read_operations(encode_json(operations)))


def refusal(document: Json, *operations: Json) -> ApiError:
    with pytest.raises(ApiError) as refused:
        patched(document, *operations)
    return refused.value


scalars = st.one_of(st.none(), st.integers(2, 4), st.sampled_from(["x", "y"]))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "0", "/~"]), inner, max_size=3),
    ),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from(["a", "b", "c"]), values, min_size=1, max_size=3)
pointers = st.lists(st.sampled_from(["a", "b", "c", "0", "1", "-", "01", "~1~0", "x"]), max_size=4).map(
    lambda steps: "".join(f"/{step}" for step in steps)
)
operations = st.one_of(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "replace", "test"]), "path": pointers, "value": values}
    ),
    st.fixed_dictionaries({"op": st.just("remove"), "path": pointers.filter(bool)}),
    st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "from": pointers, "path": pointers}),
)


def library_says(document: Json, asked: list[Json]) -> Json:
    try:
        return jsonpatch.apply_patch(document, asked)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
        return "refused"


def we_say(document: Json, asked: list[Json]) -> Json:
    try:
        return patched(document, *asked)
    except ApiError:
        return "refused"


def odd(one: Json) -> bool:
    """Where the library is laxer or stricter than the RFC: the whole document as a target of move or copy."""
    return one["op"] in {"move", "copy"} and "" in {one["path"], one["from"]}


@pytest.mark.slow
@settings(max_examples=300)
@given(documents, st.lists(operations.filter(lambda one: not odd(one)), max_size=5))
def test_operations_do_what_the_library_does(document: Json, asked: list[Json]) -> None:
    before = copy.deepcopy(document)
    assert we_say(document, asked) == library_says(document, asked)
    assert document == before


@given(documents, documents)
def test_the_librarys_difference_of_two_documents_leads_from_one_to_the_other(old: Json, new: Json) -> None:
    assert patched(old, *jsonpatch.make_patch(old, new)) == new


def test_a_copied_value_and_its_origin_change_apart() -> None:
    document = {"a": {"x": [1]}}
    result = patched(
        document,
        {"op": "add", "path": "/a/x/-", "value": 2},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a/x/-", "value": 3},
        {"op": "add", "path": "/b/x/-", "value": 4},
    )
    assert result == {"a": {"x": [1, 2, 3]}, "b": {"x": [1, 2, 4]}}
    assert document == {"a": {"x": [1]}}


def test_a_value_used_by_two_operations_changes_apart() -> None:
    (shared,) = read_operations(b'[{"op":"add","path":"/a","value":{"x":1}}]')
    change = read_operations(b'[{"op":"replace","path":"/a/x","value":2}]')
    assert apply_operations({}, [shared, *change]) == {"a": {"x": 2}}
    assert apply_operations({}, [shared]) == {"a": {"x": 1}}


def test_true_is_not_one() -> None:
    assert not same(True, 1)
    assert not same({"a": [0]}, {"a": [False]})
    assert same({"a": [1, 2.0, None]}, {"a": [1.0, 2, None]})
    assert refusal({"a": True}, {"op": "test", "path": "/a", "value": 1}).code == 422


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ({"op": "test", "path": "/a", "value": 2}, "testing value /a failed: test failed"),
        (
            {"op": "test", "path": "/b", "value": 2},
            "test operation does not apply: is missing path: /b: missing value",
        ),
        (
            {"op": "add", "path": "/b/c", "value": 1},
            'add operation does not apply: doc is missing path: "/b/c": missing value',
        ),
        (
            {"op": "remove", "path": "/b"},
            "error in remove for path: '/b': Unable to remove nonexistent key: b: missing value",
        ),
        (
            {"op": "replace", "path": "/b", "value": 1},
            "replace operation does not apply: doc is missing key: /b: missing value",
        ),
        (
            {"op": "remove", "path": "/l/1"},
            "error in remove for path: '/l/1': Unable to access invalid index: 1: invalid index referenced",
        ),
        (
            {"op": "add", "path": "/l/x", "value": 1},
            "error in add for path: '/l/x': value was not a proper array index: 'x'",
        ),
        (
            {"op": "copy", "from": "/b", "path": "/c"},
            "copy operation does not apply: doc is missing from path: /b: missing value",
        ),
        ({"op": "move", "path": "/c"}, 'move operation has no "from"'),
        (
            {"op": "move", "from": "/l", "path": "/l/0"},
            "move operation does not apply: /l cannot be moved into itself",
        ),
        ({"op": "add", "path": "/c"}, 'add operation of "/c" has no "value"'),
        ({"op": "grow", "path": "/c"}, "Unexpected kind: grow"),
        (
            {"op": "add", "path": "c", "value": 1},
            'path "c" is not a JSON pointer: it must be empty or start with "/"',
        ),
        (
            {"op": "remove", "path": ""},
            "remove operation does not apply: the whole document cannot be removed",
        ),
    ],
)
def test_what_does_not_apply_is_a_422_that_says_why(operation: Json, why: str) -> None:
    error = refusal({"a": 1, "l": [1]}, operation)
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message == f"the server rejected our request due to an error in our request: {why}"


@pytest.mark.parametrize(
    "patch", [b"", b"{", b"{}", b"[1]", b'[{"op":"add"}]', b'[{"op":1,"path":"/a"}]', b"\xff", b"[" * 5000]
)
def test_what_is_no_patch_is_a_400(patch: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        read_operations(patch)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    assert refused.value.message.startswith("error decoding patch: ")


def test_more_operations_than_kubernetes_takes_are_refused() -> None:
    test = {"op": "test", "path": "/a", "value": 1}
    assert patched({"a": 1}, *[test] * OPERATIONS_MAX) == {"a": 1}
    error = refusal({"a": 1}, *[test] * (OPERATIONS_MAX + 1))
    assert (error.code, error.reason) == (413, "RequestEntityTooLarge")
    assert error.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


def test_a_document_cannot_be_made_to_double_itself_again_and_again() -> None:
    doubling = [{"op": "copy", "from": "", "path": f"/x{index}"} for index in range(60)]
    error = refusal({"a": "b" * 1000}, *doubling)
    assert error.code == 422
    assert "the accumulated size increase of copy operation" in error.message


def test_a_document_cannot_be_made_too_deep_to_read() -> None:
    deepening = [{"op": "copy", "from": "/a", "path": "/a/a"} for _ in range(100)]
    steps = [{"op": "add", "path": "/a" * depth, "value": {}} for depth in range(1, 150)]
    error = refusal({}, *steps, *deepening)
    assert error.code == 422
    assert "exceeded max depth of 200 levels" in error.message


def test_many_operations_on_one_list_copy_it_once() -> None:
    document = {"l": list(range(1000))}
    result = patched(document, *[{"op": "add", "path": "/l/-", "value": index} for index in range(9000)])
    assert len(result["l"]) == 10_000
    assert len(document["l"]) == 1000
