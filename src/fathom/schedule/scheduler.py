"""The scheduler: a loop that wakes whom the news helps, takes pods from the line, decides, sends, goes on.

    caches ──hearing──> desk (known: table, policies, quotas; queue; news) <──waking
                          └──take──> deciding ──> journal ──> committing ──> Bound: done
                          ^             └─ no node: condition, parked; room may be made (roommaking)
                          └── backoff <─────────────────────── Refused: fresh candidate. Unknown: read the pod

Each arrow's word is a file; all of them share one `desk`. Those that send are made anew for each term.

From taking pods to what is to be sent nothing waits. Requests fly while the next batch is decided: the table
counts what was decided (assumed) until the outcome is *known*: the cache shows it, the server refused it, or
the pod says so itself. A placement is safe from any view, since the server proves it; evicting is not, and
needs a fresh one.
"""

from __future__ import annotations

import asyncio

from fathom.cache.caches import Caches
from fathom.cache.freshness import Probes
from fathom.client.api import Api
from fathom.control.cause import Cause
from fathom.control.lease import Term
from fathom.model.objects import key_of
from fathom.model.times import timestamp
from fathom.schedule import rules as events
from fathom.schedule.attempts import Attempts
from fathom.schedule.committing import Committing
from fathom.schedule.deciding import Deciding
from fathom.schedule.desk import Counts, Desk, Rules
from fathom.schedule.flights import Flights
from fathom.schedule.hearing import Hearing
from fathom.schedule.kinds import ROLLOUT
from fathom.schedule.known import Known
from fathom.schedule.observing import NO_LEASE, LeaseTerm, observed
from fathom.schedule.pod_moves import QueueReader
from fathom.schedule.queue import Happening
from fathom.schedule.roommaking import RoomMaking
from fathom.schedule.signals import QueueSignals
from fathom.schedule.voice import QUEUED, QUEUED_AFTER_S, Voice, Word
from fathom.schedule.waking import Waking
from fathom.seams.process import Inside

__all__ = ["Rules", "Scheduler"]

# Things that come to pass by themselves (expiries, ages, waiting that has lasted) are looked at this often.
LOOK_S = 1.0
PROBE_S = 5.0
ASK_FROM_S = 2.0  # Longer than a watch that is well says nothing: our servers send a bookmark a second.


class Scheduler:
    def __init__(
        self, inside: Inside, caches: Caches, rules: Rules, *, judging: events.Rules = events.RULES
    ) -> None:
        self._inside = inside
        self._desk = Desk(inside, caches, rules, judging=judging)
        self._rng = inside.streams.stream("settle")
        self._flights = Flights(inside.domain, self._desk.news.moved)
        self._draining = False  # Then nothing more is taken from the line.
        # Asked while somebody waits for a fresh view: a server may send bookmarks seldom, or a watch be dead.
        self._probes = Probes(caches, PROBE_S)
        self._probes.answered.append(self._answered)
        self._attempts = Attempts(self._desk)
        self._hearing = Hearing(self._desk, self._attempts)
        self._waking = Waking(self._desk, self._attempts)
        self.signals = QueueSignals(self._desk)

    @property
    def state(self) -> Desk:
        """For metrics, which only read it."""
        return self._desk

    @property
    def counts(self) -> Counts:
        return self._desk.counts

    @property
    def known(self) -> Known:
        return self._desk.known

    @property
    def queue(self) -> QueueReader:
        return self._desk.queue

    async def run(self, api: Api, term: Term | None) -> None:
        """For ever, or until cancelled."""
        inside = self._inside
        self._desk.term = term
        self._draining = False
        self._desk.voice = Voice(
            api,
            find=lambda key: self._desk.caches.snapshot().get("Pod", key),
            clock=inside.outside.clock,
            ids=inside.outside.ids,
            name=self._desk.rules.names[0],
        )
        deciding = self._deciding(api)
        loop = asyncio.get_running_loop()
        await self._recover()
        background = [loop.create_task(self._desk.voice.run()), loop.create_task(self._look_for_ever(api))]
        try:
            while True:
                self._desk.news.moved.clear()
                self._go_round(deciding)
                await self._until_moved()
        finally:
            self._probes.stop()
            await self._flights.cancel(background)

    def _deciding(self, api: Api) -> Deciding:
        """What a term needs for deciding and sending."""
        rooms = RoomMaking(self._desk, self._flights, self._hearing, api)
        committing = Committing(self._desk, self._flights, rooms, api, rng=self._rng)
        return Deciding(self._desk, self._attempts, rooms, committing)

    async def _recover(self) -> None:
        """What an earlier term left in hand: its requests are fenced off by now, so what the cache shows once
        it has caught up is what came of them."""
        left = self._desk.pods.unfinished()
        if not left and not self._desk.landed:
            return
        await self._desk.caches.probe("Pod", timeout_s=PROBE_S)
        for uid in left:
            if self._desk.take_back(uid):
                self._desk.pods.retry(
                    uid, Cause("start", "left by an earlier term"), now_ns=self._desk.clock.monotonic_ns()
                )

    async def drain(self, seconds: float) -> bool:
        """Take nothing more, and wait for what is under way. Whether all of it came to an end."""
        self._draining = True
        return await self._flights.wait(seconds)

    def _go_round(self, deciding: Deciding) -> None:
        now_ns = self._desk.clock.monotonic_ns()
        self._desk.pods.come_due(now_ns=now_ns)
        self._waking.wake_helped(now_ns=now_ns)
        while self._flights.binding < self._desk.rules.in_flight_max and not self._draining:
            entries = self._desk.pods.take(most=self._desk.rules.batch_max)
            if not entries:
                return
            deciding.decide(entries)

    async def _until_moved(self) -> None:
        due_ns = self._desk.queue.next_due_ns
        if due_ns is None:
            await self._desk.news.moved.wait()
            return
        timer = asyncio.get_running_loop().call_at(due_ns / 1e9, self._desk.news.moved.set)
        try:
            await self._desk.news.moved.wait()
        finally:
            timer.cancel()

    async def _look_for_ever(self, api: Api) -> None:
        """What no event tells: overrides that expire, doubts that are over, waiting that has lasted."""
        while True:
            await asyncio.sleep(LOOK_S)
            now_ns = self._desk.clock.now_ns()
            for name in self._desk.known.passing(now_ns=now_ns):
                self._desk.news.put(Happening(events.OVERRIDE_CHANGED, f"SchedulerOverride {name} ended"))
            for node in self._desk.doubts.settle(self._desk.caches.snapshot()):
                self._desk.news.put(Happening(events.TRUST_CHANGED, f"nodes {node}"))
            if self._desk.queue.waited_for(events.VIEW_FRESH):
                self._desk.news.add(Happening(events.VIEW_FRESH))
                self._ask_how_far()
            self._say_queued()
            if self._desk.news:
                self._desk.news.moved.set()
            await self._say_observed(api)

    def _ask_how_far(self) -> None:
        snapshot = self._desk.caches.snapshot()
        for kind in snapshot.kinds:
            if snapshot.age(kind) > ASK_FROM_S:
                self._probes.ask(kind)

    def _answered(self, kind: str) -> None:
        self._desk.news.put(Happening(events.VIEW_FRESH, f"{kind} is known to be new"))
        self._desk.news.moved.set()

    async def _say_observed(self, api: Api) -> None:
        """That every cache has reached what a rollout has activated."""
        if "PolicyRollout" not in self._desk.caches.kinds:
            return
        snapshot = self._desk.caches.snapshot()
        reached = min(snapshot.revisions.values())
        now, who = timestamp(self._desk.clock.now_ns()), self._desk.rules.observer or self._desk.rules.who
        for rollout in snapshot.list("PolicyRollout"):
            patch = observed(rollout, who=who, reached=reached, now=now, term=self._lease_term())
            if patch is not None:
                await api.patch(ROLLOUT.resource, "", key_of(rollout).name, patch, subresource="status")

    def _lease_term(self) -> LeaseTerm:
        term = self._desk.term
        return NO_LEASE if term is None else LeaseTerm(self._desk.rules.lease, term.epoch or 0)

    def _say_queued(self) -> None:
        now_ns, voice = self._desk.clock.monotonic_ns(), self._desk.voice
        if voice is None:
            return
        for uid, view in self._desk.waiting.items():
            entry = self._desk.queue.entry(uid)
            if entry is None or entry.attempt or now_ns - entry.added_ns < QUEUED_AFTER_S * 1e9:
                continue
            if entry.state == "active":
                voice.waits(Word(view.key, uid, QUEUED, "waits for its turn"))
