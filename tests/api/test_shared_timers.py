"""One timer for all who want to be woken at the same moment."""

from __future__ import annotations

from fathom.api.shared_timers import SharedTimers
from fathom.seams.domain import Domain

SECOND_NS = 1_000_000_000


class Named:
    def __init__(self, name: str, heard: list[str]) -> None:
        self._name = name
        self._heard = heard

    def wake_up(self) -> None:
        self._heard.append(self._name)


def test_all_who_wait_for_a_moment_are_woken_by_one_timer_in_the_order_they_asked() -> None:
    domain, shared_timers, heard = Domain(), SharedTimers(), list[str]()

    def ask() -> None:
        for name, at_s in (("one", 2.0), ("two", 1.0), ("three", 2.0)):
            shared_timers.wake(Named(name, heard), at_s=at_s, now_s=0.0)

    domain.input(0, ask)
    assert len(domain._timers) == 2
    domain.input(SECOND_NS)
    assert heard == ["two"]
    domain.input(2 * SECOND_NS)
    assert heard == ["two", "one", "three"]
    assert domain.next_deadline_ns() is None


def test_who_leaves_is_not_woken_and_the_last_takes_the_timer_along() -> None:
    domain, shared_timers, heard = Domain(), SharedTimers(), list[str]()
    one, two = Named("one", heard), Named("two", heard)

    def ask() -> None:
        for sleeper in (one, two):
            shared_timers.wake(sleeper, at_s=1.0, now_s=0.0)
        shared_timers.leave(one, at_s=1.0)

    domain.input(0, ask)
    assert domain.next_deadline_ns() == SECOND_NS
    domain.input(1, lambda: shared_timers.leave(two, at_s=1.0))
    assert domain.next_deadline_ns() is None
    domain.input(SECOND_NS)
    assert heard == []


def test_a_moment_that_is_over_comes_at_once() -> None:
    domain, shared_timers, heard = Domain(), SharedTimers(), list[str]()
    domain.input(0, lambda: shared_timers.wake(Named("late", heard), at_s=1.0, now_s=5.0))
    domain.input(1000)
    assert heard == ["late"]
