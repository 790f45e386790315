"""Where each pod of this scheduler is, and the only way to move it: each method is something that happened.

    heard ──> waiting (and in the queue) ──sent──> waiting + sent ──landed──> landed + sent ──seen──> nowhere
                 ^                                        └──refused──┐
                 └────────────────retry───────────────────────────────┘

Others read `waiting`, `sent`, `landed` and the queue, and cannot change them. Which moves are legal is the
table in `pod_states`. A method that would make an illegal one raises, and has changed nothing. A pod that is
seen on a node, or gone, is forgotten here: the node table has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import msgspec

from fathom.control.cause import WakeCause
from fathom.schedule.decide.pods import PodView
from fathom.schedule.loop.bind_requests import BindRequest
from fathom.schedule.loop.pod_states import TAKEN, PodState, check_move
from fathom.schedule.loop.queue import BATCH_MAX, ClusterEvent, Hint, QueueEntry, SchedulingQueue, WaitingPod


class SentBinding(msgspec.Struct, frozen=True):
    """A placement on its way."""

    pod: PodView
    wish: BindRequest
    decision: str
    queued_ns: int = 0  # When the pod came into the queue; 0: not known.


class QueueReader(Protocol):
    """The queue, for those who look at it and move nobody."""

    def __len__(self) -> int: ...
    def entry(self, uid: str) -> QueueEntry | None: ...
    def waited_for(self, name: str) -> bool: ...
    @property
    def counts(self) -> dict[PodState, int]: ...
    @property
    def next_due_ns(self) -> int | None: ...


class PodMoves:
    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue  # Has an entry for each pod in `_waiting`, and for no other.
        self._waiting: dict[str, PodView] = {}
        self._sent: dict[str, SentBinding] = {}  # State sent, withdrawn or landed.
        self._landed: dict[str, int] = {}
        self._gates: dict[str, tuple[str, ...]] = {}  # Of pods in `_waiting`: gates that are on record.
        # The same for everybody else, by UID and to be read only: pods of ours without a node, as the cache
        # has them; bindings that are under way or landed; at which revision those landed that are not yet
        # seen.
        self.queue: QueueReader = queue
        self.waiting: Mapping[str, PodView] = MappingProxyType(self._waiting)
        self.sent: Mapping[str, SentBinding] = MappingProxyType(self._sent)
        self.landed: Mapping[str, int] = MappingProxyType(self._landed)

    def state(self, uid: str) -> PodState:
        entry = self._queue.entry(uid)
        if entry is not None:
            return entry.state
        if uid in self._landed:
            return "landed"
        return "withdrawn" if uid in self._sent else "new"

    def is_taken(self, uid: str) -> bool:
        """Taken from the queue, and not put back yet."""
        entry = self._queue.entry(uid)
        return entry is not None and entry.state in TAKEN

    def unfinished(self) -> list[str]:
        """Attempts that were begun, and whose end is not known."""
        taken = [uid for uid in self._waiting if self.is_taken(uid)]
        return taken + [uid for uid in self._sent if self.state(uid) == "withdrawn"]

    def is_under_way(self, sent: SentBinding) -> bool:
        """Whether this very binding is. If not, the cache has told more than its answer can."""
        return self._sent.get(sent.pod.uid) is sent

    # What the caches tell.

    def heard(self, view: PodView, cause: WakeCause, *, now_ns: int) -> None:
        """A pod of ours that has no node: new, or changed."""
        if view.uid in self._sent and view.uid not in self._waiting:
            # 1. A binding is under way. 2. The pod becomes another scheduler's. 3. It is ours again. Taken
            # from the queue now, it would be sent twice, to two nodes. (One that has landed raises.)
            check_move(self.state(view.uid), "sent", view.key)
            self._queue.add_sent(_queued(view), cause, now_ns=now_ns)
        else:
            self._queue.add(_queued(view), cause, now_ns=now_ns)
        self._waiting[view.uid] = view

    def leave(self, uid: str) -> None:
        """It is not ours to place any more. What is under way or landed stays: only its answer, or the cache,
        tells how that ended."""
        if uid in self._waiting:
            check_move(self.state(uid), "withdrawn" if uid in self._sent else "gone", uid)
            self._stop_waiting(uid)

    def seen(self, uid: str) -> None:
        """The cache shows it on a node, or finished; whoever bound it."""
        self._end(uid, "seen")

    def gone(self, uid: str) -> None:
        """The cache does not have it any more."""
        self._end(uid, "gone")

    def record_gates(self, uid: str, gates: tuple[str, ...]) -> bool:
        """Whether these gates of a waiting pod are new, and go on record."""
        if uid not in self._waiting or self._gates.get(uid) == gates:
            return False
        self._gates[uid] = gates
        return True

    # What the loop does.

    def take(self, *, most: int = BATCH_MAX) -> list[QueueEntry]:
        return self._queue.take(most=most)

    def come_due(self, *, now_ns: int) -> int:
        return self._queue.come_due(now_ns=now_ns)

    def wake(self, happening: ClusterEvent, hint: Hint, *, now_ns: int) -> list[str]:
        return self._queue.happened(happening, hint, now_ns=now_ns)

    def park(self, uid: str, waits: Sequence[str], *, now_ns: int) -> None:
        if uid in self._sent:
            check_move(self.state(uid), "parked", uid)
        self._queue.park(uid, waits, now_ns=now_ns)

    def send(self, sent: SentBinding) -> None:
        """Its binding goes out."""
        self._queue.send(sent.pod.uid)
        self._sent[sent.pod.uid] = sent

    # What the server answers.

    def has_landed(self, uid: str, revision: int) -> None:
        check_move(self.state(uid), "landed", uid)
        self._landed[uid] = revision
        self._stop_waiting(uid)

    def refuse(self, uid: str) -> bool:
        """What is under way did not come true: the server refused it, or a new term has fenced it off.
        Whether the pod is ours, and `retry` is to follow."""
        state = self.state(uid)
        check_move(state, "gone" if state == "withdrawn" else "refused", uid)
        if state != "withdrawn":
            self._queue.refuse(uid)
        self._sent.pop(uid, None)
        return state != "withdrawn"

    def retry(self, uid: str, cause: WakeCause, *, now_ns: int, backoff: bool = True) -> None:
        """After a refusal, or what held it back."""
        if uid in self._sent:
            check_move(self.state(uid), "active", uid)
        self._queue.retry(uid, cause, now_ns=now_ns, backoff=backoff)

    def _end(self, uid: str, state: PodState) -> None:
        if uid not in self._waiting and uid not in self._sent:
            return  # Most of what is heard is of pods that have had their node for long.
        check_move(self.state(uid), state, uid)
        if uid in self._waiting:
            self._stop_waiting(uid)
        self._landed.pop(uid, None)
        self._sent.pop(uid, None)

    def _stop_waiting(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._gates.pop(uid, None)
        self._queue.remove(uid)


def _queued(view: PodView) -> WaitingPod:
    return WaitingPod(
        view.uid, view.key, view.shape, view.tenant, view.priority, view.created_ns, bool(view.shape.gates)
    )
