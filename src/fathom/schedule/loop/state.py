"""The scheduler's state: pods that wait, bindings that were sent or have landed, nodes that refused.

The parts of the scheduler (`cache_updates`, `waking`, `committing`, `preemption`, and the loop itself) share
one state, and none keeps a copy. `pods` holds the state of each pod, and only it moves them (see
`pod_moves`). The methods here call it, and free the room that the pod had in the table, if any.

Nothing here waits for anything or sends anything.
"""

from __future__ import annotations

import zlib

import msgspec

from fathom.cache.caches import Caches
from fathom.control.lease import LeaderTerm
from fathom.metrics.numbers import LONG_S, Durations
from fathom.model.cause import WakeCause
from fathom.model.decision import Subject
from fathom.model.objects import Obj
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.rules import Rules
from fathom.schedule.loop.cluster_events import ClusterEvents
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.schedule.loop.decision_records import Recorder
from fathom.schedule.loop.pod_moves import PodMoves, SentBinding
from fathom.schedule.loop.pod_status_writer import PodStatusWriter
from fathom.schedule.loop.queue import SchedulingQueue
from fathom.schedule.loop.raised_priorities import RaisedPriority
from fathom.schedule.loop.refused_nodes import RefusedNodes
from fathom.schedule.loop.watched_kinds import STORAGE_CLASS
from fathom.seams.process import Inside

CONTROLLER = "scheduler"


class CurrentRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which pods are this scheduler's, and how their bindings are sent."""

    names: tuple[str, ...]
    shard: int = 0
    shards: int = 1
    who: str = CONTROLLER
    observer: str = ""  # Its name in observedBy of PolicyRollouts; '': as above.
    lease: str = ""  # Shared with other schedulers, which stand by.
    batch_max: int = 256
    in_flight_max: int = 2
    attached: bool = False  # To a Kubernetes that is not fathom's: its server enforces no override.
    bind_timeout_s: float = 10.0  # After this the outcome is unknown, and the pods are read.

    def is_ours(self, pod: Obj, tenant: str) -> bool:
        name = (pod.get("spec") or {}).get("schedulerName") or "default-scheduler"
        return name in self.names and (
            self.shards == 1 or zlib.crc32(tenant.encode()) % self.shards == self.shard
        )


class SchedulerCounts(msgspec.Struct):
    """For people and metrics. They only grow."""

    attempts: int = 0
    bound: int = 0
    unschedulable: int = 0
    refused: dict[str, int] = {}  # By check.
    unknown: int = 0
    batches: int = 0
    preempted: int = 0  # Evicted victims.
    bound_after: Durations = msgspec.field(default_factory=lambda: Durations(LONG_S))  # Since it was queued.


class SchedulerState:
    def __init__(self, inside: Inside, caches: Caches, rules: CurrentRules, *, judging: Rules) -> None:
        self.caches = caches
        self.rules = rules
        self.clock = inside.outside.clock
        self.counts = SchedulerCounts()
        self.known = ClusterView(tie_seed=inside.streams.stream("ties").getrandbits(31), rules=judging)
        if STORAGE_CLASS.name in caches.kinds:
            self.known.follow_storage_classes()
        self.pods = PodMoves(SchedulingQueue(inside.streams.stream("line")))
        self.queue = self.pods.queue  # These four are to be read only.
        self.waiting = self.pods.waiting
        self.sent = self.pods.sent
        self.landed = self.pods.landed
        self.recorder = Recorder(inside.journal, prefix=inside.outside.ids.uid()[:8], controller=rules.who)
        self.cluster_events = ClusterEvents()
        self.refused_nodes = RefusedNodes()
        self.rejecting: dict[
            str, tuple[str, ...]
        ] = {}  # UID of a pod without a node -> the rules that rejected nodes, for metrics.
        self.status_writer: PodStatusWriter | None = (
            None  # None until the first term; then the latest term's.
        )
        self._priorities_raised = False  # Whether an override raised priorities when last looked at.
        self.term: LeaderTerm | None = None  # Of the lease, if any: its epoch is recorded.

    @property
    def epoch(self) -> int:
        """Of the leader term; 0 without a lease."""
        return (self.term.epoch or 0) if self.term is not None else 0

    def note(
        self, verdict: str, subject: Subject, cause: WakeCause, why: str, *, controller: str = ""
    ) -> str:
        """Record a decision that is no attempt to place a pod; its id."""
        return self.recorder.noted(
            verdict,
            subject,
            cause=cause,
            time_ns=self.clock.now_ns(),
            epoch=self.epoch,
            why=why,
            controller=controller,
        )

    def raised_priority(self, view: PodView) -> RaisedPriority | None:
        raised = self.known.raised
        return raised.of(view, now_ns=self.clock.now_ns()) if raised.overrides else None

    def set_priorities(self) -> None:
        """Give every waiting pod its priority in the queue. Needed when an override changes; and each second
        while one raises priorities, since neither its end nor a move of its target makes an event."""
        now_ns = self.clock.now_ns()
        raises = self.known.raised.look_again(now_ns=now_ns)
        if raises or self._priorities_raised:
            for uid, view in self.waiting.items():
                self.pods.raise_priority(uid, self.known.raised.of(view, now_ns=now_ns))
        self._priorities_raised = raises

    def leave(self, uid: str) -> None:
        """The pod is not ours to place any more."""
        self.pods.leave(uid)
        self._give_back_room(uid)

    def seen(self, uid: str) -> None:
        """The cache shows the pod on a node, or finished."""
        self.pods.seen(uid)
        self._give_back_room(uid)

    def gone(self, uid: str) -> None:
        self.pods.gone(uid)
        self._give_back_room(uid)

    def land(self, sent: SentBinding, revision: int) -> None:
        """The server has bound the pod. Ignored if the cache already knows more."""
        uid = sent.pod.uid
        if self.pods.is_under_way(sent) and uid in self.waiting:
            self.pods.has_landed(uid, revision)
            self._give_back_room(uid)

    def take_back(self, uid: str) -> bool:
        """The attempt did not bind the pod. Returns whether it is ours to retry."""
        state = self.pods.state(uid)
        if state not in {"in-hand", "sent", "withdrawn"}:
            return False
        self.forget(uid)
        return state == "in-hand" or self.pods.refuse(uid)

    def forget(self, uid: str) -> None:
        """Drop a placement that failed: its room is free for other pods, and no event from the server will
        say so."""
        node = self.known.table.assumed(uid)
        if self.known.table.forget(uid) and node:
            self.cluster_events.record_freed_room(node, f"a placement on {node} failed")

    def _give_back_room(self, uid: str) -> None:
        """Free the room kept for the pod while it waited, and drop its unsent message."""
        claim = self.known.table.claims.get(uid)
        if claim is not None:
            self.cluster_events.record_freed_room(claim.node, f"room on {claim.node} was released")
        self.rejecting.pop(uid, None)
        self.known.unnominate(uid)
        if self.status_writer is not None:
            self.status_writer.forget(uid)
