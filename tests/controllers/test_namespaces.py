"""How a namespace ends."""

from __future__ import annotations

from fathom.controllers.housekeeping.namespaces import NamespaceCleanup, conditions, plan_namespace
from fathom.model.objects import Obj

NOW = "2026-01-01T00:00:00Z"


def namespace(*, deleting: bool = True) -> Obj:
    meta = {"name": "a"} | ({"deletionTimestamp": NOW} if deleting else {})
    return {"metadata": meta, "spec": {"finalizers": ["kubernetes"]}}


def inside(**meta: object) -> Obj:
    return {"metadata": {"name": "x", **meta}}


def test_an_active_namespace_is_left_alone() -> None:
    assert plan_namespace(namespace(deleting=False), {"pods": [inside()]}) == NamespaceCleanup()


def test_an_empty_terminating_namespace_is_finalized() -> None:
    assert plan_namespace(namespace(), {}) == NamespaceCleanup(finalize=True)


def test_contents_are_deleted_once_and_then_waited_for() -> None:
    going = inside(deletionTimestamp=NOW, finalizers=["example.com/hold"])
    plan = plan_namespace(namespace(), {"pods": [inside()], "secrets": [going]})
    assert plan == NamespaceCleanup(
        delete=("pods",), remaining=(("pods", 1), ("secrets", 1)), held=(("example.com/hold", 1),)
    )


def test_conditions_say_what_is_left_and_keep_their_transition_time() -> None:
    plan = NamespaceCleanup(remaining=(("pods", 2),))
    first = conditions(plan, now=NOW, before=[])
    again = conditions(plan, now="2026-01-02T00:00:00Z", before=first)
    assert again == first
    assert [(one["type"], one["status"]) for one in first] == [
        ("NamespaceContentRemaining", "True"),
        ("NamespaceFinalizersRemaining", "False"),
    ]
    assert first[0]["message"] == "Some resources are remaining: pods has 2 resource instances"
