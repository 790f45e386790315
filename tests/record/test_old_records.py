from __future__ import annotations

import msgspec
import pytest

from fathom.model.cause import WakeCause
from fathom.model.decision import Decision, Outcome, RecordedVerdicts, Subject
from fathom.record.journal import decode_decision, decode_outcome, decode_verdicts

POD = ("pods", "shop", "web-1", 7)


@pytest.mark.parametrize(
    ("old", "now"),
    [
        (WakeCause("event", "added", *POD), WakeCause("event", "", *POD, event="added")),
        (WakeCause("event", "deleted", *POD), WakeCause("event", "", *POD, event="deleted", gone=True)),
        (
            WakeCause("event", "PodGone deleted from n-1", *POD),
            WakeCause("event", "deleted from n-1", *POD, event="PodGone", gone=True),
        ),
        (WakeCause("event", "PodGone on n-1", *POD), WakeCause("event", "on n-1", *POD, event="PodGone")),
        (WakeCause("event", "runtime"), WakeCause("event", event="runtime")),
    ],
)
def test_the_cause_of_an_old_decision_has_its_event_as_a_field_and_the_same_text(
    old: WakeCause, now: WakeCause
) -> None:
    assert decode_decision(msgspec.json.encode(decision(old))).cause == now
    assert now.text == old.text


@pytest.mark.parametrize(
    "cause",
    [
        WakeCause("timer", "Every 5 s"),
        WakeCause("event", "connections of the proxy"),
        WakeCause("event", "deleted from n-1", *POD, event="PodGone"),
        WakeCause("retry", "NodeFull: no room"),
    ],
)
def test_other_causes_are_read_as_they_are(cause: WakeCause) -> None:
    assert decode_decision(msgspec.json.encode(decision(cause))).cause == cause


def decision(cause: WakeCause) -> Decision:
    subject = Subject("pods", "shop", "web-1")
    return Decision(id="d", time_ns=1, controller="scheduler", subject=subject, verdict="bind", cause=cause)


@pytest.mark.parametrize(
    ("message", "verb", "expected"),
    [
        ("create Pod shop/web-1", "", "create"),
        ("status Pod shop/web-1: it failed", "", "status"),
        ("delete Pod shop/web-1", "evict", "evict"),
        ("no room", "", ""),
    ],
)
def test_an_old_outcome_has_its_verb_as_a_field(message: str, verb: str, expected: str) -> None:
    outcome = Outcome(id="d", time_ns=1, result="committed", message=message, verb=verb)
    assert decode_outcome(msgspec.json.encode(outcome)).verb == expected


def test_the_reasons_of_an_old_table_have_their_rules() -> None:
    old = RecordedVerdicts(id="v", roster="r", reasons=("", "NodePorts: in use"), codes=b"")
    assert decode_verdicts(msgspec.json.encode(old)).rules == ("", "NodePorts")
    new = msgspec.structs.replace(old, rules=("", "Another"))
    assert decode_verdicts(msgspec.json.encode(new)).rules == ("", "Another")
