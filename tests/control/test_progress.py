"""What an object's status says about how reconciling goes."""

from __future__ import annotations

from typing import Any

from fathom.control.progress import differs_in_words_only, is_only_progress, progress
from fathom.control.reconcile_result import Failure
from fathom.model.objects import Obj

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
FULL = Failure("Forbidden", "exceeded quota: few")


def obj(*conditions: Obj, generation: int = 2, **meta: Any) -> Obj:
    return {
        "metadata": {"name": "x", "generation": generation, "resourceVersion": "1", **meta},
        "spec": {},
        "status": {"conditions": list(conditions), "n": 1},
    }


def condition(named: str, status: str, reason: str, message: str = "", when: str = EARLY) -> Obj:
    return {
        "type": named,
        "status": status,
        "observedGeneration": 2,
        "lastTransitionTime": when,
        "reason": reason,
        "message": message,
    }


READY = condition("Ready", "False", "Writing")
RETRYING = condition("Reconciling", "True", "Forbidden", FULL.message)
STALLED = condition("Stalled", "True", "Forbidden", FULL.message)


def test_a_retry_is_reconciling_and_a_given_up_one_is_stalled() -> None:
    assert progress(obj(READY), FULL, given_up=False, now=EARLY) == [READY, RETRYING]
    assert progress(obj(READY), FULL, given_up=True, now=EARLY) == [READY, STALLED]
    assert progress(obj(RETRYING), FULL, given_up=True, now=LATE) == [
        condition("Reconciling", "False", "Forbidden", FULL.message, LATE),
        condition("Stalled", "True", "Forbidden", FULL.message, LATE),
    ]


def test_what_was_said_and_is_no_longer_so_is_taken_back() -> None:
    assert progress(obj(READY, RETRYING), None, given_up=False, now=LATE) == [
        READY,
        condition("Reconciling", "False", "Reconciled", when=LATE),
    ]


def test_those_who_were_never_told_of_trouble_are_not_told_that_all_is_well() -> None:
    calm = condition("Reconciling", "False", "Reconciled")
    for conditions in ((), (READY,), (READY, calm)):
        assert progress(obj(*conditions), None, given_up=False, now=LATE) == list(conditions)


def test_the_same_again_is_nothing_new() -> None:
    assert progress(obj(RETRYING), FULL, given_up=False, now=LATE) == [RETRYING]


def test_other_numbers_in_a_message_are_other_words_only() -> None:
    again = {**RETRYING, "message": "exceeded quota: many"}
    assert differs_in_words_only([READY, RETRYING], [READY, again])
    assert not differs_in_words_only([READY, RETRYING], [READY, {**again, "reason": "Conflict"}])


def test_a_long_message_is_cut() -> None:
    said = progress(obj(), Failure("Forbidden", "x" * 5000), given_up=False, now=EARLY)
    assert len(said[0]["message"]) == 1000


def test_a_change_of_what_we_say_about_ourselves_is_only_that() -> None:
    before, after = obj(READY), obj(READY, RETRYING, resourceVersion="2")
    assert is_only_progress(before, after)
    assert is_only_progress(after, before)
    assert is_only_progress(
        {"metadata": {"name": "x"}}, {"metadata": {"name": "x"}, "status": {"conditions": [RETRYING]}}
    )


def test_any_other_change_with_it_counts() -> None:
    before = obj(READY)
    for after in (
        obj(READY, RETRYING, generation=3),
        obj(READY, RETRYING, labels={"a": "b"}),
        obj({**READY, "status": "True"}, RETRYING),
        {**obj(READY, RETRYING), "spec": {"changed": True}},
        {**obj(READY, RETRYING), "status": {"conditions": [READY, RETRYING], "n": 2}},
        obj(READY, resourceVersion="2"),
    ):
        assert not is_only_progress(before, after)
