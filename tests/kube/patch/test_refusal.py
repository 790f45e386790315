"""A patch that leads to no object of the kind is refused as a patch, in kube's words."""

from __future__ import annotations

import pytest

from fathom.kube.patch.apply import check_type
from fathom.kube.patch.refusal import go_map, unreadable
from fathom.model.errors import ApiError, bad_request
from fathom.model.media_types import MERGE_PATCH, STRATEGIC_MERGE_PATCH

HANDLED = 'Deployment in version "v1" cannot be handled as a Deployment: '


def told(media: str, why: str) -> str:
    error = unreadable(
        media, b'{"spec":{"replicas":"x"}}', {"spec": {"replicas": "x"}}, bad_request(HANDLED + why)
    )
    assert (error.code, error.reason) == (422, "Invalid")
    return error.message


def test_after_a_merge_the_patched_object_is_shown() -> None:
    why = "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
    shown = '{\\"spec\\":{\\"replicas\\":\\"x\\"}}'
    assert told(MERGE_PATCH, why) == f' "" is invalid: patch: Invalid value: "{shown}": {why}'


@pytest.mark.parametrize(
    ("got", "wanted", "words"),
    [
        ("string", "int32", "unrecognized type: int32"),
        ("number", "string", "unrecognized type: string"),
        ("object", "[]v1.Container", "cannot restore slice from map"),
        ("array", "map[string]string", "cannot restore map from slice"),
        ("string", "v1.PodSpec", "cannot restore struct from: string"),
    ],
)
def test_after_a_strategic_merge_the_patch_is_shown(got: str, wanted: str, words: str) -> None:
    why = f"json: cannot unmarshal {got} into Go struct field DeploymentSpec.spec.x of type {wanted}"
    shown = "map[spec:map[replicas:x]]"
    assert told(STRATEGIC_MERGE_PATCH, why) == f' "" is invalid: patch: Invalid value: "{shown}": {words}'


def test_other_reasons_are_kept() -> None:
    assert told(STRATEGIC_MERGE_PATCH, 'strict decoding error: unknown field "spec.y"').endswith(
        '": strict decoding error: unknown field "spec.y"'
    )


def test_values_are_printed_as_go_prints_them() -> None:
    value = {"b": [1, 2.5, None], "a": {"yes": True, "no": False}, "c": {}}
    assert go_map(value) == "map[a:map[no:false yes:true] b:[1 2.5 <nil>] c:map[]]"


@pytest.mark.parametrize("media", ["application/apply-patch+yaml", "application/json", ""])
def test_the_type_of_a_patch_is_judged_before_anything_is_read(media: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_type(media, custom=False)
    assert refused.value.code == 415
