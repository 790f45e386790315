"""Bounds: how fast, how many at once, how large, how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.auth.cluster import StoppedClock, target, user

from fathom.api.auth.authenticate import NOBODY
from fathom.api.limits import (
    RateLimit,
    RequestRate,
    Throttle,
    is_long,
    timeout_s,
)
from fathom.model.errors import ApiError
from fathom.model.user import MASTERS

JANE, JOE, ROOT = user("jane"), user("joe"), user("root", MASTERS)


def admitted(limit: RateLimit, times: int) -> int:
    count = 0
    for _ in range(times):
        try:
            limit.check(JANE)
        except ApiError:
            continue
        count += 1
    return count


def test_a_user_may_burst_and_then_go_on_at_the_rate() -> None:
    clock = StoppedClock()
    limit = RateLimit(clock, RequestRate(per_s=10, burst=20))
    assert admitted(limit, 30) == 20
    clock.pass_s(1)
    assert admitted(limit, 30) == 10
    clock.pass_s(100)
    assert admitted(limit, 30) == 20


def test_a_refusal_says_when_to_come_back_and_costs_nothing() -> None:
    clock = StoppedClock()
    limit = RateLimit(clock, RequestRate(per_s=1, burst=2))
    assert admitted(limit, 100) == 2
    with pytest.raises(ApiError) as error:
        limit.check(JANE)
    status = error.value.status()
    assert (status["code"], status["reason"], status["details"]) == (
        429,
        "TooManyRequests",
        {"retryAfterSeconds": 1},
    )
    clock.pass_s(1)
    limit.check(JANE)


def test_users_have_separate_buckets_and_masters_and_probes_none() -> None:
    limit = RateLimit(StoppedClock(), RequestRate(per_s=1, burst=1))
    limit.check(JANE)
    limit.check(JOE)
    for _ in range(100):
        limit.check(ROOT)
        limit.check(NOBODY)
    with pytest.raises(ApiError, match="Too many requests"):
        limit.check(JOE)


def test_the_table_of_users_is_bounded_and_forgets_the_one_unseen_for_longest() -> None:
    limit = RateLimit(StoppedClock(), RequestRate(per_s=1, burst=1, users_max=2))
    limit.check(JANE)
    for n in range(10):
        with pytest.raises(ApiError):
            limit.check(JANE)  # Seen again and again: never the one that is forgotten.
        limit.check(user(f"u{n}"))
    assert len(limit._full_at_ns) == 2


@given(
    st.integers(1, 50),
    st.integers(1, 50),
    st.lists(st.tuples(st.floats(0, 2), st.integers(0, 60)), max_size=20),
)
def test_no_more_than_burst_and_rate_are_ever_admitted(
    per_s: int, burst: int, steps: list[tuple[float, int]]
) -> None:
    clock = StoppedClock()
    limit, total, passed_s = RateLimit(clock, RequestRate(per_s=per_s, burst=burst)), 0, 0.0
    for wait_s, times in steps:
        clock.pass_s(wait_s)
        passed_s += wait_s
        total += admitted(limit, times)
        assert total <= burst + passed_s * per_s + 1


def test_a_full_room_turns_away_until_someone_leaves() -> None:
    throttle = Throttle(StoppedClock(), readonly_max=1, mutating_max=1)
    read, write, watch = target("get", "pods"), target("create", "pods"), target("watch", "pods")
    with throttle.room(JANE, write):
        with pytest.raises(ApiError, match="Too many requests"), throttle.room(JOE, write):
            pass
        with pytest.raises(ApiError, match="Too many requests"), throttle.writing():
            pass
        for who, asked in ((JOE, read), (ROOT, write), (JOE, watch)):
            with throttle.room(who, asked):
                pass
    with throttle.room(JOE, write):
        pass


def test_a_request_that_fails_leaves_its_room() -> None:
    throttle = Throttle(StoppedClock(), readonly_max=1)
    for _ in range(3):
        with pytest.raises(RuntimeError), throttle.room(JANE, target("list", "pods")):
            raise RuntimeError
    assert throttle.reading().count == 0


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ("", 60.0),
        ("10s", 10.0),
        ("1m30s", 60.0),
        ("500ms", 0.5),
        ("1.5s", 1.5),
        ("0s", 60.0),
        ("24h", 60.0),
    ],
)
def test_a_request_may_ask_for_less_time_but_not_for_more(asked: str, seconds: float) -> None:
    assert timeout_s(target("list", "pods"), asked) == seconds


@pytest.mark.parametrize("asked", ["10", "-5s", "s", "x", "1d", "٣s", "1e9s", "inf", "9" * 1000 + "s", "1s1"])
def test_a_time_that_cannot_be_read_is_a_bad_request(asked: str) -> None:
    with pytest.raises(ApiError, match="invalid duration") as error:
        timeout_s(target("list", "pods"), asked)
    assert error.value.code == 400


@pytest.mark.parametrize("what", ["pods/log", "pods/exec"])
def test_answers_that_go_on_have_no_deadline(what: str) -> None:
    assert timeout_s(target("watch", "pods")) is None
    assert timeout_s(target("get", what, name="x")) is None
    assert is_long(target("get", what, name="x"))
