"""Plans are data: what they may say, and how to tell from an object whether a plan's action is done."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.control.ownership import owned
from fathom.control.plan import (
    INTENT,
    NOTHING,
    OWN_WRITES,
    Action,
    Create,
    Delete,
    Patch,
    Plan,
    Target,
    WriteStatus,
    add_finalizer,
    adopt,
    contains,
    is_done,
    release,
    remove_finalizer,
    target,
)
from fathom.kube.patch.merge_patch import merge
from fathom.model.invariant import InvariantBroken
from fathom.model.objects import Key, Obj, with_metadata

AT = Target("Pod", Key("ns", "x"), "u", "7")


def owner(uid: str = "o") -> Obj:
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "uid": uid}}


def pod(**meta: Any) -> Obj:
    return {"metadata": {"namespace": "ns", "name": "x", "uid": "u", "resourceVersion": "7", **meta}}


def test_a_plan_that_destroys_must_say_how_fresh_its_view_has_to_be() -> None:
    with pytest.raises(InvariantBroken, match=r"delete Pod ns/x"):
        Plan(deletes=(Delete(AT),))
    with pytest.raises(InvariantBroken):
        Plan(patches=(Patch(AT, {"spec": {"replicas": 9}}, destructive=True),))
    assert Plan(deletes=(Delete(AT),), needs=(OWN_WRITES,)).destroys
    assert not Plan(creates=(Create("Pod", pod()),), patches=(Patch(AT, {}),)).destroys


def test_what_is_created_must_have_a_name_that_follows_from_the_intent() -> None:
    with pytest.raises(InvariantBroken, match="without a name"):
        Create("Pod", {"metadata": {"generateName": "web-"}})


def test_a_plan_reads_as_lines_and_as_one_word() -> None:
    plan = Plan(
        creates=(Create("Pod", pod()),),
        patches=(Patch(AT, {}, subresource="scale"),),
        deletes=(Delete(Target("Node", Key("", "n"), "u", "")),),
        statuses=(WriteStatus(AT, {}),),
        needs=(OWN_WRITES,),
    )
    assert [action.line for action in (*plan.actions, *plan.statuses)] == [
        "create Pod ns/x",
        "patch Pod ns/x/scale",
        "delete Node n",
        "status Pod ns/x",
    ]
    assert (plan.verdict, NOTHING.verdict) == ("create+patch+delete+status", "nothing")


def test_a_target_is_the_object_as_it_was_read() -> None:
    assert target("Pod", pod()) == AT


CREATE = Create("Pod", owned(with_metadata(pod(), uid=None), owner()))
MARKED = Create("Pod", owned(with_metadata(pod(), uid=None, annotations={INTENT: "a"}), owner()))


@pytest.mark.parametrize(
    ("action", "found", "done"),
    [
        (CREATE, None, False),
        (CREATE, owned(pod(), owner()), True),
        (CREATE, pod(), False),
        (CREATE, owned(pod(), owner("other")), False),
        (CREATE, owned(pod(deletionTimestamp="t"), owner()), False),
        (MARKED, owned(pod(), owner()), False),
        (MARKED, owned(pod(annotations={INTENT: "b"}), owner()), False),
        (MARKED, owned(pod(annotations={INTENT: "a"}), owner()), True),
        (Create("Pod", pod()), pod(uid="whoever"), True),
        (Patch(AT, {"spec": {"a": 1}}), {**pod(), "spec": {"a": 1, "b": 2}}, True),
        (Patch(AT, {"spec": {"a": 1}}), {**pod(), "spec": {"a": 2}}, False),
        (Patch(AT, {"spec": {"a": 1}}), {**pod(uid="another"), "spec": {"a": 1}}, False),
        (Patch(AT, {"spec": {"a": None}}), {**pod(), "spec": {}}, True),
        (Patch(AT, {"spec": {"a": None}}), {**pod(), "spec": {"a": 0}}, False),
        (Patch(AT, {"spec": {}}), None, False),
        (Delete(AT), None, True),
        (Delete(AT), pod(uid="a namesake"), True),
        (Delete(AT), pod(deletionTimestamp="t"), True),
        (Delete(AT), pod(), False),
        (WriteStatus(AT, {"n": 1}), {**pod(), "status": {"n": 1, "m": 2}}, True),
        (WriteStatus(AT, {"n": 1}), pod(), False),
    ],
)
def test_whether_an_action_is_done_is_told_from_the_object(
    action: Action, found: Obj | None, done: bool
) -> None:
    assert is_done(action, found) is done


json = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("xyz"), json, max_size=3)


def without_nulls(value: Any) -> Any:
    """As servers store objects: no field is null."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return value


@given(objects, objects)
def test_an_object_contains_a_patch_exactly_if_applying_it_changes_nothing(found: Obj, patch: Obj) -> None:
    found = without_nulls(found)
    assert contains(found, patch) == (merge(found, patch) == found)


def test_common_actions_are_bound_to_what_was_read() -> None:
    free, mine = pod(), owned(pod(finalizers=["a/b"]), owner())
    reference = mine["metadata"]["ownerReferences"]
    assert adopt("Pod", free, owner()) == Patch(AT, {"metadata": {"ownerReferences": reference}})
    assert release("Pod", mine, owner()) == Patch(AT, {"metadata": {"ownerReferences": []}})
    assert add_finalizer("Pod", free, "a/b") == (Patch(AT, {"metadata": {"finalizers": ["a/b"]}}),)
    assert add_finalizer("Pod", mine, "a/b") == ()
    assert remove_finalizer("Pod", mine, "a/b") == (Patch(AT, {"metadata": {"finalizers": []}}),)
    assert remove_finalizer("Pod", free, "a/b") == ()
