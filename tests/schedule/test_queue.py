"""The line of pods: who is next, who is woken by what, and that nobody lies for ever."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fathom.model.cause import WakeCause
from fathom.model.objects import Key
from fathom.schedule.loop.queue import PARKED_S_MAX, ClusterEvent, Hinted, SchedulingQueue, WaitingPod

S = 1_000_000_000
NEW = WakeCause("event", "added")
FREED = ClusterEvent("pod-removed", "pods a/x")


def pod(name: str, *, shape: str = "small", tenant: str = "a", priority: int = 0, age: int = 0) -> WaitingPod:
    return WaitingPod(name, Key(tenant, name), shape, tenant, priority, 1000 - age)


def queue_of(*pods: WaitingPod) -> SchedulingQueue:
    queue = SchedulingQueue(random.Random(1))
    for one in pods:
        queue.add(one, NEW, now_ns=0)
    return queue


def taken(queue: SchedulingQueue, most: int = 256) -> list[str]:
    return [entry.pod.uid for entry in queue.take(most=most)]


def first(count: int, waits: tuple[str, ...] = ()) -> Callable[[Sequence[WaitingPod]], Hinted]:
    """So many of those who wait."""
    return lambda pods: Hinted([pod.uid for pod in pods[:count]], waits)


everything = first(1_000_000)


def test_higher_priority_goes_first_and_then_the_older() -> None:
    queue = queue_of(pod("young"), pod("old", age=5), pod("vip", priority=7))
    assert [taken(queue, 1) for _ in range(4)] == [["vip"], ["old"], ["young"], []]


def test_pods_of_one_shape_are_taken_together_oldest_first() -> None:
    queue = queue_of(pod("a", age=1), pod("big", shape="big", age=2), pod("b", age=3), pod("c"))
    assert [taken(queue), taken(queue)] == [["b", "a", "c"], ["big"]]


def test_tenants_take_turns_however_many_pods_each_has() -> None:
    crowd = [pod(f"crowd-{number}", age=100) for number in range(6)]
    queue = queue_of(*crowd, pod("one", tenant="b"), pod("two", tenant="b"))
    order = [taken(queue, 2) for _ in range(4)]
    assert order == [["crowd-0", "crowd-1"], ["one", "two"], ["crowd-2", "crowd-3"], ["crowd-4", "crowd-5"]]


def test_a_tenant_that_was_away_does_not_catch_up() -> None:
    queue = queue_of(*(pod(f"a{number}") for number in range(8)))
    assert [taken(queue, 2) for _ in range(2)] == [["a0", "a1"], ["a2", "a3"]]
    for number in range(6):
        queue.add(pod(f"b{number}", tenant="b"), NEW, now_ns=0)
    order = [taken(queue, 2) for _ in range(4)]
    assert order == [["b0", "b1"], ["a4", "a5"], ["b2", "b3"], ["a6", "a7"]]


def test_an_event_wakes_only_who_waits_for_it_and_only_as_many_as_it_can_help() -> None:
    queue = queue_of(pod("a", age=2), pod("b", age=1), pod("gpu", shape="gpu"))
    for waits in (("pod-removed", "node-added"), ("quota-changed",)):
        for entry in queue.take():
            queue.park(entry.pod.uid, waits, now_ns=0)
    woken = queue.happened(FREED, first(1), now_ns=5 * S)
    assert woken == ["a"]
    (entry,) = queue.take()
    assert (entry.pod.uid, entry.cause, entry.since_ns, entry.attempt) == (
        "a", WakeCause("event", "pods a/x", event="pod-removed"), 5 * S, 2,
    )  # fmt: skip
    assert queue.happened(ClusterEvent("override-changed"), everything, now_ns=6 * S) == []
    assert queue.happened(ClusterEvent("quota-changed"), everything, now_ns=6 * S) == ["gpu"]


def test_who_is_not_helped_may_wait_for_something_else_from_then_on() -> None:
    queue = queue_of(pod("a"))
    queue.take()
    queue.park("a", ("node-changed",), now_ns=0)
    assert queue.happened(ClusterEvent("quota-changed"), everything, now_ns=1) == []
    assert queue.happened(ClusterEvent("node-changed"), first(0, ("quota-changed",)), now_ns=2) == []
    assert queue.happened(ClusterEvent("quota-changed"), everything, now_ns=3) == ["a"]
    assert not queue.waited_for("quota-changed")
    assert not queue.waited_for("node-changed")


def test_a_hint_of_nothing_wakes_nobody() -> None:
    queue = queue_of(pod("a"))
    queue.take()
    queue.park("a", ("pod-removed",), now_ns=0)
    assert queue.happened(FREED, first(0), now_ns=0) == []
    assert queue.counts["parked"] == 1


def test_what_nothing_wakes_is_looked_at_after_a_minute() -> None:
    queue = queue_of(pod("a"))
    queue.take()
    queue.park("a", (), now_ns=0)
    due_ns = queue.next_due_ns
    assert due_ns is not None
    assert 0.9 * PARKED_S_MAX * S <= due_ns <= PARKED_S_MAX * S
    assert queue.come_due(now_ns=due_ns - 1) == 0
    assert queue.come_due(now_ns=due_ns) == 1
    assert queue.take()[0].cause == WakeCause("timer", "parked for the maximum time")


def test_a_refused_commit_backs_off_longer_each_time_and_ten_seconds_at_most() -> None:
    queue = queue_of(pod("a"))
    pauses = []
    now_ns = 0
    for _ in range(8):
        queue.take()
        queue.retry("a", WakeCause("retry", "NodeFull"), now_ns=now_ns)
        due_ns = queue.next_due_ns
        assert due_ns is not None
        pauses.append((due_ns - now_ns) / S)
        now_ns = due_ns
        queue.come_due(now_ns=now_ns)
    assert [0.5 * whole <= pause <= whole for pause, whole in zip(pauses, (1, 2, 4, 8, 10, 10), strict=False)]
    assert max(pauses) <= 10


def test_a_gated_pod_is_held_until_its_gates_are_gone() -> None:
    gated = WaitingPod("a", Key("a", "a"), "small", "a", 0, 0, gated=True)
    queue = queue_of(gated)
    assert (taken(queue), queue.counts["gated"], queue.next_due_ns) == ([], 1, None)
    queue.add(pod("a"), WakeCause("event", "gates gone"), now_ns=S)
    assert taken(queue) == ["a"]


def test_a_pod_that_goes_away_while_in_hand_is_forgotten() -> None:
    queue = queue_of(pod("a"))
    queue.take()
    queue.remove("a")
    queue.park("a", ("pod-removed",), now_ns=0)
    assert (len(queue), queue.waited_for("pod-removed")) == (0, False)


def test_a_pods_place_is_that_at_which_it_was_taken() -> None:
    """The tenant with one pod comes second, though its pod is the youngest of all."""
    many = [pod(f"m{number}", shape=f"s{number}", tenant="a", age=9) for number in range(3)]
    queue = queue_of(*many, pod("only", tenant="b"))
    places: dict[str, tuple[int, int] | None] = {}
    while taken := queue.take():
        places |= {entry.pod.uid: entry.place for entry in taken}
    assert (places["m0"], places["only"]) == ((1, 4), (2, 4))
    assert set(places.values()) == {(1, 4), (2, 4), (3, 4), (4, 4)}


def test_who_comes_later_and_goes_first_counts_too() -> None:
    queue = queue_of(pod("a", shape="a"), pod("b", shape="b"))
    queue.take()
    queue.add(pod("vip", priority=9), WakeCause("event", "vip"), now_ns=0)
    (vip,), (last,) = queue.take(), queue.take()
    assert (vip.place, last.place) == ((1, 2), (3, 3))
    queue.retry("b", WakeCause("retry", "refused"), now_ns=0, backoff=False)
    (again,) = queue.take()
    assert (again.pod.uid, again.place) == ("b", (1, 1))


class Line(RuleBasedStateMachine):
    """Whatever happens: each pod is in one state; what is active is taken, highest priority first."""

    @initialize()
    def begin(self) -> None:
        self.queue = SchedulingQueue(random.Random(3))
        self.now_ns = 0
        self.in_hand: list[str] = []
        self.alive: dict[str, WaitingPod] = {}
        self.count = 0

    @rule(
        shape=st.sampled_from("ST"),
        tenant=st.sampled_from("ab"),
        priority=st.integers(0, 2),
        gated=st.booleans(),
    )
    def add(self, shape: str, tenant: str, priority: int, gated: bool) -> None:
        self.count += 1
        name = f"p{self.count}"
        self.alive[name] = WaitingPod(name, Key(tenant, name), shape, tenant, priority, self.now_ns, gated)
        self.queue.add(self.alive[name], NEW, now_ns=self.now_ns)

    @rule(data=st.data(), shape=st.sampled_from("ST"), priority=st.integers(0, 2), gated=st.booleans())
    @precondition(lambda self: self.alive)
    def change(self, data: st.DataObject, shape: str, priority: int, gated: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.alive)))
        old = self.alive[name]
        self.alive[name] = WaitingPod(name, old.key, shape, old.tenant, priority, old.created_ns, gated)
        self.queue.add(self.alive[name], NEW, now_ns=self.now_ns)

    @rule(data=st.data(), priority=st.integers(0, 2))
    @precondition(lambda self: self.alive)
    def raise_priority(self, data: st.DataObject, priority: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.alive)))
        state = self.state(name)
        self.alive[name] = msgspec.structs.replace(self.alive[name], priority=priority, raised_by="a/b")
        self.queue.set_priority(name, priority, "a/b")
        assert (self.state(name), self.entry(name).pod) == (state, self.alive[name])

    @rule(most=st.integers(1, 4))
    def take(self, most: int) -> None:
        active = [uid for uid in self.alive if self.state(uid) == "active"]
        got = self.queue.take(most=most)
        assert bool(got) == bool(active)
        if got:
            first = got[0].pod
            assert first.priority == max(self.alive[uid].priority for uid in active)
            assert {(one.pod.shape, one.pod.tenant, one.pod.priority) for one in got} == {
                (first.shape, first.tenant, first.priority)
            }
            peers = [uid for uid in active if self.alive[uid].tenant == first.tenant]
            rank = [self.alive[uid].created_ns for uid in peers if self.alive[uid].priority == first.priority]
            assert first.created_ns == min(rank)
        self.in_hand += [one.pod.uid for one in got]
        assert len(set(self.in_hand)) == len(self.in_hand)

    @rule(data=st.data(), how=st.sampled_from(["park", "retry", "again", "done"]))
    @precondition(lambda self: self.in_hand)
    def put_down(self, data: st.DataObject, how: str) -> None:
        uid = data.draw(st.sampled_from(self.in_hand))
        self.in_hand.remove(uid)
        if how == "park":
            self.queue.park(uid, data.draw(st.lists(st.sampled_from(["x", "y"]))), now_ns=self.now_ns)
        elif how == "done":
            self.queue.remove(uid)
            self.alive.pop(uid)
        else:
            self.queue.retry(uid, NEW, now_ns=self.now_ns, backoff=how == "retry")

    @rule(data=st.data())
    @precondition(lambda self: self.alive)
    def remove(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.alive)))
        self.queue.remove(uid)
        self.alive.pop(uid)
        if uid in self.in_hand:
            self.in_hand.remove(uid)

    @rule(name=st.sampled_from(["x", "y"]), could=st.integers(0, 2), more=st.sampled_from([(), ("y",)]))
    def event(self, name: str, could: int, more: tuple[str, ...]) -> None:
        waiting = {uid for uid in self.alive if name in self.entry(uid).waits}
        woken = self.queue.happened(ClusterEvent(name), first(could, more), now_ns=self.now_ns)
        assert set(woken) <= waiting

    @rule(seconds=st.integers(0, 70))
    def wait(self, seconds: int) -> None:
        self.now_ns += seconds * S
        self.queue.come_due(now_ns=self.now_ns)

    @invariant()
    def nobody_lies_for_ever(self) -> None:
        due_ns = self.queue.next_due_ns
        for uid in self.alive:
            entry = self.entry(uid)
            if entry.state in {"parked", "backoff"}:
                assert due_ns is not None
                assert due_ns <= entry.due_ns <= self.now_ns + PARKED_S_MAX * S
        assert {uid for uid in self.alive if self.state(uid) == "in-hand"} == set(self.in_hand)

    def entry(self, uid: str):  # type: ignore[no-untyped-def]  # The tests' own.
        return self.queue._entries[uid]

    def state(self, uid: str) -> str:
        return str(self.entry(uid).state)


Line.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLine = Line.TestCase
