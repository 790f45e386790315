"""What happens to dependents when their owners go."""

from __future__ import annotations

from fathom.controllers.housekeeping.plan_garbage import (
    Collect,
    Owner,
    Release,
    RemoveOwners,
    plan_dependent,
    plan_owner,
    without_owners,
)
from fathom.model.objects import Obj


def obj(name: str, *, owners: tuple[str, ...] = (), **meta: object) -> Obj:
    references = [{"uid": uid, "name": uid, "blockOwnerDeletion": True} for uid in owners]
    return {"metadata": {"name": name, "uid": f"uid-{name}", "ownerReferences": references, **meta}}


LIVING, GONE = Owner("a", exists=True), Owner("b", exists=False)
WAITING = Owner("c", exists=True, waits=True)


def test_an_object_with_a_living_owner_stays() -> None:
    assert plan_dependent(obj("x"), (LIVING,), has_dependents=False) is None


def test_an_object_without_owners_is_nobodys_business() -> None:
    assert plan_dependent(obj("x"), (), has_dependents=False) is None


def test_an_object_whose_owners_are_all_gone_is_collected() -> None:
    assert plan_dependent(obj("x"), (GONE,), has_dependents=False) == Collect("Background")


def test_a_collected_object_goes_the_way_its_own_finalizers_ask() -> None:
    orphaning = obj("x", finalizers=["orphan"])
    assert plan_dependent(orphaning, (GONE,), has_dependents=True) == Collect("Orphan")


def test_an_object_forgets_owners_that_are_gone_while_another_lives() -> None:
    assert plan_dependent(obj("x"), (LIVING, GONE, WAITING), has_dependents=False) == RemoveOwners(("b", "c"))


def test_below_a_waiting_owner_the_deepest_dependents_go_first() -> None:
    assert plan_dependent(obj("x"), (WAITING,), has_dependents=True) == Collect("Foreground")
    assert plan_dependent(obj("x"), (WAITING,), has_dependents=False) == Collect("Background")


def test_an_object_that_is_going_anyway_is_left_alone() -> None:
    going = obj("x", deletionTimestamp="2026-01-01T00:00:00Z")
    assert plan_dependent(going, (GONE,), has_dependents=False) is None


def waiting_owner(finalizer: str) -> Obj:
    return obj("owner", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[finalizer])


def test_a_foreground_owner_waits_for_the_dependents_that_block_it() -> None:
    owner = waiting_owner("foregroundDeletion")
    assert plan_owner(owner, (obj("x", owners=("uid-owner",)),)) is None
    assert plan_owner(owner, ()) == Release("foregroundDeletion")


def test_a_dependent_that_does_not_block_holds_nobody_up() -> None:
    loose = obj("x")
    loose["metadata"]["ownerReferences"] = [{"uid": "uid-owner", "name": "owner"}]
    assert plan_owner(waiting_owner("foregroundDeletion"), (loose,)) == Release("foregroundDeletion")


def test_an_orphaning_owner_waits_until_it_is_forgotten() -> None:
    owner = waiting_owner("orphan")
    assert plan_owner(owner, (obj("x", owners=("uid-owner",)),)) is None
    assert plan_owner(owner, ()) == Release("orphan")


def test_an_owner_that_is_not_being_deleted_is_not_released() -> None:
    assert plan_owner(obj("owner", finalizers=["foregroundDeletion"]), ()) is None


def test_disowning_keeps_the_other_references() -> None:
    child = obj("x", owners=("a", "b"))
    assert [reference["uid"] for reference in without_owners(child, ("a",))] == ["b"]
