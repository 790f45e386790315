"""How long everybody waits after a failure."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from fathom.agent.backoff import CRASH_LOOP
from fathom.controllers.job.plan import BACKOFF as JOB
from fathom.model.backoff import Backoff


def test_a_wait_doubles_with_each_failure_up_to_its_limit() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.whole_s(failures) for failures in (0, 1, 2, 3, 4, 5)] == [0.5, 0.5, 1.0, 2.0, 3.0, 3.0]


def test_containers_and_jobs_wait_as_long_as_kubernetes_says() -> None:
    assert [CRASH_LOOP.whole_s(failures) for failures in range(1, 8)] == [10, 20, 40, 80, 160, 300, 300]
    assert [JOB.whole_s(failures) for failures in range(1, 9)] == [10, 20, 40, 80, 160, 320, 600, 600]


@given(st.integers(0, 10**9), st.integers(0, 2**32))
def test_half_of_a_wait_is_chance_and_the_same_for_the_same_seed(failures: int, seed: int) -> None:
    backoff = Backoff(0.05, 30.0)
    waited_s = backoff.jittered_s(failures, random.Random(seed))
    assert backoff.whole_s(failures) / 2 <= waited_s <= backoff.whole_s(failures) <= 30.0
    assert waited_s == backoff.jittered_s(failures, random.Random(seed))
