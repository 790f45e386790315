"""What stays whole in a journal that is thinned, and what stays as a line."""

from __future__ import annotations

import msgspec
import pytest
from tests.record.test_journal import FULL, decision, outcome

from fathom.model.cause import WakeCause
from fathom.model.decision import Considered, RecordedVerdicts, Roster, VerdictColumn
from fathom.record.journal_trimming import Record, thinned

USUAL = decision(1, verdict="bind", node="a", filters={"full": 2}, message="fits")
BRIEF = decision(1, verdict="bind", node="a", brief=True)
POLICY = Considered("spread", 7)


def test_what_went_as_usual_stays_as_a_line_with_what_came_of_it() -> None:
    assert list(thinned([USUAL, outcome(1)])) == [BRIEF, outcome(1)]


def test_a_decision_to_do_nothing_is_routine_and_keeps_its_reason() -> None:
    waits = decision(1, verdict="nothing", message="it waits for approval", filters={"full": 2})
    assert list(thinned([waits])) == [
        decision(1, verdict="nothing", message="it waits for approval", brief=True)
    ]


def test_no_trimming_drops_a_cause() -> None:
    cause = WakeCause("event", "", "nodes", "", "a", 17, event="changed")
    caused = msgspec.structs.replace(USUAL, cause=cause)
    (brief, _) = thinned([caused, outcome(1)])
    assert brief == msgspec.structs.replace(BRIEF, cause=cause)


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "unschedulable"},
        {"verdict": "create+hold"},
        {"priority": 1000},
        {"overrides": (Considered("avoid-zone"),)},
        {"quotas": (Considered("team", 3, decisive=True),)},
        {"victims": ("default/other: lower priority",)},
    ],
)
def test_what_was_unusual_stays_whole(changes: dict[str, object]) -> None:
    unusual = decision(1, message="this is why", **{"verdict": "bind", **changes})
    assert list(thinned([unusual, outcome(1)])) == [unusual, outcome(1)]


@pytest.mark.parametrize("ending", [(), ("conflict",), ("unknown", "settled"), ("rejected",)])
def test_a_decision_that_did_not_simply_succeed_stays_whole(ending: tuple[str, ...]) -> None:
    records: list[Record] = [USUAL, *(outcome(1, result) for result in ending)]
    assert list(thinned(records)) == records


def test_the_whole_story_of_an_object_that_had_trouble_stays() -> None:
    trouble = decision(2, verdict="unschedulable", subject=USUAL.subject)
    assert list(thinned([USUAL, outcome(1), trouble])) == [USUAL, outcome(1), trouble]


def test_the_first_decision_under_each_policy_stays_whole() -> None:
    first = decision(1, policies=(POLICY,), message="as v7 says")
    later = decision(2, policies=(POLICY,), message="as v7 says")
    under_next = decision(3, policies=(Considered("spread", 8),), message="as v8 says")
    ended = [outcome(number) for number in (1, 2, 3)]
    assert list(thinned([first, later, under_next, *ended])) == [
        first,
        decision(2, policies=(POLICY,), brief=True),
        under_next,
        *ended,
    ]


def test_tables_go_with_the_last_decision_that_needs_them() -> None:
    roster, column = Roster(id="r", names=("a",)), VerdictColumn(id="c", domains=b"")
    needed = RecordedVerdicts(id=FULL.verdicts, roster="r", reasons=("",), codes=b"", columns=("c",))
    other_roster, other = (
        Roster(id="r2", names=("b",)),
        RecordedVerdicts(id="v2", roster="r2", reasons=(), codes=b""),
    )
    usual = decision(2, verdict="bind", verdicts="v2")
    records: list[Record] = [roster, other_roster, column, needed, other, FULL, usual, outcome(2)]
    assert list(thinned(records)) == [
        roster,
        column,
        needed,
        FULL,
        decision(2, verdict="bind", brief=True),
        outcome(2),
    ]
