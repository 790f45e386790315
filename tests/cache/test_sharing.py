"""Siblings use each other's parts, and no value changes by it."""

from __future__ import annotations

import copy

import pytest

from fathom.cache.sharing import FAMILIES_MAX, Families, is_typed
from fathom.client.api import Resource
from fathom.model.body import encode_json
from fathom.model.objects import Obj

PODS = Resource("", "v1", "pods")
CUSTOM = Resource("example.com", "v1", "widgets")


def sibling(name: str, owner: str = "rs") -> Obj:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "ownerReferences": [{"uid": owner}], "labels": {"app": "web"}},
        "spec": {"nodeName": f"node-{name}", "containers": [{"name": "c", "image": "i"}]},
    }


def test_siblings_share_what_is_equal_and_keep_what_is_not() -> None:
    families = Families(PODS)
    one, other = sibling("one"), sibling("other")
    before = copy.deepcopy(other)
    families.share(one)
    families.share(other)
    assert other == before
    assert other["spec"]["containers"] is one["spec"]["containers"]
    assert other["metadata"]["labels"] is one["metadata"]["labels"]
    assert other["metadata"] is not one["metadata"]


def test_strangers_share_nothing() -> None:
    families = Families(PODS)
    one, other = sibling("one"), sibling("other", owner="another")
    families.share(one)
    families.share(other)
    assert other["spec"]["containers"] is not one["spec"]["containers"]


@pytest.mark.parametrize(("mine", "theirs"), [(True, 1), (1, True), (1.0, 1), ([0], [False])])
def test_a_free_form_value_is_never_taken_for_one_that_python_calls_equal(
    mine: object, theirs: object
) -> None:
    families = Families(CUSTOM)
    obj = {"metadata": {"namespace": "ns"}, "spec": {"value": mine}}
    families.share({"metadata": {"namespace": "ns"}, "spec": {"value": theirs}})
    families.share(obj)
    assert encode_json(obj["spec"]) == encode_json({"value": mine})


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
    families = Families(PODS)
    for number in range(FAMILIES_MAX + 10):
        families.share(sibling("x", owner=str(number)))
    assert len(families._first) == FAMILIES_MAX


@pytest.mark.parametrize(
    "obj", [{}, {"metadata": {"ownerReferences": "x"}}, {"metadata": {"ownerReferences": [1]}}]
)
def test_odd_objects_pass(obj: Obj) -> None:
    families = Families(PODS)
    families.share(copy.deepcopy(obj))
    families.share(obj)
