"""A key is in line at most once and in hand at most once; nothing is lost, and the order is fixed."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.control.queue_model import ModelQueue, tenant
from tests.control.stage import Stage

from fathom.control.queue import Taken, WorkQueue
from fathom.control.rate_limit import PaceLimit, PaceRate
from fathom.control.retry import Retry, RetryTrouble, backoff_ns
from fathom.model.cause import WakeCause
from fathom.model.invariant import InvariantBroken

HASTY = Retry(backoff_s_min=0.5, backoff_s_max=4.0, attempts_max=5, deadline_s=30.0)
EVENT, TIMER = WakeCause("event", "x"), WakeCause("timer", "x")


class Noted:
    """What the queue told its metrics."""

    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []

    def added(self, depth: int) -> None:
        self.said.append(("added", depth))

    def taken(self, depth: int, waited_s: float) -> None:
        self.said.append(("taken", depth, waited_s))

    def retried(self, reason: str, delay_s: float) -> None:
        self.said.append(("retried", reason))

    def gave_up(self, reason: str) -> None:
        self.said.append(("gave up", reason))

    def overflowed(self) -> None:
        self.said.append(("overflowed",))


class QueueMachine(RuleBasedStateMachine):
    """The queue and the obvious one are told the same and must answer the same."""

    keys = st.sampled_from(["a1", "a2", "a3", "b1", "b2", "c1"])
    priorities = st.sampled_from([0, 0, 0, 5, 9])
    delays_s = st.sampled_from([0.0, 0.25, 1.0, 1.0, 7.0])

    @initialize(seed=st.integers(0, 3))
    def make(self, seed: int) -> None:
        self.stage = Stage()
        self.queue: WorkQueue[str] = WorkQueue(random.Random(seed), retry=HASTY, tenant_of=tenant)
        self.model = ModelQueue(HASTY, random.Random(seed))
        self.adds = 0

    def _cause(self) -> WakeCause:
        self.adds += 1
        return WakeCause("event", str(self.adds))

    @rule(key=keys, priority=priorities)
    def add(self, key: str, priority: int) -> None:
        cause = self._cause()
        self.model.add(key, cause, priority)
        self.stage.do(lambda: self.queue.add(key, cause, priority=priority))

    @rule(key=keys, priority=priorities, delay_s=delays_s)
    def add_after(self, key: str, priority: int, delay_s: float) -> None:
        cause = self._cause()
        self.model.add_after(key, round(delay_s * 1e9), cause, priority)
        self.stage.do(lambda: self.queue.add_after(key, delay_s, cause, priority=priority))

    @rule(seconds=st.sampled_from([0.1, 0.5, 3.0, 20.0]))
    def wait(self, seconds: float) -> None:
        self.stage.wait(seconds)
        self.model.advance(self.stage.domain.now_ns)

    @rule()
    def take(self) -> None:
        taking = self.stage.begin(self.queue.take())
        expected = self.model.take()
        if expected is None:
            assert not taking.done()
            self.stage.do(taking.cancel)
        else:
            assert taking.result() == expected

    def _one_in_hand(self, pick: int) -> str:
        return sorted(self.model.hands)[pick % len(self.model.hands)]

    @precondition(lambda self: self.model.hands)
    @rule(pick=st.integers(0, 9))
    def done(self, pick: int) -> None:
        key = self._one_in_hand(pick)
        self.model.done(key)
        self.stage.do(lambda: self.queue.done(key))

    @precondition(lambda self: self.model.hands)
    @rule(pick=st.integers(0, 9), intent=st.sampled_from(["1", "1", "1", "2"]))
    def fail(self, pick: int, intent: str) -> None:
        key = self._one_in_hand(pick)
        self.model.failed(key, intent)
        self.stage.do(lambda: self.queue.failed(key, reason="Broken", intent=intent))

    @precondition(lambda self: self.model.hands)
    @rule(pick=st.integers(0, 9), delay_s=delays_s)
    def put_back(self, pick: int, delay_s: float) -> None:
        key, cause = self._one_in_hand(pick), self._cause()
        self.model.put_back(key, round(delay_s * 1e9), cause)
        self.stage.do(lambda: self.queue.put_back(key, delay_s, cause))

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert self.queue.order() == self.model.order()
        assert len(self.queue) == len(self.model.order())
        assert self.queue.troubles == self.model.troubles
        assert {taken.key: taken for taken in self.queue.in_hand} == self.model.hands
        assert self.stage.domain.failures == []


TestQueueAgainstItsModel = QueueMachine.TestCase


def started(stage: Stage, **options: object) -> WorkQueue[str]:
    return WorkQueue(random.Random(1), **options)  # type: ignore[arg-type]  # passed through


def taken(stage: Stage, queue: WorkQueue[str]) -> str:
    found = stage.begin(queue.take()).result()
    assert found is not None
    return found.key


def test_a_key_added_twice_is_taken_once_and_says_how_often_it_was_woken() -> None:
    stage = Stage()
    queue = started(stage)
    stage.do(lambda: queue.add("a", EVENT))
    stage.wait(2)
    stage.do(lambda: queue.add("a", WakeCause("timer")))
    assert stage.begin(queue.take()).result() == Taken("a", EVENT, 1, 2_000_000_000, 0, 1)
    assert len(queue) == 0


def test_a_key_that_changes_while_in_hand_comes_again_only_after_it_is_put_down() -> None:
    stage = Stage()
    queue = started(stage)
    stage.do(lambda: queue.add("a"))
    assert taken(stage, queue) == "a"
    stage.do(lambda: queue.add("a"))
    second = stage.begin(queue.take())
    assert (len(queue), second.done()) == (0, False)
    stage.do(lambda: queue.done("a"))
    assert second.done()


def test_keys_of_one_tenant_are_taken_in_the_order_they_came() -> None:
    stage = Stage()
    queue = started(stage)
    for key in ("c", "a", "b"):
        stage.do(lambda key=key: queue.add(key))  # type: ignore[misc]  # bound now
    assert [taken(stage, queue) for _ in range(3)] == ["c", "a", "b"]


def test_a_busy_tenant_costs_another_one_place() -> None:
    stage = Stage()
    queue = started(stage, tenant_of=tenant)
    for key in [f"busy{n:02}" for n in range(50)] + ["x"]:
        stage.do(lambda key=key: queue.add(key))  # type: ignore[misc]  # bound now
    assert [taken(stage, queue) for _ in range(3)] == ["busy00", "x", "busy01"]


def test_urgent_work_goes_first_and_who_becomes_urgent_keeps_its_age() -> None:
    stage = Stage()
    queue = started(stage)
    for key, priority in (("old", 0), ("mid", 0), ("urgent", 5), ("old", 5)):
        stage.do(lambda key=key, priority=priority: queue.add(key, priority=priority))  # type: ignore[misc]  # bound now
    assert [taken(stage, queue) for _ in range(3)] == ["old", "urgent", "mid"]


def test_a_line_that_is_never_reached_does_not_grow_by_those_who_left_it() -> None:
    stage = Stage()
    queue = started(stage)
    stage.do(lambda: queue.add("waits"))
    for _ in range(1000):
        stage.do(lambda: queue.add("k"))
        stage.do(lambda: queue.add("k", priority=1))
        assert taken(stage, queue) == "k"
        stage.do(lambda: queue.done("k"))
    lines = queue._lines._levels[0]
    assert len(lines[""]._heap) <= 3


def test_the_earliest_of_several_delays_counts() -> None:
    stage = Stage()
    queue = started(stage)
    for delay_s in (60.0, 10.0, 60.0):
        stage.do(lambda delay_s=delay_s: queue.add_after("a", delay_s, WakeCause("timer", f"{delay_s:g}")))  # type: ignore[misc]  # bound now
    taking = stage.begin(queue.take())
    stage.wait(9.999)
    assert not taking.done()
    stage.wait(0.001)
    assert taking.result() == Taken("a", WakeCause("timer", "10"), 0, 0, 0, 1)
    stage.do(lambda: queue.done("a"))
    stage.wait(120)
    assert len(queue) == 0


def test_keys_that_wait_for_a_time_of_day_can_be_made_due_and_others_go_on_waiting() -> None:
    stage = Stage()
    queue = started(stage)
    stage.do(lambda: queue.add_after("waits", 60.0, WakeCause("timer", "it is due"), by_clock=True))
    stage.do(lambda: queue.add_after("measured", 60.0, WakeCause("timer", "a minute has passed")))
    stage.do(lambda: queue.add_after("failed", 60.0, WakeCause("retry", "Broken")))
    stage.do(lambda: queue.look_again(WakeCause("timer", "the wall clock was set")))
    assert queue.order() == ["waits"]
    taken = stage.begin(queue.take()).result()
    assert taken is not None
    assert taken.cause.detail == "the wall clock was set"
    stage.do(lambda: queue.done("waits"))
    stage.wait(61)
    assert queue.order() == ["measured", "failed"], "and the timer of what was made due is gone"


def fail_all_the_way(stage: Stage, queue: WorkQueue[str], intent: str = "1") -> list[RetryTrouble]:
    troubles = []
    while True:
        taking = stage.begin(queue.take())
        while not taking.done():
            stage.wait(0.05)
        trouble = stage.do(lambda: queue.failed("a", reason="Broken", message="why", intent=intent))
        troubles.append(trouble)
        if trouble.given_up:
            return troubles


def test_backoff_doubles_to_its_cap_half_of_it_chance() -> None:
    rng = random.Random(3)
    waits = [[backoff_ns(HASTY, attempts, rng) / 1e9 for _ in range(200)] for attempts in range(1, 8)]
    for span, whole in zip(waits, (0.5, 1, 2, 4, 4, 4, 4), strict=True):
        assert whole / 2 <= min(span) < whole * 0.55
        assert whole * 0.95 < max(span) <= whole


def test_a_key_that_keeps_failing_is_given_up_and_stays_visible() -> None:
    stage, noted = Stage(), Noted()
    queue = started(stage, retry=HASTY, metrics=noted)
    stage.do(lambda: queue.add("a"))
    troubles = fail_all_the_way(stage, queue)
    assert [trouble.attempts for trouble in troubles] == [1, 2, 3, 4, 5]
    assert queue.troubles == {"a": RetryTrouble("1", 5, 0, "Broken", "why", None)}
    assert noted.said[-1] == ("gave up", "Broken")
    stage.wait(3600)
    assert len(queue) == 0


def test_what_changes_bring_about_uses_up_no_attempts() -> None:
    """Else a busy neighbourhood makes a key give up within seconds, and when there is room at last, nobody
    comes back to it."""
    stage = Stage()
    queue = started(stage, retry=HASTY)
    stage.do(lambda: queue.add("a", EVENT))
    for _ in range(20):
        stage.finish(queue.take())
        stage.do(lambda: queue.failed("a", reason="Broken", message="why", intent="1"))
        stage.do(lambda: queue.add("a", EVENT))
    trouble = queue.troubles["a"]
    assert (trouble.attempts, trouble.given_up) == (1, False)
    stage.finish(queue.take())
    stage.do(lambda: queue.done("a"))
    assert queue.troubles == {}


def test_the_deadline_gives_up_before_the_attempts_do() -> None:
    stage = Stage()
    patient = Retry(backoff_s_min=1, backoff_s_max=8, attempts_max=1000, deadline_s=20)
    queue = started(stage, retry=patient)
    stage.do(lambda: queue.add("a"))
    last = fail_all_the_way(stage, queue)[-1]
    assert last.attempts < 10
    assert stage.now_s <= 20


def test_a_change_wakes_what_was_given_up_but_the_same_intent_gets_no_new_tries() -> None:
    stage = Stage()
    queue = started(stage, retry=HASTY)
    stage.do(lambda: queue.add("a"))
    fail_all_the_way(stage, queue)
    stage.do(lambda: queue.add("a", EVENT))
    assert len(fail_all_the_way(stage, queue)) == 1
    stage.do(lambda: queue.add("a", EVENT))
    assert [trouble.attempts for trouble in fail_all_the_way(stage, queue, intent="2")] == [1, 2, 3, 4, 5]


def test_a_success_forgets_the_failures_and_the_retry_that_was_planned() -> None:
    stage = Stage()
    queue = started(stage, retry=HASTY)
    stage.do(lambda: queue.add("a"))
    taken(stage, queue)
    stage.do(lambda: queue.failed("a"))
    stage.do(lambda: queue.add("a", EVENT))
    assert stage.begin(queue.take()).result() == Taken("a", EVENT, 0, 0, 0, 2)
    stage.do(lambda: queue.done("a"))
    stage.wait(60)
    assert (queue.troubles, len(queue)) == ({}, 0)


def test_a_success_keeps_the_look_that_was_planned_for_another_reason() -> None:
    """1. A pass fails, and is tried again in a moment. 2. A change wakes the key before that. 3. This pass
    succeeds, and says before it ends that it wants to look again."""
    stage = Stage()
    queue = started(stage, retry=HASTY)
    stage.do(lambda: queue.add("a"))
    taken(stage, queue)
    stage.do(lambda: queue.failed("a"))
    stage.do(lambda: queue.add("a", EVENT))
    taken(stage, queue)
    stage.do(lambda: queue.add_after("a", 30, TIMER))
    stage.do(lambda: queue.done("a"))
    stage.wait(60)
    found = stage.begin(queue.take()).result()
    assert found is not None
    assert found.cause == TIMER


def test_a_server_that_says_when_is_listened_to() -> None:
    stage = Stage()
    queue = started(stage)
    stage.do(lambda: queue.add("a"))
    taken(stage, queue)
    trouble = stage.do(lambda: queue.failed("a", not_before_s=17))
    assert trouble.next_ns == 17_000_000_000


def test_the_rate_limit_holds_whatever_comes_and_nobody_sleeps_through_it() -> None:
    stage = Stage()
    queue = started(stage, rate=PaceRate(per_s=10, burst=3))
    times: list[float] = []

    async def worker() -> None:
        while (found := await queue.take()) is not None:
            times.append(stage.now_s)
            queue.done(found.key)

    for _ in range(4):
        stage.begin(worker())
    stage.wait(1)
    for number in range(23):
        stage.do(lambda number=number: queue.add(str(number)))  # type: ignore[misc]  # bound now
    stage.wait(10)
    assert [round(time - 1, 6) for time in times] == [0, 0, 0] + [round(n / 10, 6) for n in range(1, 21)]


@pytest.mark.parametrize("rate", [PaceRate(0), PaceRate(-1), PaceRate(1, burst=0)])
def test_a_rate_that_lets_nothing_through_is_refused(rate: PaceRate) -> None:
    with pytest.raises(ValueError):
        PaceLimit(rate)


def test_a_taker_that_is_cancelled_after_it_was_woken_passes_the_wake_on() -> None:
    stage = Stage()
    queue = started(stage)
    first, second = stage.begin(queue.take()), stage.begin(queue.take())

    def add_and_cancel() -> None:
        queue.add("a")
        first.cancel()

    stage.do(add_and_cancel)
    assert first.cancelled()
    assert second.done()


def test_a_taker_that_was_cancelled_is_not_woken() -> None:
    stage = Stage()
    queue = started(stage)
    first, second = stage.begin(queue.take()), stage.begin(queue.take())

    def cancel_and_add() -> None:
        first.cancel()
        queue.add("a")

    stage.do(cancel_and_add)
    assert second.done()


def test_a_closed_queue_gives_nothing_out_but_takes_back_what_is_in_hand() -> None:
    stage = Stage()
    queue = started(stage)
    stage.do(lambda: queue.add("a"))
    taken(stage, queue)
    asleep = stage.begin(queue.take())
    stage.do(lambda: queue.add_after("c", 1))
    stage.do(queue.close)
    assert asleep.result() is None
    stage.do(lambda: queue.add("b"))
    assert stage.begin(queue.take()).result() is None
    stage.do(lambda: queue.failed("a"))
    assert stage.domain.next_deadline_ns() is None


def test_a_full_queue_says_so_and_keeps_what_it_has() -> None:
    stage, noted = Stage(), Noted()
    queue = started(stage, keys_max=2, metrics=noted)
    accepted = [stage.do(lambda key=key: queue.add(key)) for key in ("a", "b", "c", "a")]  # type: ignore[misc]  # bound now
    assert (accepted, queue.overflowed, queue.order()) == ([True, True, False, True], True, ["a", "b"])
    assert ("overflowed",) in noted.said
    assert stage.do(lambda: queue.add_after("d", 1)) is False
    # A retry of what is in hand always has room.
    taken(stage, queue)
    assert stage.do(lambda: queue.failed("a")).next_ns is not None
    stage.wait(1)
    assert queue.order() == ["b", "a"]


def test_putting_down_what_nobody_holds_is_a_bug_and_said() -> None:
    stage = Stage()
    queue = started(stage)
    with pytest.raises(InvariantBroken, match="'a' was put down"):
        stage.do(lambda: queue.done("a"))


def test_how_long_the_oldest_waits_is_known() -> None:
    stage = Stage()
    queue = started(stage)
    assert stage.do(queue.oldest_wait_s) == 0.0
    stage.do(lambda: queue.add("a"))
    stage.wait(3)
    stage.do(lambda: queue.add("b"))
    assert stage.do(queue.oldest_wait_s) == 3.0


def test_it_works_on_any_asyncio_loop() -> None:
    async def main() -> tuple[str, int]:
        queue: WorkQueue[str] = WorkQueue(random.Random(1))
        queue.add_after("a", 0.01)
        first = await asyncio.wait_for(queue.take(), 2)
        assert first is not None
        queue.failed(first.key)
        again = await asyncio.wait_for(queue.take(), 2)
        assert again is not None
        return again.key, again.attempt

    assert asyncio.run(main()) == ("a", 2)
