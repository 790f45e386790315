"""Decisions of a replay beside those of the live process: the first that differs is named."""

from __future__ import annotations

from tests.record.test_journal import decision

from fathom.record.decision_comparison import DecisionComparison, summary_of
from fathom.record.journal_trimming import in_brief


def compared(live: list[int], replayed: list[int]) -> DecisionComparison:
    comparison = DecisionComparison([decision(number) for number in live])
    for number in replayed:
        comparison.add(decision(number))
    return comparison


def test_equal_decisions_are_no_change() -> None:
    assert compared([1, 2, 3], [1, 2, 3]).changed is None


def test_the_first_decision_that_differs_is_named_with_its_fields() -> None:
    comparison = compared([1, 2], [1])
    other = decision(2, verdict="delete", message="too many")
    comparison.add(other)
    comparison.add(decision(3, verdict="hold"))
    changed = comparison.changed
    assert changed is not None
    assert changed.number == 2
    assert changed.fields == ("verdict", "message")
    assert (changed.live, changed.replayed) == (summary_of(decision(2)), summary_of(other))


def test_a_decision_that_the_journal_has_in_brief_is_compared_in_brief() -> None:
    full = decision(1, message="why", filters={"full": 2})
    comparison = DecisionComparison([in_brief(full)])
    comparison.add(full)
    assert comparison.changed is None
    other = DecisionComparison([in_brief(full)])
    other.add(decision(1, message="why", node="b"))
    assert other.changed is not None


def test_decisions_that_the_journal_no_longer_has_are_not_compared() -> None:
    assert compared([3], [1, 2, 3]).changed is None


def test_decisions_of_an_earlier_process_do_not_count() -> None:
    comparison = DecisionComparison([decision(1), decision(5)], since_ns=3)
    missing = comparison.around(10, replayed=False)
    assert missing is not None
    assert missing.live == summary_of(decision(5))


def test_a_live_decision_that_the_replay_did_not_make_is_named() -> None:
    missing = compared([1, 2, 3], [1]).around(2, replayed=False)
    assert missing is not None
    assert (missing.live, missing.replayed) == (summary_of(decision(2)), None)


def test_nothing_is_named_where_nothing_is_known() -> None:
    assert DecisionComparison().around(10, replayed=False) is None


def test_where_the_replay_stops_the_first_decision_that_it_does_not_make_is_named() -> None:
    stopped = compared([1, 9], [1]).around(2, replayed=False)
    assert stopped is not None
    assert stopped.live == summary_of(decision(9))


def test_a_later_live_decision_does_not_belong_to_a_request_of_the_replay() -> None:
    sent = compared([1, 9], [1]).around(2, replayed=True)
    assert sent is not None
    assert (sent.live, sent.replayed) == (None, summary_of(decision(1)))
