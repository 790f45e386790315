"""Names that follow from the owner and the slot; children that have one owner."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.control.ownership import (
    OwnerClaims,
    adopted,
    child_name,
    claims,
    controller_of,
    free_slots,
    is_controlled_by,
    named_after,
    orphaned,
    owned,
    slot_of,
    taken_slots,
    with_finalizer,
    without_finalizer,
)
from fathom.model.formats import dns_label
from fathom.model.objects import Obj

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,90}[a-z0-9])?", fullmatch=True)


def owner(name: str = "web", uid: str = "u1", **meta: Any) -> Obj:
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "uid": uid, **meta}}


def child(name: str = "c", **meta: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": f"of-{name}", **meta}}


REFERENCE = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "web",
    "uid": "u1",
    "controller": True,
    "blockOwnerDeletion": True,
}


def test_a_child_names_its_controller_beside_its_other_owners() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u9"}
    made = owned(child(ownerReferences=[other]), owner())
    assert made["metadata"]["ownerReferences"] == [other, REFERENCE]
    assert owned(made, owner()) == made
    assert controller_of(made) == REFERENCE
    assert is_controlled_by(made, owner())
    assert not is_controlled_by(made, owner(uid="u2"))
    assert not is_controlled_by(child(), owner())


@given(NAMES, st.integers(0, 10**6))
def test_the_slot_can_be_read_off_the_name_and_the_name_is_a_label(name: str, slot: int) -> None:
    made = child_name(name, slot)
    assert dns_label(made) == []
    assert slot_of(child(made), owner(name)) == slot


@given(NAMES, st.lists(st.integers(0, 10**6), unique=True))
def test_different_slots_have_different_names(name: str, slots: list[int]) -> None:
    assert len({child_name(name, slot) for slot in slots}) == len(slots)


def test_long_names_that_begin_alike_stay_apart() -> None:
    one, two = "x" * 70 + "a", "x" * 70 + "b"
    assert child_name(one, 1) != child_name(two, 1)
    assert len(child_name(one, 1)) == 63
    assert named_after("web", "eu-west") == "web-eu-west"
    assert named_after(one, "eu") != named_after(two, "eu")


@pytest.mark.parametrize("name", ["web", "web-", "web-01", "web--1", "web-x", "other-1", "web-1-2", "1"])
def test_a_child_that_was_named_otherwise_has_no_slot(name: str) -> None:
    assert slot_of(child(name), owner()) is None


def test_a_child_that_is_going_still_occupies_its_slot() -> None:
    children = [child("web-0"), child("web-2", deletionTimestamp="t"), child("adopted")]
    taken = taken_slots(children, owner())
    assert taken == [0, 2]
    assert free_slots(taken, 3) == [1, 3, 4]


@given(st.lists(st.integers(0, 30)), st.integers(0, 20))
def test_free_slots_are_the_lowest_that_nobody_has(taken: list[int], count: int) -> None:
    assert free_slots(taken, count) == [slot for slot in range(60) if slot not in taken][:count]


def test_others_children_are_never_touched() -> None:
    here = owner()
    mine = owned(child("mine", labels={"app": "web"}), here)
    strayed = owned(child("strayed"), here)
    free = child("free", labels={"app": "web"})
    theirs = owned(child("theirs", labels={"app": "web"}), owner("other", "u2"))
    going = child("going", labels={"app": "web"}, deletionTimestamp="t")
    unrelated = child("unrelated")

    def matches(obj: Obj) -> bool:
        return bool((obj["metadata"].get("labels") or {}).get("app") == "web")

    everyone = [mine, strayed, free, theirs, going, unrelated]
    assert claims(here, everyone, matches) == OwnerClaims(mine=(mine,), adopt=(free,), release=(strayed,))
    leaving = owner(deletionTimestamp="t")
    assert claims(leaving, everyone, matches) == OwnerClaims(mine=(mine,))


def test_adopting_adds_a_reference_and_releasing_takes_only_ours_away() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u9"}
    free = child("free", ownerReferences=[other])
    assert adopted(free, owner()) == [other, REFERENCE]
    assert orphaned(owned(free, owner()), owner()) == [other]


def test_finalizers_are_added_once_and_never_to_what_is_going() -> None:
    fresh = owner(finalizers=["a/x"])
    assert with_finalizer(fresh, "b/y") == ["a/x", "b/y"]
    assert with_finalizer(fresh, "a/x") is None
    assert with_finalizer(owner(deletionTimestamp="t"), "b/y") is None
    assert without_finalizer(fresh, "a/x") == []
    assert without_finalizer(fresh, "b/y") is None
