"""Where a pod is: the legal moves, that an illegal one raises and changes nothing, and that what is kept of
each pod agrees with where it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fathom.model.cause import WakeCause
from fathom.schedule.decide.pods import PodView, pod_view
from fathom.schedule.loop.bind_requests import BindRequest
from fathom.schedule.loop.pod_moves import PodMoves, SentBinding
from fathom.schedule.loop.pod_states import LEGAL, TAKEN, WAITING, IllegalMove, PodState, check_move
from fathom.schedule.loop.queue import ClusterEvent, Hinted, SchedulingQueue

STATES: tuple[PodState, ...] = get_args(PodState)
CAUSE = WakeCause("event", "a test")
FREED = ClusterEvent("pod-removed")


def pod(uid: str = "a", *, gated: bool = False, priority: int = 0) -> PodView:
    gates = {"schedulingGates": [{"name": "example.com/later"}]} if gated else {}
    meta = {"name": uid, "namespace": "default", "uid": uid}
    return pod_view({"metadata": meta, "spec": {"priority": priority, **gates}}, tenant="default")


def binding(view: PodView, number: int = 0) -> SentBinding:
    request = BindRequest(namespace="default", name=view.key.name, uid=view.uid, node="node-1")
    return SentBinding(view, request, f"decision-{number}")


def moves() -> PodMoves:
    return PodMoves(SchedulingQueue(random.Random(1)))


def everything(pods: PodMoves) -> object:
    """All that is kept, in a form that stays as it is and can be compared."""
    queue: Any = pods._queue
    return (
        dict(pods._waiting),
        dict(pods._sent),
        dict(pods._landed),
        dict(pods._gates),
        {uid: msgspec.structs.replace(entry) for uid, entry in queue._entries.items()},
        {
            priority: {
                tenant: (
                    line.size,
                    sorted(line.by_age),
                    {shape: list(heap) for shape, heap in line.by_shape.items()},
                )
                for tenant, line in lines.items()
            }
            for priority, lines in queue._lines.items()
        },
        {shape: dict(uids) for shape, uids in queue._parked.items()},
        {name: dict(shapes) for name, shapes in queue._waits.items() if shapes},
        list(queue._due),
        queue._rng.getstate(),
    )


# How a pod comes to be in each state that lasts.


def _taken(pods: PodMoves) -> None:
    pods.heard(pod(), CAUSE, now_ns=0)
    pods.take()


def _sent(pods: PodMoves) -> None:
    _taken(pods)
    pods.send(binding(pod()))


def _parked(pods: PodMoves) -> None:
    _taken(pods)
    pods.park("a", (FREED.name,), now_ns=0)


def _backoff(pods: PodMoves) -> None:
    _taken(pods)
    pods.retry("a", CAUSE, now_ns=0)


def _refused(pods: PodMoves) -> None:
    _sent(pods)
    pods.refuse("a")


def _withdrawn(pods: PodMoves) -> None:
    _sent(pods)
    pods.leave("a")


def _landed(pods: PodMoves) -> None:
    _sent(pods)
    pods.has_landed("a", 7)


WAYS: dict[PodState, Callable[[PodMoves], None]] = {
    "new": lambda pods: None,
    "gated": lambda pods: pods.heard(pod(gated=True), CAUSE, now_ns=0),
    "active": lambda pods: pods.heard(pod(), CAUSE, now_ns=0),
    "backoff": _backoff,
    "parked": _parked,
    "in-hand": _taken,
    "sent": _sent,
    "refused": _refused,
    "withdrawn": _withdrawn,
    "landed": _landed,
}

# What happens to a pod, and where it is after that, by where it was; where that is not said, it is illegal.
# 'new' is also where a pod is that was seen or is gone.
SAME: dict[PodState, PodState] = {state: state for state in WAYS}
ENDS: dict[PodState, PodState] = dict.fromkeys(WAYS, "new")
NOT_QUEUED: dict[PodState, PodState] = {"new": "new"}
HAPPENINGS: dict[str, tuple[Callable[[PodMoves], object], dict[PodState, PodState]]] = {
    "heard": (
        lambda pods: pods.heard(pod(priority=1), CAUSE, now_ns=1),
        {
            **dict.fromkeys(("new", "gated", "active", "backoff", "parked"), "active"),
            "in-hand": "in-hand",
            "sent": "sent",
            "refused": "refused",
            "withdrawn": "sent",
        },
    ),
    "heard with gates": (
        lambda pods: pods.heard(pod(gated=True), CAUSE, now_ns=1),
        {
            **dict.fromkeys(("new", "gated", "active", "backoff", "parked"), "gated"),
            "in-hand": "in-hand",
            "sent": "sent",
            "refused": "refused",
            "withdrawn": "sent",
        },
    ),
    "leaves": (
        lambda pods: pods.leave("a"),
        {**ENDS, "sent": "withdrawn", "withdrawn": "withdrawn", "landed": "landed"},
    ),
    "is seen": (lambda pods: pods.seen("a"), ENDS),
    "is gone": (lambda pods: pods.gone("a"), ENDS),
    "is taken": (lambda pods: pods.take(), {**SAME, "active": "in-hand"}),
    "is parked": (lambda pods: pods.park("a", (), now_ns=1), {**NOT_QUEUED, "in-hand": "parked"}),
    "is sent": (lambda pods: pods.send(binding(pod(), 2)), {"in-hand": "sent"}),
    "has landed": (lambda pods: pods.has_landed("a", 9), {"sent": "landed"}),
    "is refused": (
        lambda pods: pods.refuse("a"),
        {"sent": "refused", "in-hand": "refused", "withdrawn": "new"},
    ),
    "is tried again": (
        lambda pods: pods.retry("a", CAUSE, now_ns=1),
        {**NOT_QUEUED, "in-hand": "backoff", "refused": "backoff"},
    ),
    "is tried again at once": (
        lambda pods: pods.retry("a", CAUSE, now_ns=1, backoff=False),
        {**NOT_QUEUED, "in-hand": "active", "refused": "active"},
    ),
    "is woken": (
        lambda pods: pods.wake(FREED, lambda those: Hinted([one.uid for one in those]), now_ns=1),
        {**SAME, "parked": "active"},
    ),
    "has waited long": (
        lambda pods: pods.come_due(now_ns=10**12),
        {**SAME, "parked": "active", "backoff": "active"},
    ),
}


def test_the_table_has_every_state_and_leads_to_no_other() -> None:
    assert set(LEGAL) == set(STATES)
    assert set().union(*LEGAL.values()) == set(STATES) - {"new"}
    assert set(WAYS) == set(STATES) - {"seen", "gone"}
    assert TAKEN < WAITING < set(STATES)


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_a_move_that_is_not_in_the_table_raises(before: PodState, after: PodState) -> None:
    if after in LEGAL[before]:
        check_move(before, after, "default/web")
        return
    with pytest.raises(IllegalMove, match=f"is {before} cannot become {after}: default/web") as raised:
        check_move(before, after, "default/web")
    assert (raised.value.before, raised.value.after) == (before, after)


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        LEGAL["landed"] = frozenset({"active"})  # type: ignore[index]  # That is what is tried.


@pytest.mark.parametrize("state", WAYS)
def test_a_pod_can_be_in_every_state_that_lasts(state: PodState) -> None:
    pods = moves()
    WAYS[state](pods)
    assert pods.state("a") == state
    agree(pods)


@pytest.mark.parametrize("state", WAYS)
@pytest.mark.parametrize("what", HAPPENINGS)
def test_whatever_happens_in_whichever_state_is_a_legal_move_or_raises(what: str, state: PodState) -> None:
    pods, (happen, after) = moves(), HAPPENINGS[what]
    WAYS[state](pods)
    before = everything(pods)
    if state in after:
        happen(pods)
        assert pods.state("a") == after[state]
    else:
        with pytest.raises(IllegalMove):
            happen(pods)
        assert everything(pods) == before
    agree(pods)


def test_a_pod_is_bound_after_a_refusal() -> None:
    pods, first, second = moves(), binding(pod(), 1), binding(pod(), 2)
    pods.heard(pod(), CAUSE, now_ns=0)
    pods.take()
    pods.send(first)
    assert pods.refuse("a")
    pods.retry("a", CAUSE, now_ns=0, backoff=False)
    (entry,) = pods.take()
    pods.send(second)
    assert (entry.attempt, entry.failures) == (2, 1)
    assert (pods.is_under_way(first), pods.is_under_way(second)) == (False, True)
    pods.has_landed("a", 7)
    assert (dict(pods.waiting), dict(pods.sent), dict(pods.landed)) == ({}, {"a": second}, {"a": 7})
    pods.seen("a")
    assert (dict(pods.sent), dict(pods.landed), pods.state("a")) == ({}, {}, "new")


def test_what_an_earlier_term_left_is_unfinished_whether_the_pod_is_ours_or_not() -> None:
    pods = moves()
    for uid in ("sent", "withdrawn", "landed", "in-hand", "active"):
        pods.heard(pod(uid), CAUSE, now_ns=0)
        if uid != "active":
            pods.take()
        if uid in {"sent", "withdrawn", "landed"}:
            pods.send(binding(pod(uid)))
    pods.leave("withdrawn")
    pods.has_landed("landed", 7)
    assert pods.unfinished() == ["sent", "in-hand", "withdrawn"]


def test_gates_go_on_record_once_each() -> None:
    pods = moves()
    assert not pods.record_gates("a", ("x",))  # It does not wait.
    pods.heard(pod(gated=True), CAUSE, now_ns=0)
    assert [pods.record_gates("a", gates) for gates in (("x",), ("x",), ("y",))] == [True, False, True]
    pods.leave("a")
    pods.heard(pod(gated=True), CAUSE, now_ns=0)
    assert pods.record_gates("a", ("y",))


@pytest.mark.parametrize("name", ["waiting", "sent", "landed"])
def test_nobody_else_can_move_a_pod(name: str) -> None:
    pods = moves()
    _sent(pods)
    kept: Any = getattr(pods, name)
    with pytest.raises(TypeError):
        kept["b"] = None
    with pytest.raises(AttributeError):
        kept.pop("a", None)


def agree(pods: PodMoves) -> None:
    """What is kept of a pod follows from its state."""
    queue: Any = pods._queue
    states = {uid: pods.state(uid) for uid in ("a", "b", "c", *queue._entries)}
    assert set(pods.waiting) == set(queue._entries) == {uid for uid in states if states[uid] in WAITING}
    assert set(pods.sent) == {uid for uid in states if states[uid] in {"sent", "withdrawn", "landed"}}
    assert set(pods.landed) == {uid for uid in states if states[uid] == "landed"}
    assert set(pods._gates) <= set(pods.waiting)
    active = sum(state == "active" for state in states.values())
    assert sum(line.size for lines in queue._lines.values() for line in lines.values()) == active
    parked = {uid for uids in queue._parked.values() for uid in uids}
    assert parked == {uid for uid in states if states[uid] == "parked"}
    assert sum(pods.queue.counts.values()) == len(queue._entries)


UIDS = st.sampled_from(["a", "b", "c"])


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens to three pods in whichever order: each is where the table lets it be."""

    @initialize()
    def begin(self) -> None:
        self.pods = moves()
        self.now_ns = 0
        self.count = 0

    def _try(self, uid: str, happen: Callable[[], object]) -> None:
        """It is a legal move of this pod and of no other, or it raises and nothing has changed."""
        before, states = everything(self.pods), {one: self.pods.state(one) for one in ("a", "b", "c")}
        try:
            happen()
        except IllegalMove:
            assert everything(self.pods) == before
        for other in {"a", "b", "c"} - {uid}:
            assert self.pods.state(other) == states[other]
        assert self._is_legal(states[uid], self.pods.state(uid))

    def _is_legal(self, before: PodState, after: PodState) -> bool:
        """A refusal, which is for a moment only, may lie between."""
        reached = LEGAL[before] | (LEGAL["refused"] if "refused" in LEGAL[before] else frozenset())
        return after in {before, "new"} or after in reached

    @rule(uid=UIDS, gated=st.booleans(), priority=st.integers(0, 1))
    def hear(self, uid: str, gated: bool, priority: int) -> None:
        view = pod(uid, gated=gated, priority=priority)
        self._try(uid, lambda: self.pods.heard(view, CAUSE, now_ns=self.now_ns))

    @rule(uid=UIDS, how=st.sampled_from(["leave", "seen", "gone"]))
    def end(self, uid: str, how: str) -> None:
        self._try(uid, lambda: getattr(self.pods, how)(uid))

    @rule(uid=UIDS)
    def send(self, uid: str) -> None:
        self.count += 1
        self._try(uid, lambda: self.pods.send(binding(pod(uid), self.count)))

    @rule(uid=UIDS)
    def land(self, uid: str) -> None:
        self._try(uid, lambda: self.pods.has_landed(uid, 7))

    @rule(uid=UIDS)
    def refuse(self, uid: str) -> None:
        self._try(uid, lambda: self.pods.refuse(uid))

    @rule(uid=UIDS, backoff=st.booleans())
    def retry(self, uid: str, backoff: bool) -> None:
        self._try(uid, lambda: self.pods.retry(uid, CAUSE, now_ns=self.now_ns, backoff=backoff))

    @rule(uid=UIDS)
    def park(self, uid: str) -> None:
        self._try(uid, lambda: self.pods.park(uid, (FREED.name,), now_ns=self.now_ns))

    @rule(uid=UIDS, gates=st.sampled_from([("x",), ("y",)]))
    def record_gates(self, uid: str, gates: tuple[str, ...]) -> None:
        self._try(uid, lambda: self.pods.record_gates(uid, gates))

    @rule(most=st.integers(1, 3))
    def take(self, most: int) -> None:
        active = [uid for uid in self.pods.waiting if self.pods.state(uid) == "active"]
        entries = self.pods.take(most=most)
        assert bool(entries) == bool(active)
        assert all(entry.pod.uid in active and entry.state == "in-hand" for entry in entries)

    @rule(could=st.integers(0, 3))
    def wake(self, could: int) -> None:
        woken = self.pods.wake(
            FREED, lambda those: Hinted([one.uid for one in those[:could]]), now_ns=self.now_ns
        )
        assert all(self.pods.state(uid) == "active" for uid in woken)

    @rule(seconds=st.integers(0, 70))
    def wait(self, seconds: int) -> None:
        self.now_ns += seconds * 10**9
        self.pods.come_due(now_ns=self.now_ns)

    @invariant()
    def collections_agree(self) -> None:
        agree(self.pods)


AnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyOrder = pytest.mark.slow(AnyOrder.TestCase)
