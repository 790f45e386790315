"""Trust is lost by failing different workloads, and comes back with time and good starts."""

from __future__ import annotations

from fathom.schedule.context import QUARANTINED
from fathom.schedule.trust import HALF_LIFE_S, Lost, after_failure, after_start, faded


def test_a_node_that_fails_four_workloads_is_quarantined() -> None:
    lost = Lost()
    for number in range(4):
        lost = after_failure(lost, f"web-{number}", now_s=number)
    assert (lost.points >= QUARANTINED, lost.blamed) == (True, ("web-0", "web-1", "web-2", "web-3"))


def test_one_workload_that_fails_for_ever_costs_a_node_little() -> None:
    lost = Lost()
    for number in range(100):
        lost = after_failure(lost, "crashes-everywhere", now_s=number)
    assert 0 < lost.points <= 30


def test_time_gives_back_what_was_lost_and_forgets_whom_it_blamed() -> None:
    lost = Lost(80, 0, ("a", "b"))
    assert faded(lost, now_s=HALF_LIFE_S) == Lost(40, HALF_LIFE_S, ("a", "b"))
    assert faded(lost, now_s=20 * HALF_LIFE_S) == Lost(0, 20 * HALF_LIFE_S)
    points = [faded(lost, now_s=second).points for second in range(0, 5 * HALF_LIFE_S, 7)]
    assert points == sorted(points, reverse=True)


def test_good_starts_give_trust_back() -> None:
    lost = after_failure(Lost(), "web", now_s=0)
    lost = after_start(lost, now_s=0)
    assert after_start(lost, now_s=0) == Lost(0, 0)
