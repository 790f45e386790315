"""What lies on a scheduler's desk: what waits, what is on its way, what has landed, what is doubted.

The pieces of the scheduler (`hearing`, `waking`, `committing`, `roommaking`, and the loop itself) share one,
and none keeps a copy. A pod without a node that is ours is in `waiting` and in the line, always in both:

    heard of ──> waiting ──placed──> waiting + sent ──Bound──> landed + sent ──seen there──> in the table only
                    ^                     └──Refused──┐
                    └─────────────────────────────────┘

Nothing here waits for anything or sends anything.
"""

from __future__ import annotations

import zlib

import msgspec

from fathom.cache.caches import Caches
from fathom.control.lease import Term
from fathom.model.objects import Obj
from fathom.schedule import rules as events
from fathom.schedule.doubts import Doubts
from fathom.schedule.known import Known
from fathom.schedule.news import News
from fathom.schedule.pods import PodView
from fathom.schedule.queue import SchedulingQueue
from fathom.schedule.records import Recorder
from fathom.schedule.sending import Wish
from fathom.schedule.voice import Voice
from fathom.seams.process import Inside

CONTROLLER = "scheduler"


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Which pods are ours, and how they are sent."""

    names: tuple[str, ...]
    shard: int = 0
    shards: int = 1
    who: str = CONTROLLER
    observer: str = ""  # By which name it says what it has observed; '': as above.
    lease: str = ""  # That it shares with others, who stand by.
    batch_max: int = 256
    in_flight_max: int = 2
    bind_timeout_s: float = 10.0  # Then the outcome is unknown, and the pods are asked.

    def is_ours(self, pod: Obj, tenant: str) -> bool:
        name = (pod.get("spec") or {}).get("schedulerName") or "default-scheduler"
        return name in self.names and (
            self.shards == 1 or zlib.crc32(tenant.encode()) % self.shards == self.shard
        )


class Sent(msgspec.Struct, frozen=True):
    """A placement on its way."""

    pod: PodView
    wish: Wish
    decision: str


class Counts(msgspec.Struct):
    """For people and metrics. They only grow."""

    attempts: int = 0
    bound: int = 0
    unschedulable: int = 0
    refused: dict[str, int] = {}  # By check.
    unknown: int = 0
    batches: int = 0
    preempted: int = 0  # Victims that were asked to leave.


class Desk:
    def __init__(self, inside: Inside, caches: Caches, rules: Rules, *, judging: events.Rules) -> None:
        self.caches = caches
        self.rules = rules
        self.clock = inside.outside.clock
        self.counts = Counts()
        self.known = Known(tie_seed=inside.streams.stream("ties").getrandbits(31), rules=judging)
        self.queue = SchedulingQueue(inside.streams.stream("line"))
        self.recorder = Recorder(inside.journal, prefix=inside.outside.ids.uid()[:8], controller=rules.who)
        self.news = News()
        self.doubts = Doubts()
        self.waiting: dict[str, PodView] = {}  # By UID: ours, without a node, as the cache has them.
        self.sent: dict[str, Sent] = {}  # By UID: on its way, or not yet seen to have landed.
        self.landed: dict[str, int] = {}  # By UID: bound by us, not yet seen so in the cache.
        self.gated: dict[str, tuple[str, ...]] = {}  # By UID, of those that wait: gates that are on record.
        self.voice: Voice | None = None  # None until the first term; then that of the latest.
        self.term: Term | None = None  # Of the lease, where there is one: its epoch goes on record.

    def leave(self, uid: str) -> None:
        """It is not ours to place any more."""
        claim = self.known.table.claims.get(uid)
        if claim is not None:
            self.news.tell_of_room(claim.node, f"room on {claim.node} that is not kept any more")
        self.waiting.pop(uid, None)
        self.gated.pop(uid, None)
        self.queue.remove(uid)
        self.known.unnominate(uid)
        if self.voice is not None:
            self.voice.forget(uid)

    def forget(self, uid: str) -> None:
        """A placement that did not come true: what it would have taken is there for others, and no event of
        the server's will say so."""
        node = self.known.table.assumed(uid)
        if self.known.table.forget(uid) and node:
            self.news.tell_of_room(node, f"a placement on {node} that did not come true")

    def is_in_hand(self, uid: str) -> bool:
        entry = self.queue.entry(uid)
        return entry is not None and entry.state == "in-hand"
