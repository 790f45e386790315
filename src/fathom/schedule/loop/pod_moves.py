"""The state of each pod of this scheduler, and the only code that changes it: one method per happening.

    heard ──> waiting (and in the queue) ──sent──> waiting + sent ──landed──> landed + sent ──seen──> nowhere
                 ^                                        └──refused──┐
                 └────────────────retry───────────────────────────────┘

Other modules read `waiting`, `sent`, `landed` and the queue, and cannot change them. The table in
`pod_states` lists the legal moves. A method that would make an illegal move raises, and has changed nothing.
A pod that is seen on a node, or gone, is dropped here: the node table has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import msgspec

from fathom.model.cause import WakeCause
from fathom.schedule.decide.pods import PodView
from fathom.schedule.loop.bind_requests import BindRequest
from fathom.schedule.loop.pod_states import TAKEN, PodState, check_move
from fathom.schedule.loop.queue import BATCH_MAX, ClusterEvent, Hint, QueueEntry, SchedulingQueue, WaitingPod
from fathom.schedule.loop.raised_priorities import RaisedPriority


class SentBinding(msgspec.Struct, frozen=True):
    """A placement whose binding was sent."""

    pod: PodView
    request: BindRequest
    decision: str
    queued_ns: int = 0  # When the pod was added to the queue; 0: not known.


class QueueReader(Protocol):
    """The queue, for code that reads it and moves no pod."""

    def __len__(self) -> int: ...
    def entry(self, uid: str) -> QueueEntry | None: ...
    def waited_for(self, name: str) -> bool: ...
    def in_order(self) -> list[QueueEntry]: ...
    @property
    def counts(self) -> dict[PodState, int]: ...
    @property
    def next_due_ns(self) -> int | None: ...


class PodMoves:
    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue  # Has an entry for each pod in `_waiting`, and no others.
        self._waiting: dict[str, PodView] = {}
        self._sent: dict[str, SentBinding] = {}  # State sent, withdrawn or landed.
        self._landed: dict[str, int] = {}
        self._gates: dict[str, tuple[str, ...]] = {}  # Of pods in `_waiting`: recorded gates.
        # The same, read-only and by UID, for other modules: our pods without a node, as the cache has them;
        # bindings under way or landed; the revision of each landed binding that the cache does not show yet.
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
        """Whether the pod is taken from the queue, and not put back yet."""
        entry = self._queue.entry(uid)
        return entry is not None and entry.state in TAKEN

    def unfinished(self) -> list[str]:
        """UIDs of pods whose attempt has begun and has no known outcome."""
        taken = [uid for uid in self._waiting if self.is_taken(uid)]
        return taken + [uid for uid in self._sent if self.state(uid) == "withdrawn"]

    def is_under_way(self, sent: SentBinding) -> bool:
        """Whether this very binding is under way. If not, the cache already knows more than its answer."""
        return self._sent.get(sent.pod.uid) is sent

    # Changes from the caches.

    def heard(
        self, view: PodView, cause: WakeCause, *, now_ns: int, raised: RaisedPriority | None = None
    ) -> None:
        """The cache shows a pod of ours without a node: new, or changed."""
        queued = _queued(view, raised)
        if view.uid in self._sent and view.uid not in self._waiting:
            # 1. A binding is under way. 2. The pod moves to another scheduler. 3. It is ours again. Taken
            # from the queue now, it would be sent twice, to two nodes. (A pod that has landed raises.)
            check_move(self.state(view.uid), "sent", view.key)
            self._queue.add_sent(queued, cause, now_ns=now_ns)
        else:
            self._queue.add(queued, cause, now_ns=now_ns)
        self._waiting[view.uid] = view

    def raise_priority(self, uid: str, raised: RaisedPriority | None) -> None:
        """An override that raises a waiting pod in the queue has begun; None: no override does any more."""
        queued = _queued(self._waiting[uid], raised)
        self._queue.set_priority(uid, queued.priority, queued.raised_by)

    def leave(self, uid: str) -> None:
        """The pod is not ours to place any more. A binding under way or landed stays: only its answer, or the
        cache, tells the outcome."""
        if uid in self._waiting:
            check_move(self.state(uid), "withdrawn" if uid in self._sent else "gone", uid)
            self._stop_waiting(uid)

    def seen(self, uid: str) -> None:
        """The cache shows the pod on a node, or finished; any scheduler may have bound it."""
        self._end(uid, "seen")

    def gone(self, uid: str) -> None:
        """The cache does not have the pod any more."""
        self._end(uid, "gone")

    def record_gates(self, uid: str, gates: tuple[str, ...]) -> bool:
        """Whether these gates of a waiting pod are new, and must be recorded."""
        if uid not in self._waiting or self._gates.get(uid) == gates:
            return False
        self._gates[uid] = gates
        return True

    # Moves by the loop.

    def take(self, *, most: int = BATCH_MAX) -> list[QueueEntry]:
        return self._queue.take(most=most)

    def come_due(self, *, now_ns: int) -> int:
        return self._queue.come_due(now_ns=now_ns)

    def wake(self, event: ClusterEvent, hint: Hint, *, now_ns: int) -> list[str]:
        return self._queue.happened(event, hint, now_ns=now_ns)

    def park(self, uid: str, waits: Sequence[str], *, now_ns: int) -> None:
        if uid in self._sent:
            check_move(self.state(uid), "parked", uid)
        self._queue.park(uid, waits, now_ns=now_ns)

    def send(self, sent: SentBinding) -> None:
        """The pod's binding is sent."""
        self._queue.send(sent.pod.uid)
        self._sent[sent.pod.uid] = sent

    # Answers of the server.

    def has_landed(self, uid: str, revision: int) -> None:
        check_move(self.state(uid), "landed", uid)
        self._landed[uid] = revision
        self._stop_waiting(uid)

    def refuse(self, uid: str) -> bool:
        """The binding under way failed: the server refused it, or a new term has fenced it off. Returns
        whether the pod is ours, so that `retry` must follow."""
        state = self.state(uid)
        check_move(state, "gone" if state == "withdrawn" else "refused", uid)
        if state != "withdrawn":
            self._queue.refuse(uid)
        self._sent.pop(uid, None)
        return state != "withdrawn"

    def retry(self, uid: str, cause: WakeCause, *, now_ns: int, backoff: bool = True) -> None:
        """Put the pod back into the queue, after a refusal or after it was held back."""
        if uid in self._sent:
            check_move(self.state(uid), "active", uid)
        self._queue.retry(uid, cause, now_ns=now_ns, backoff=backoff)

    def _end(self, uid: str, state: PodState) -> None:
        if uid not in self._waiting and uid not in self._sent:
            return  # Most cache changes are about pods that were bound long ago.
        check_move(self.state(uid), state, uid)
        if uid in self._waiting:
            self._stop_waiting(uid)
        self._landed.pop(uid, None)
        self._sent.pop(uid, None)

    def _stop_waiting(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._gates.pop(uid, None)
        self._queue.remove(uid)


def _queued(view: PodView, raised: RaisedPriority | None) -> WaitingPod:
    gated = bool(view.shape.gates)
    if raised is None or raised.priority <= view.priority:
        return WaitingPod(view.uid, view.key, view.shape, view.tenant, view.priority, view.created_ns, gated)
    return WaitingPod(
        view.uid, view.key, view.shape, view.tenant, raised.priority, view.created_ns, gated, raised.override
    )
