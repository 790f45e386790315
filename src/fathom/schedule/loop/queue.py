"""The scheduling queue: priority first, then tenants in turn, then age.

                     ┌──────────── a refusal, an unknown outcome: after a backoff ────────┐
    add ──> active ──> take ──> in hand ──> sent ──> done                                 │
     │         ^                  └──────── no node: parked, with the events it waits for ┤
     │         ├── an event that could help, and only as many as it can help <────────────┤
     │         └── the safety timer: no pod stays parked for ever <───────────────────────┘
     └──> gated ──> its gates are gone

Pods of one shape get the same answer, so they are taken together. Nothing here reads a clock or the cluster:
callers pass times, and the hint that says which pods of a shape an event could help. Each move has a cause,
which the next decision about the pod records. The table in `pod_states` lists the legal moves; only
`pod_moves` moves pods.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence

import msgspec

from fathom.model.backoff import Backoff
from fathom.model.cause import WakeCause
from fathom.model.objects import Key
from fathom.schedule.loop.pod_states import LEGAL, TAKEN, WAITING, IllegalMove, PodState, check_move

# kube-scheduler's: 1 s, doubled up to 10 s.
BACKOFF = Backoff(1.0, 10.0)
# kube-scheduler retries unschedulable pods after 5 minutes. Our attempts cost less, so a minute.
PARKED_S_MAX = 60.0
# A batch may overtake older pods of other shapes, of the same tenant and priority: by so many at most, once.
BATCH_MAX = 256


class WaitingPod(msgspec.Struct, frozen=True):
    """The properties of a pod that the queue orders by."""

    uid: str
    key: Key
    shape: Hashable  # Pods of one shape fit the same nodes.
    tenant: str
    priority: int  # Its own, or that of an override which raises it in the queue.
    created_ns: int
    gated: bool = False
    raised_by: str = ""  # That override, 'NAMESPACE/NAME'.


class QueueEntry(msgspec.Struct):
    """A pod and its state. `attempt` counts takes; `since_ns` is when it last began to wait."""

    pod: WaitingPod
    state: PodState
    cause: WakeCause
    since_ns: int
    added_ns: int
    attempt: int = 0
    failures: int = 0  # Refused commits in a row; the backoff grows with it.
    waits: tuple[str, ...] = ()  # While parked: events that could help.
    due_ns: int = 0  # While parked or in backoff: when it is retried anyway.
    number: int = 0  # Arrival order: creation times only have whole seconds.
    taken_before: int = 0  # How many pods had been taken when it became active.
    place: tuple[int, int] | None = None  # When last taken: which pod since it was active, of how many.

    @property
    def order(self) -> tuple[int, int, str]:
        return (self.pod.created_ns, self.number, self.pod.uid)


class ClusterEvent(msgspec.Struct, frozen=True):
    """An event that may help a pod. `name` is what filters declare; the rest goes into the record: the object
    that changed, if one did, and what else there is to say."""

    name: str
    detail: str = ""
    resource: str = ""  # 'nodes'
    key: Key = Key("", "")
    revision: int = 0  # Of the change.
    gone: bool = False  # The object was deleted.

    @property
    def cause(self) -> WakeCause:
        return WakeCause(
            "event", self.detail, self.resource, *self.key, self.revision, event=self.name, gone=self.gone
        )


Order = tuple[int, int, str]


class Hinted(msgspec.Struct, frozen=True):
    """The result of a trial of pods of one shape, after an event.

    `waits` is for pods that still fit nowhere, and is as important as `could`:
    1. A pod is parked: its nodes are cordoned. 2. A node is uncordoned: now its quota is exceeded. 3. The
    quota is raised, and nothing would wake the pod, which is listed as waiting for nodes."""

    could: Collection[str] = ()  # UIDs of pods that fit on a node now.
    waits: tuple[str, ...] = ()  # Further events that the other pods wait for.


# Called with pods of one shape, in queue order.
Hint = Callable[[Sequence[WaitingPod]], Hinted]


class _Line:
    """One tenant's active pods of one priority. Heaps may hold pods that have left the line: see `_head`."""

    __slots__ = ("by_age", "by_shape", "size")

    def __init__(self) -> None:
        self.by_age: list[Order] = []
        self.by_shape: dict[Hashable, list[Order]] = {}
        self.size = 0  # Number of active pods; at 0 the line is dropped.


class _OrderedLine:
    """A copy of a `_Line` for `in_order`, that can be taken from."""

    def __init__(self) -> None:
        self.waiting: dict[str, QueueEntry] = {}  # By UID, oldest first.
        self._by_shape: dict[Hashable, deque[QueueEntry]] = {}

    def add(self, entry: QueueEntry) -> None:
        self.waiting[entry.pod.uid] = entry
        self._by_shape.setdefault(entry.pod.shape, deque()).append(entry)

    def take(self, most: int) -> list[QueueEntry]:
        """The oldest, and those of its shape."""
        line = self._by_shape[next(iter(self.waiting.values())).pod.shape]
        batch = [line.popleft() for _ in range(min(most, len(line)))]
        for entry in batch:
            del self.waiting[entry.pod.uid]
        return batch


class SchedulingQueue:
    def __init__(
        self,
        rng: random.Random,
        *,
        parked_s_max: float = PARKED_S_MAX,
    ) -> None:
        self._rng = rng
        self._parked_s_max = parked_s_max
        self._entries: dict[str, QueueEntry] = {}  # By UID: each pod once, in one state.
        self._lines: dict[int, dict[str, _Line]] = {}  # Priority -> tenant -> line; no line is empty.
        self._count = 0  # Pods ever added.
        self._active = 0  # Pods that are active now.
        self._taken = 0  # Pods ever taken.
        self._turns: dict[str, int] = {}  # Tenant -> pods taken; the lowest is next.
        self._floor = 0  # Lower turns count as this: a tenant that was idle does not catch up.
        self._due: list[tuple[int, str]] = []  # Heap; stale where the entry's own due time differs.
        self._parked: dict[Hashable, dict[str, None]] = {}  # Shape -> UIDs.
        self._waits: dict[str, dict[Hashable, int]] = {}  # Event -> shape -> pods that wait for it.

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, uid: str) -> QueueEntry | None:
        return self._entries.get(uid)

    @property
    def counts(self) -> dict[PodState, int]:
        counts: dict[PodState, int] = dict.fromkeys(WAITING, 0)
        for entry in self._entries.values():
            counts[entry.state] += 1
        return counts

    # Adding, taking, returning.

    def add(self, pod: WaitingPod, cause: WakeCause, *, now_ns: int) -> None:
        """Add a new or changed pod. A pod in hand goes on: its commit will find the change."""
        existing = self._entries.get(pod.uid)
        if existing is None:
            self._count += 1
            entry = QueueEntry(pod, "gated", cause, now_ns, now_ns, number=self._count)
            self._entries[pod.uid] = entry
            if not pod.gated:
                self._activate(entry, cause, now_ns)
            return
        if existing.pod == pod:
            return
        if existing.state in TAKEN:
            existing.pod = pod
            return
        self._leave(existing)
        existing.pod = pod
        if pod.gated:
            self._move(existing, "gated")
            existing.cause, existing.since_ns = cause, now_ns
        else:
            self._activate(existing, cause, now_ns)

    def add_sent(self, pod: WaitingPod, cause: WakeCause, *, now_ns: int) -> None:
        """Add a pod that is ours again while its binding is under way: it is not taken before the answer."""
        self._count += 1
        self._entries[pod.uid] = QueueEntry(pod, "sent", cause, now_ns, now_ns, number=self._count)

    def remove(self, uid: str) -> None:
        """The pod is gone, or has a node."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._leave(entry)

    def set_priority(self, uid: str, priority: int, raised_by: str = "") -> None:
        """Move a pod in the queue. It is not woken, and keeps its age."""
        entry = self._entries.get(uid)
        if entry is None or (entry.pod.priority, entry.pod.raised_by) == (priority, raised_by):
            return
        pod = msgspec.structs.replace(entry.pod, priority=priority, raised_by=raised_by)
        if entry.state != "active":
            entry.pod = pod
            return
        self._leave(entry)
        entry.pod = pod
        self._join_line(entry)

    def take(self, *, most: int = BATCH_MAX) -> list[QueueEntry]:
        """The next pods, all of one shape, tenant and priority; empty when nothing is active."""
        if not self._lines:
            return []
        priority = max(self._lines)
        lines = self._lines[priority]
        tenant = min(lines, key=lambda name: (max(self._turns.get(name, 0), self._floor), name))
        line = lines[tenant]
        first = self._entries[self._head(line.by_age, priority)]
        taken = self._take_shape(line, priority, first.pod.shape, most)
        self._floor = max(self._turns.get(tenant, 0), self._floor)
        self._turns[tenant] = self._floor + len(taken)
        if not self._lines:
            self._turns, self._floor = {}, 0
        return taken

    def _take_shape(self, line: _Line, priority: int, shape: Hashable, most: int) -> list[QueueEntry]:
        heap = line.by_shape[shape]
        taken: list[QueueEntry] = []
        while heap and len(taken) < most:
            order = heapq.heappop(heap)
            entry = self._entries.get(order[-1])
            if entry is not None and _stands(entry, priority, order) and entry.pod.shape == shape:
                self._leave(entry)
                self._move(entry, "in-hand")
                entry.attempt += 1
                self._taken += 1
                which = self._taken - entry.taken_before
                entry.place = (which, which + self._active)
                taken.append(entry)
        return taken

    def send(self, uid: str) -> None:
        """The pod has a node, and its binding is sent."""
        entry = self._entries.get(uid)
        if entry is None:
            raise IllegalMove("new", "sent", uid)
        self._move(entry, "sent")

    def refuse(self, uid: str) -> None:
        """Its binding was not made: `retry` follows."""
        self._move(self._entries[uid], "refused")

    def park(self, uid: str, waits: Sequence[str], *, now_ns: int) -> None:
        """No node takes the pod now; these events could change that."""
        entry = self._entries.get(uid)
        if entry is None:  # It went away meanwhile.
            return
        check_move(entry.state, "parked", entry)
        if entry.pod.gated:
            self._move(entry, "gated")
            return
        self._move(entry, "parked")
        entry.since_ns, entry.failures = now_ns, 0
        entry.waits = ()
        self._parked.setdefault(entry.pod.shape, {})[uid] = None
        self._wait_for(entry, waits)
        # A tenth is random, so that pods that were parked together are not all retried together.
        self._set_due(entry, now_ns + round(self._parked_s_max * (0.9 + 0.1 * self._rng.random()) * 1e9))

    def retry(self, uid: str, cause: WakeCause, *, now_ns: int, backoff: bool = True) -> None:
        """The commit was refused, or its outcome is unknown. No backoff if the refusal brought new facts."""
        entry = self._entries.get(uid)
        if entry is None:  # It went away meanwhile.
            return
        if entry.state != "refused":
            self._move(entry, "refused")
        if entry.pod.gated:
            self._move(entry, "gated")
            return
        entry.failures += 1
        if not backoff:
            self._activate(entry, cause, now_ns)
            return
        self._move(entry, "backoff")
        entry.cause, entry.since_ns = cause, now_ns
        self._set_due(entry, now_ns + round(BACKOFF.jittered_s(entry.failures, self._rng) * 1e9))

    def in_order(self, *, most: int = BATCH_MAX) -> list[QueueEntry]:
        """The active pods in the order in which `take` would take them now. Changes nothing."""
        ordered: list[QueueEntry] = []
        turns, floor = dict(self._turns), self._floor
        lines: dict[int, dict[str, _OrderedLine]] = {}
        active = [entry for entry in self._entries.values() if entry.state == "active"]
        for entry in sorted(active, key=lambda entry: entry.order):
            by_tenant = lines.setdefault(entry.pod.priority, {})
            by_tenant.setdefault(entry.pod.tenant, _OrderedLine()).add(entry)
        for priority in sorted(lines, reverse=True):
            by_tenant = lines[priority]
            while by_tenant:
                tenant = min(by_tenant, key=lambda name: (max(turns.get(name, 0), floor), name))
                batch = by_tenant[tenant].take(most)
                ordered += batch
                floor = max(turns.get(tenant, 0), floor)
                turns[tenant] = floor + len(batch)
                if not by_tenant[tenant].waiting:
                    del by_tenant[tenant]
        return ordered

    # Waking.

    def happened(self, event: ClusterEvent, hint: Hint, *, now_ns: int) -> list[str]:
        """Wake the pods that the event could help, as the hint says, oldest first."""
        woken: list[str] = []
        for shape in tuple(self._waits.get(event.name, ())):
            entries = self._waiting_for(shape, event.name)
            hinted = hint([entry.pod for entry in entries])
            for entry in entries:
                if entry.pod.uid in hinted.could:
                    self._leave(entry)
                    self._activate(entry, event.cause, now_ns)
                    woken.append(entry.pod.uid)
                else:
                    self._wait_for(entry, hinted.waits)
        return woken

    def _wait_for(self, entry: QueueEntry, names: Sequence[str]) -> None:
        more = [name for name in dict.fromkeys(names) if name not in entry.waits]
        if not more:
            return
        entry.waits = (*entry.waits, *more)
        for name in more:
            shapes = self._waits.setdefault(name, {})
            shapes[entry.pod.shape] = shapes.get(entry.pod.shape, 0) + 1

    def waited_for(self, name: str) -> bool:
        return bool(self._waits.get(name))

    def come_due(self, *, now_ns: int) -> int:
        """Make pods active whose time is due; returns how many."""
        moved = 0
        while self._due and self._due[0][0] <= now_ns:
            due_ns, uid = heapq.heappop(self._due)
            entry = self._entries.get(uid)
            if entry is None or entry.due_ns != due_ns or entry.state not in {"backoff", "parked"}:
                continue
            cause = (
                entry.cause if entry.state == "backoff" else WakeCause("timer", "parked for the maximum time")
            )
            self._leave(entry)
            self._activate(entry, cause, now_ns)
            moved += 1
        return moved

    @property
    def next_due_ns(self) -> int | None:
        while self._due:
            due_ns, uid = self._due[0]
            entry = self._entries.get(uid)
            if entry is not None and entry.due_ns == due_ns and entry.state in {"backoff", "parked"}:
                return due_ns
            heapq.heappop(self._due)
        return None

    # Internals.

    def _move(self, entry: QueueEntry, state: PodState) -> None:
        """The only place where a state changes. It raises before anything has changed."""
        if state not in LEGAL[entry.state]:  # `check_move` inlined: saves a call, several per pod.
            raise IllegalMove(entry.state, state, entry)
        entry.state = state

    def _activate(self, entry: QueueEntry, cause: WakeCause, now_ns: int) -> None:
        self._move(entry, "active")
        entry.cause, entry.since_ns, entry.waits = cause, now_ns, ()
        self._join_line(entry)
        entry.taken_before = self._taken

    def _join_line(self, entry: QueueEntry) -> None:
        pod = entry.pod
        lines = self._lines.setdefault(pod.priority, {})
        line = lines.get(pod.tenant)
        if line is None:
            line = lines[pod.tenant] = _Line()
        heapq.heappush(line.by_age, entry.order)
        heapq.heappush(line.by_shape.setdefault(pod.shape, []), entry.order)
        line.size += 1
        self._active += 1

    def _leave(self, entry: QueueEntry) -> None:
        """Remove the pod from the indexes of its state. Heaps stay as they are: stale entries are skipped."""
        pod = entry.pod
        if entry.state == "active":
            line = self._lines[pod.priority][pod.tenant]
            line.size -= 1
            self._active -= 1
            heap = line.by_shape.get(pod.shape)
            if heap is not None and not heap:
                del line.by_shape[pod.shape]
            if line.size == 0:
                del self._lines[pod.priority][pod.tenant]
                if not self._lines[pod.priority]:
                    del self._lines[pod.priority]
        elif entry.state == "parked":
            self._unpark(entry)
        entry.due_ns = 0

    def _unpark(self, entry: QueueEntry) -> None:
        shape = entry.pod.shape
        del self._parked[shape][entry.pod.uid]
        if not self._parked[shape]:
            del self._parked[shape]
        for name in entry.waits:
            shapes = self._waits[name]
            shapes[shape] -= 1
            if not shapes[shape]:
                del shapes[shape]
        entry.waits = ()

    def _waiting_for(self, shape: Hashable, name: str) -> list[QueueEntry]:
        entries = [self._entries[uid] for uid in self._parked[shape]]
        wanting = [entry for entry in entries if name in entry.waits]
        return sorted(wanting, key=lambda entry: (-entry.pod.priority, *entry.order))

    def _head(self, heap: list[Order], priority: int) -> str:
        while True:
            entry = self._entries.get(heap[0][-1])
            if entry is not None and _stands(entry, priority, heap[0]):
                return entry.pod.uid
            heapq.heappop(heap)

    def _set_due(self, entry: QueueEntry, due_ns: int) -> None:
        entry.due_ns = due_ns
        heapq.heappush(self._due, (due_ns, entry.pod.uid))


def _stands(entry: QueueEntry, priority: int, order: Order) -> bool:
    return entry.state == "active" and entry.pod.priority == priority and entry.order == order
