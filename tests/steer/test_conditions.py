"""Conditions have three values: what is missing or stale is Unknown, and Unknown never passes."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.kinds.runbook import RunbookCondition, RunbookInput, RunbookSpec
from fathom.kinds.shape import ObjectRef
from fathom.model.times import SECOND_NS, moment_ns
from fathom.steer.conditions import BadCondition, Conditions, Facts, Observation, Verdict

NOW = "2026-01-01T12:00:00Z"
NOW_NS = moment_ns(NOW) or 0


def judged(expression: str, *inputs: RunbookInput, **seen: Observation) -> Verdict:
    condition = RunbookCondition(name="c", expression=expression, message="it is not so")
    names = [given.name for given in inputs]
    more = tuple(RunbookInput(name=name) for name in seen if name not in names)
    content = RunbookSpec(inputs=(*inputs, *more), preconditions=(condition,))
    facts = Facts(NOW_NS, {"zone": "a"}, {"uid": "u1"}, {"make": {"state": "Done"}}, seen)
    return Conditions(content).judge((condition,), facts)[0]


def known(value: Any) -> Observation:
    return Observation(value)


UNREAD = Observation(None, "the API server does not answer")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("target.ready == 2", "True"),
        ("target.ready > 2", "False"),
        ("target.absent == 2", "Unknown"),
        ("unread.ready == 2", "Unknown"),
        ("!has(unread.ready)", "Unknown"),
        ("has(target.ready)", "True"),
        ("has(target.absent)", "False"),
        ("size(unread) == 0", "Unknown"),
        ("unread.all(each, each == 1)", "Unknown"),
        # The value does not depend on what is not known.
        ("unread.ready == 2 || target.ready == 2", "True"),
        ("unread.ready == 2 && target.ready == 3", "False"),
        ("unread.ready == 2 || target.ready == 3", "Unknown"),
        ("unread.ready == 2 && target.ready == 2", "Unknown"),
        ("!(unread.ready == 2)", "Unknown"),
        ("target.items.exists(each, each.b == 1 || each.a == 2)", "True"),
        ("target.items.all(each, each.b == 1)", "Unknown"),
        # What was read and is not there is known.
        ("gone == null", "True"),
        ("gone.status.ready == 1", "Unknown"),
        # Neither true nor false.
        ("target.ready", "Unknown"),
        ("params.zone == 'a' && run.uid == 'u1' && steps['make'].state == 'Done'", "True"),
        ("timestamp(now) - timestamp('2026-01-01T11:59:00Z') == duration('1m')", "True"),
    ],
)
def test_a_condition_is_true_false_or_unknown(expression: str, value: str) -> None:
    target = known({"ready": 2, "items": [{"a": 1}, {"a": 2}]})
    assert judged(expression, target=target, unread=UNREAD, gone=known(None)).value == value


def test_only_true_passes() -> None:
    verdicts = [judged(text, a=known(1), u=UNREAD) for text in ("a == 1", "a == 2", "u == 1")]
    assert [verdict.passes for verdict in verdicts] == [True, False, False]


def test_an_unknown_condition_says_what_was_not_read() -> None:
    assert judged("u.x == 1", u=UNREAD) == Verdict("c", "Unknown", "", "u: the API server does not answer")
    assert judged("a == 2", a=known(1)) == Verdict("c", "False", "", "it is not so")


def test_an_object_that_is_older_than_its_input_allows_is_unknown() -> None:
    signals = RunbookInput(name="signals", time_path="status.observedAt", max_age="30s")

    def written(seconds: int) -> Observation:
        at = f"2026-01-01T11:59:{60 - seconds:02d}Z"
        return known([{"metadata": {"name": "s"}, "status": {"observedAt": at, "signals": []}}])

    expression = "signals.all(each, size(each.status.signals) == 0)"
    assert judged(expression, signals, signals=written(20)).value == "True"
    stale = judged(expression, signals, signals=written(40))
    assert stale == Verdict("c", "Unknown", "", "signals: s is stale: written at 2026-01-01T11:59:20Z")
    without = known({"metadata": {"name": "s"}, "status": {}})
    assert judged("true || signals == null", signals, signals=without).value == "True"
    assert judged("has(signals.status)", signals, signals=without).value == "Unknown"


def test_an_object_from_the_future_is_unknown() -> None:
    """A clock is wrong: what looks an hour younger than now may be old. Clocks that differ by less than the
    age that is allowed do not matter."""
    signal = RunbookInput(name="signal", time_path="data.at", max_age="30s")

    def written(at: str) -> Observation:
        return known({"metadata": {"name": "s"}, "data": {"at": at}})

    assert judged("has(signal.data)", signal, signal=written("2026-01-01T12:00:30Z")).value == "True"
    ahead = judged("has(signal.data)", signal, signal=written("2026-01-01T12:00:31Z"))
    message = "signal: s is from the future: written at 2026-01-01T12:00:31Z; a clock is wrong"
    assert ahead == Verdict("c", "Unknown", "", message)


def test_a_status_about_an_older_generation_is_unknown() -> None:
    given = RunbookInput(name="target", object=ObjectRef(kind="Deployment", name="web"), observed=True)

    def seen(observed: int) -> Observation:
        return known(
            {"metadata": {"name": "web", "generation": 3}, "status": {"observedGeneration": observed, "n": 1}}
        )

    assert judged("target.status.n == 1", given, target=seen(3)).value == "True"
    assert judged("target.status.n == 1", given, target=seen(2)) == Verdict(
        "c", "Unknown", "", "target: the status of web is about generation 2, not 3"
    )


def test_evidence_is_shown_with_the_verdict() -> None:
    condition = RunbookCondition(
        name="c", expression="a.n > 1", show="string(a.n) + ' pods'", message="too few"
    )
    content = RunbookSpec(inputs=(RunbookInput(name="a"),), preconditions=(condition,))
    facts = Facts(NOW_NS, {}, {}, {}, {"a": known({"n": 1})})
    assert Conditions(content).judge((condition,), facts) == (Verdict("c", "False", "1 pods", "too few"),)


@pytest.mark.parametrize("expression", ["unheard == 1", "a ==", "a.b("])
def test_an_expression_that_cannot_be_compiled_is_refused_before_the_run(expression: str) -> None:
    with pytest.raises(BadCondition, match="condition c: "):
        judged(expression, a=known(1))


def test_time_is_what_the_caller_says() -> None:
    assert NOW_NS % SECOND_NS == 0
    assert judged("now == '2026-01-01T12:00:00Z'").value == "True"
