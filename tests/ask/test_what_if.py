"""The patches of a what-if, as users write them."""

from __future__ import annotations

import pytest

from fathom.ask.table import resource_of
from fathom.explain.why.what_if import BadPatch, ObjectPatch, read_patch


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('node/n={"a":1}', ObjectPatch("nodes", "", "n", {"a": 1})),
        ("pod/web=null", ObjectPatch("pods", "shop", "web", None)),
        ('TenantQuota/shop={"spec":{}}', ObjectPatch("tenantquotas.fathom.dev", "", "shop", {"spec": {}})),
    ],
)
def test_a_patch_names_its_object_as_kubectl_does(text: str, expected: ObjectPatch) -> None:
    assert read_patch(text, "shop", resource_of) == expected


@pytest.mark.parametrize("text", ["node/n", "node={}", "nosuch/n={}", "node/n={", "/n={}"])
def test_a_patch_that_cannot_be_read_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadPatch):
        read_patch(text, "shop", resource_of)
