"""One way to say a condition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.model.conditions import (
    conditions_of,
    find_condition,
    is_true,
    set_condition,
    without_condition,
)
from fathom.model.objects import Obj

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"


def condition(named: str, status: str = "True", reason: str = "Fine", **more: Any) -> Obj:
    return {"type": named, "status": status, "lastTransitionTime": EARLY, "reason": reason, **more}


def test_a_new_condition_is_appended_with_its_time() -> None:
    before = [condition("Available", message="")]
    after = set_condition(
        before, type="Ready", status="False", reason="Starting", message="0 of 2", observed_generation=3,
        now=LATE,
    )  # fmt: skip
    assert after == [
        condition("Available", message=""),
        {
            "type": "Ready",
            "status": "False",
            "observedGeneration": 3,
            "lastTransitionTime": LATE,
            "reason": "Starting",
            "message": "0 of 2",
        },
    ]
    assert before == [condition("Available", message="")]


def test_the_time_moves_only_when_the_status_does() -> None:
    before = [condition("Ready", message="")]
    same = set_condition(before, type="Ready", status="True", reason="Better", message="m", now=LATE)
    other = set_condition(before, type="Ready", status="False", reason="Worse", now=LATE)
    assert same == [condition("Ready", reason="Better", message="m")]
    assert other == [
        {"type": "Ready", "status": "False", "lastTransitionTime": LATE, "reason": "Worse", "message": ""}
    ]


def test_saying_the_same_again_changes_nothing() -> None:
    once = set_condition([], type="Ready", status="True", reason="Fine", observed_generation=1, now=EARLY)
    again = set_condition(once, type="Ready", status="True", reason="Fine", observed_generation=1, now=LATE)
    assert again == once


def test_who_looked_at_an_older_generation_does_not_overwrite() -> None:
    newer = [condition("Ready", observedGeneration=4)]
    for stale in (3, None):
        assert set_condition(
            newer, type="Ready", status="False", reason="Old", observed_generation=stale, now=LATE
        ) == newer  # fmt: skip


def test_a_condition_without_a_time_gets_one() -> None:
    timeless = [{"type": "Ready", "status": "True"}]
    after = set_condition(timeless, type="Ready", status="True", reason="x", now=LATE)
    assert after[0]["lastTransitionTime"] == LATE


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from(["True", "False", "Unknown"]))))
def test_order_is_first_come_and_there_is_one_of_each(said: list[tuple[str, Any]]) -> None:
    conditions: list[Obj] = []
    for type_, status in said:
        conditions = set_condition(conditions, type=type_, status=status, reason="x", now=EARLY)
    assert [each["type"] for each in conditions] == list(dict.fromkeys(type_ for type_, _ in said))
    assert {each["type"]: each["status"] for each in conditions} == dict(said)


def test_found_and_removed_by_type() -> None:
    both = [condition("A"), condition("B")]
    assert find_condition(both, "B") == condition("B")
    assert find_condition(both, "C") is None
    assert without_condition(both, "A") == [condition("B")]


@pytest.mark.parametrize("obj", [{}, {"status": None}, {"status": {"conditions": None}}, {"status": "x"}])
def test_an_object_without_conditions_has_none(obj: Obj) -> None:
    assert conditions_of(obj) == []


def test_a_condition_about_an_older_generation_does_not_hold_now() -> None:
    def obj(generation: int, said: Obj) -> Obj:
        return {"metadata": {"generation": generation}, "status": {"conditions": [said]}}

    assert is_true(obj(2, condition("Ready", observedGeneration=2)), "Ready")
    assert not is_true(obj(3, condition("Ready", observedGeneration=2)), "Ready")
    assert is_true(obj(3, condition("Ready")), "Ready")
    assert not is_true(obj(2, condition("Ready", "False", observedGeneration=2)), "Ready")
