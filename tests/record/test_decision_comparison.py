"""Decisions of a replay beside those of the live process: the first that differs is named."""

from __future__ import annotations

import zlib

from tests.record.test_journal import decision

from fathom.model.decision import RecordedVerdicts
from fathom.record.decision_comparison import DecisionComparison, LiveDecisions, summary_of
from fathom.record.journal_trimming import in_brief


def compared(live: list[int], replayed: list[int]) -> DecisionComparison:
    comparison = DecisionComparison(LiveDecisions(tuple(decision(number) for number in live)))
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
    comparison = DecisionComparison(LiveDecisions((in_brief(full),)))
    comparison.add(full)
    assert comparison.changed is None
    other = DecisionComparison(LiveDecisions((in_brief(full),)))
    other.add(decision(1, message="why", node="b"))
    assert other.changed is not None


def test_decisions_that_the_journal_no_longer_has_are_not_compared() -> None:
    assert compared([3], [1, 2, 3]).changed is None


def test_decisions_of_an_earlier_process_do_not_count() -> None:
    comparison = DecisionComparison(LiveDecisions((decision(1), decision(5))), since_ns=3)
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


def test_a_live_decision_that_the_replay_leaves_out_is_named_with_the_next_that_it_makes() -> None:
    changed = compared([1, 2, 3], [1, 3]).changed
    assert changed is not None
    assert (changed.live, changed.replayed) == (summary_of(decision(2)), None)


def test_a_live_decision_that_the_replay_has_not_made_by_the_end_of_the_tape_is_named() -> None:
    comparison = compared([1, 2], [1])
    comparison.end(decision(2).time_ns)
    assert comparison.changed is not None
    assert comparison.changed.live == summary_of(decision(2))


def test_a_live_decision_from_after_the_end_of_the_tape_is_not_missing() -> None:
    comparison = compared([1, 5], [1])
    comparison.end(decision(4).time_ns)
    assert comparison.changed is None


def whole(*numbers: int) -> DecisionComparison:
    return DecisionComparison(LiveDecisions(tuple(map(decision, numbers)), whole=True))


def test_a_decision_of_the_replay_alone_is_named_if_the_journal_is_whole_and_the_tape_goes_on() -> None:
    comparison = whole(1, 3)
    comparison.add(decision(1))
    comparison.add(decision(2))
    before = comparison.changed
    comparison.went_on()
    after = comparison.changed
    assert before is None
    assert after is not None
    assert (after.live, after.replayed) == (None, summary_of(decision(2)))


def test_a_decision_that_a_killed_process_had_no_time_to_record_is_no_difference() -> None:
    comparison = whole(1)
    comparison.add(decision(1))
    comparison.add(decision(2))
    comparison.end(decision(2).time_ns)
    assert comparison.changed is None


def test_what_the_host_of_a_process_decides_is_not_expected_of_the_replay() -> None:
    endpoint = decision(2, controller="scheduler/endpoint")
    comparison = DecisionComparison(LiveDecisions((decision(1), endpoint, decision(3)), whole=True))
    for number in (1, 3):
        comparison.add(decision(number))
    comparison.end(decision(9).time_ns)
    assert comparison.changed is None


def test_another_reason_of_a_node_is_a_difference_of_the_decision_that_refers_to_the_table() -> None:
    def table(codes: bytes) -> RecordedVerdicts:
        packed = zlib.compress(codes)
        return RecordedVerdicts(id="t", roster="r", reasons=("", "full"), codes=packed)

    placed = decision(1, verdicts="t")
    live = LiveDecisions((placed,), (table(b"\0\1"),))
    same, other = DecisionComparison(live), DecisionComparison(live)
    same.add_table(table(b"\0\1"))
    same.add(placed)
    assert same.changed is None
    other.add_table(table(b"\1\0"))
    other.add(placed)
    assert other.changed is not None
    assert other.changed.fields == ("verdicts",)


def test_a_request_is_of_the_decision_that_it_names() -> None:
    comparison = compared([], [1, 2])
    sent = comparison.around(2, replayed=True, sent_for=decision(1).id)
    assert sent is not None
    assert sent.replayed == summary_of(decision(1))
