"""The patch's content type chooses how it is applied; a bad one is the caller's fault, in kube's words."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from fathom.kube.definitions.definitions import load
from fathom.kube.patch.apply import apply_patch
from fathom.kube.patch.schema import PatchSchema, patch_schema
from fathom.model.errors import ApiError

JSON, MERGE, STRATEGIC = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
POD: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}}


@cache
def pods() -> PatchSchema | None:
    return patch_schema(load().schemas, "io.k8s.api.core.v1.Pod")


def refusal(content_type: str, patch: bytes, schema: PatchSchema | None = None) -> ApiError:
    with pytest.raises(ApiError) as refused:
        apply_patch(content_type, patch, POD, schema)
    return refused.value


def test_the_content_type_chooses() -> None:
    patch = b'{"spec":{"containers":[{"name":"b"}]}}'
    replaced = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "b"}]}}
    united = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "b"}, {"name": "a"}]}}
    assert apply_patch(MERGE, patch, POD, pods()) == replaced
    assert apply_patch(f"{MERGE}; charset=utf-8", patch, POD, None) == replaced
    assert apply_patch(STRATEGIC, patch, POD, pods()) == united
    operation = b'[{"op":"add","path":"/spec/containers/0","value":{"name":"b"}}]'
    assert apply_patch(JSON, operation, POD, None) == united
    assert POD == {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}}


def test_a_custom_resource_has_no_strategic_merge() -> None:
    error = refusal(STRATEGIC, b"{}")
    assert (error.code, error.reason) == (415, "UnsupportedMediaType")
    assert error.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json"
    )


@pytest.mark.parametrize(
    "content_type", ["", "application/json", "application/yaml", "text/plain", "application/apply-patch+cbor"]
)
def test_other_content_types_are_a_415(content_type: str) -> None:
    error = refusal(content_type, b"{}", pods())
    assert (error.code, error.reason) == (415, "UnsupportedMediaType")
    assert error.message.endswith(f"include: {JSON}, {MERGE}, {STRATEGIC}")


def test_where_nothing_can_be_applied_it_says_what_to_do_instead() -> None:
    error = refusal("application/apply-patch+yaml", b"{}", pods())
    assert (error.code, error.reason) == (415, "UnsupportedMediaType")
    assert error.message == "server-side apply is not supported here: apply the object itself"


@pytest.mark.parametrize("content_type", [JSON, MERGE, STRATEGIC])
@pytest.mark.parametrize(
    "patch",
    [
        b"",
        b"{",
        b"null",
        b'"x"',
        b"NaN",
        b"\xff\xfe",
        b'{"a":' * 3000 + b"1" + b"}" * 3000,
        b'{"a":' * 300 + b"1" + b"}" * 300,
        b"[" * 100_000,
    ],
)
def test_a_malformed_or_bottomless_patch_is_a_400(content_type: str, patch: bytes) -> None:
    error = refusal(content_type, patch, pods())
    assert (error.code, error.reason) == (400, "BadRequest")
    assert error.message.startswith("error decoding patch: ")


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
def test_the_deepest_patch_that_is_read_is_also_applied(content_type: str) -> None:
    patch = b'{"a":' * 190 + b"1" + b"}" * 190
    once = apply_patch(content_type, patch, POD, pods())
    assert apply_patch(content_type, patch, once, pods()) == once


def test_the_deepest_lists_of_items_are_also_applied() -> None:
    """Containers with environments with nonsense: the most frames that a level can take."""
    inner = b'[{"name":"a","env":' * 90 + b"[]" + b"}]" * 90
    patch = b'{"spec":{"containers":' + inner + b"}}"
    once = apply_patch(STRATEGIC, patch, POD, pods())
    assert apply_patch(STRATEGIC, patch, once, pods()) == once


def test_a_patch_must_leave_an_object() -> None:
    error = refusal(JSON, b'[{"op":"replace","path":"","value":[1]}]')
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.details["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "array": the patched object must be a JSON object',
            "field": "patch",
        }
    ]
