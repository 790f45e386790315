"""A wall clock that is set makes nothing older."""

from __future__ import annotations

from fathom.controllers.ages import Ages
from fathom.controllers.autoscaler.plan_behavior import History
from fathom.model.objects import Key

KEY, S = Key("d", "web"), 1_000_000_000


def test_what_is_seen_to_begin_is_as_old_as_we_have_seen_it() -> None:
    ages = Ages()
    assert ages.age_s(KEY, None, now="2026-01-01T00:00:00Z", now_ns=0) is None
    assert ages.age_s(KEY, "2026-01-01T00:00:01Z", now="2026-01-01T00:00:01Z", now_ns=S) == 0
    assert ages.age_s(KEY, "2026-01-01T00:00:01Z", now="2027-01-01T00:00:00Z", now_ns=6 * S) == 5
    assert ages.age_s(KEY, "2027-01-01T00:00:00Z", now="2027-01-01T00:00:00Z", now_ns=7 * S) == 0


def test_what_began_before_we_looked_is_as_old_as_the_clock_says_then() -> None:
    ages = Ages()
    assert ages.age_s(KEY, "2026-01-01T00:00:00Z", now="2026-01-01T00:01:00Z", now_ns=0) == 60
    assert ages.age_s(KEY, "2026-01-01T00:00:00Z", now="2020-01-01T00:01:00Z", now_ns=S) == 61


def test_a_timestamp_is_seen_from_when_it_was_first_there() -> None:
    ages = Ages()
    assert ages.seen_s(KEY, now_ns=0) == 0
    ages.age_s(KEY, "2026-01-01T00:00:00Z", now="2026-01-01T00:01:00Z", now_ns=S)
    assert ages.seen_s(KEY, now_ns=5 * S) == 4
    ages.age_s(KEY, "2026-01-01T00:01:04Z", now="2026-01-01T00:01:04Z", now_ns=5 * S)
    assert ages.seen_s(KEY, now_ns=6 * S) == 1


def test_what_an_autoscaler_wished_is_as_long_ago_on_whatever_clock() -> None:
    history = History().with_recommendation(100.0, 3).stepped(101.0, 2)
    assert history.shifted(3600.25).shifted(-3600.25) == history
