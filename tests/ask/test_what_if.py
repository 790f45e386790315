"""The patches of a what-if, as users write them."""

from __future__ import annotations

import pytest

from fathom.ask.table import resource_of
from fathom.explain.evidence import HeldObjects
from fathom.explain.why.what_if import BadPatch, ObjectPatch, PatchedObjects, read_patch
from fathom.model.objects import Key


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


CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
OTHER = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("before", "unschedulable", "after"),
    [
        ([OTHER, CORDON], None, [OTHER]),
        ([CORDON], False, []),
        ([OTHER], True, [OTHER, CORDON]),
        ([CORDON], True, [CORDON]),
    ],
)
def test_the_taint_of_a_cordon_comes_and_goes_with_it(
    before: list[object], unschedulable: bool | None, after: list[object]
) -> None:
    """The node controller would see to that: who asks what an uncordon does means that, too."""
    node = {"metadata": {"name": "n"}, "spec": {"unschedulable": CORDON in before, "taints": before}}
    patch = ObjectPatch("nodes", "", "n", {"spec": {"unschedulable": unschedulable}})
    patched = PatchedObjects(HeldObjects({"nodes": [node]}), [patch]).get("nodes", Key("", "n"))
    assert patched is not None
    assert patched["spec"]["taints"] == after
