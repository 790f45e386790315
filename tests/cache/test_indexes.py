"""Ready-made indexes, and what they make of objects that others wrote."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.cache.indexes import (
    FOR_NODES,
    FOR_PODS,
    Index,
    by_node,
    by_owner,
    by_policy_revision,
    by_priority_class,
    by_tenant,
    by_zone,
)
from fathom.model.objects import Obj


@pytest.mark.parametrize(
    ("index", "obj", "values"),
    [
        (by_node, {"spec": {"nodeName": "n1"}}, ("n1",)),
        (by_node, {"spec": {}}, ("",)),
        (by_zone, {"metadata": {"labels": {"topology.kubernetes.io/zone": "a"}}}, ("a",)),
        (by_zone, {"metadata": {}}, ()),
        (by_tenant, {"metadata": {"namespace": "risk", "labels": {"fathom.dev/tenant": "bank"}}}, ("bank",)),
        (by_tenant, {"metadata": {"namespace": "risk"}}, ("risk",)),
        (by_tenant, {"metadata": {"name": "risk"}}, ("risk",)),
        (by_owner, {"metadata": {"ownerReferences": [{"uid": "1"}, {"uid": "2"}]}}, ("1", "2")),
        (by_priority_class, {"spec": {"priorityClassName": "high"}}, ("high",)),
        (by_policy_revision, {"metadata": {"annotations": {"fathom.dev/policy": "v5"}}}, ("v5",)),
    ],
)
def test_an_object_is_found_under(index: Index, obj: Obj, values: tuple[str, ...]) -> None:
    assert tuple(index(obj)) == values


NAMES = st.sampled_from(
    ["metadata", "spec", "labels", "annotations", "ownerReferences", "uid", "nodeName", "namespace", "name"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(NAMES, JSON, max_size=4))
def test_no_object_makes_an_index_raise_or_give_anything_but_strings(obj: dict[str, Any]) -> None:
    for index in {**FOR_PODS, **FOR_NODES}.values():
        assert all(isinstance(value, str) for value in index(obj))
