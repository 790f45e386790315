"""The scheduler: keeps what it knows in step with the caches, decides for pods in line, sends, goes on.

    caches ──> known (table, policies, quotas) ──┐
       └─────> queue ──take──> place_batch ──> journal ──> bindingbatches ──> Bound: done
                 ^                └─ no node: condition, parked                 Refused: fresh candidate
                 └───────────── backoff <───────────────────────────────────────┘ Unknown: read the pod

From taking pods to what is to be sent nothing waits. Requests fly while the next batch is decided: the table
counts what was decided (assumed) until the outcome is *known*: the cache shows it, the server refused it, or
the pod says so itself. A placement is safe from any view, since the server proves it; evicting is not, and
needs a fresh one.
"""

from __future__ import annotations

import asyncio

import msgspec

from fathom.cache.caches import Caches
from fathom.client.api import Api
from fathom.control.cause import Cause
from fathom.control.lease import Term
from fathom.model.objects import key_of
from fathom.schedule import rules as events
from fathom.schedule.attempts import Attempts
from fathom.schedule.committing import Committing
from fathom.schedule.desk import Counts, Desk, Rules, Sent
from fathom.schedule.flights import Flights
from fathom.schedule.hearing import Hearing
from fathom.schedule.kinds import ROLLOUT
from fathom.schedule.known import Known
from fathom.schedule.observing import observed
from fathom.schedule.place import Placement
from fathom.schedule.pods import PodView
from fathom.schedule.preempting import not_fresh
from fathom.schedule.queue import Entry, Happening, SchedulingQueue
from fathom.schedule.records import Circumstances
from fathom.schedule.roommaking import RoomMaking
from fathom.schedule.sending import (
    Wish,
)
from fathom.schedule.voice import QUEUED, QUEUED_AFTER_S, Voice, Word
from fathom.schedule.waking import Waking
from fathom.seams.outside import timestamp
from fathom.seams.process import Inside

__all__ = ["Rules", "Scheduler"]

DECISION, POLICY = "fathom.dev/decision", "fathom.dev/policy"
# Things that come to pass by themselves (expiries, ages, waiting that has lasted) are looked at this often.
LOOK_S = 1.0
PROBE_S = 5.0


Refused = tuple[Entry, PodView, Placement, Circumstances]


class Scheduler:
    def __init__(
        self, inside: Inside, caches: Caches, rules: Rules, *, judging: events.Rules = events.RULES
    ) -> None:
        self._inside = inside
        self._desk = Desk(inside, caches, rules, judging=judging)
        self._rng = inside.streams.stream("settle")
        self._flights = Flights(inside.domain, self._desk.news.moved)
        self._draining = False  # Then nothing more is taken from the line.
        self._attempts = Attempts(self._desk)
        self._hearing = Hearing(self._desk, self._attempts)
        self._waking = Waking(self._desk, self._attempts)

    @property
    def counts(self) -> Counts:
        return self._desk.counts

    @property
    def known(self) -> Known:
        return self._desk.known

    @property
    def queue(self) -> SchedulingQueue:
        return self._desk.queue

    # The loop.

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
        self._rooms = RoomMaking(self._desk, self._flights, self._hearing, api)
        self._committing = Committing(self._desk, self._flights, self._rooms, api, rng=self._rng)
        loop = asyncio.get_running_loop()
        await self._recover()
        background = [loop.create_task(self._desk.voice.run()), loop.create_task(self._look_for_ever(api))]
        try:
            while True:
                self._desk.news.moved.clear()
                self._go_round(api)
                await self._until_moved()
        finally:
            await self._flights.cancel(background)

    async def _recover(self) -> None:
        """What an earlier term left in hand: its requests are fenced off by now, so what the cache shows once
        it has caught up is what came of them."""
        left = [uid for uid in self._desk.waiting if self._desk.is_in_hand(uid)]
        if not left and not self._desk.landed:
            return
        await self._desk.caches.probe("Pod", timeout_s=PROBE_S)
        for uid in left:
            if self._desk.is_in_hand(uid):
                self._desk.forget(uid)
                self._desk.queue.retry(
                    uid, Cause("start", "left by an earlier term"), now_ns=self._desk.clock.monotonic_ns()
                )

    async def drain(self, seconds: float) -> bool:
        """Take nothing more, and wait for what is under way. Whether all of it came to an end."""
        self._draining = True
        return await self._flights.wait(seconds)

    def _go_round(self, api: Api) -> None:
        now_ns = self._desk.clock.monotonic_ns()
        self._desk.queue.come_due(now_ns=now_ns)
        self._waking.wake_helped(now_ns=now_ns)
        while self._flights.binding < self._desk.rules.in_flight_max and not self._draining:
            entries = self._desk.queue.take(most=self._desk.rules.batch_max)
            if not entries:
                return
            self._decide_all(api, entries)

    def _decide_all(self, api: Api, entries: list[Entry]) -> None:
        by_uid = {entry.pod.uid: entry for entry in entries if not self._rooms.is_held_back(entry.pod.uid)}
        sent: list[Sent] = []
        for pods in self._attempts.groups([self._desk.waiting[uid] for uid in by_uid]):
            decided, refused = self._decide([by_uid[pod.uid] for pod in pods], pods)
            sent += decided
            for entry, pod, placement, around in refused:
                self._cannot(api, entry, pod, placement, around)
        if sent:
            self._committing.begin(sent)

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
                self._desk.news.add(Happening(name, "with time"))
            for node in self._desk.doubts.settle(self._desk.caches.snapshot()):
                self._desk.news.put(Happening(events.TRUST_CHANGED, f"nodes {node}"))
            if self._desk.queue.waited_for(events.VIEW_FRESH):
                self._desk.news.add(Happening(events.VIEW_FRESH))
            self._say_queued()
            if self._desk.news:
                self._desk.news.moved.set()
            await self._say_observed(api)

    async def _say_observed(self, api: Api) -> None:
        """That every cache has reached what a rollout has activated."""
        if "PolicyRollout" not in self._desk.caches.kinds:
            return
        snapshot = self._desk.caches.snapshot()
        reached = min(snapshot.revisions.values())
        now = timestamp(self._desk.clock.now_ns())
        for rollout in snapshot.list("PolicyRollout"):
            patch = observed(rollout, who=self._desk.rules.who, reached=reached, now=now)
            if patch is not None:
                await api.patch(ROLLOUT.resource, "", key_of(rollout).name, patch, subresource="status")

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

    # Deciding.

    def _decide(self, entries: list[Entry], pods: list[PodView]) -> tuple[list[Sent], list[Refused]]:
        context = self._attempts.context(pods[0])
        around = self._attempts.around(context, pods)
        placements = self._desk.known.decider.place_batch(pods, context)
        self._desk.counts.batches += 1
        self._desk.counts.attempts += len(pods)
        sent: list[Sent] = []
        refused: list[Refused] = []
        for entry, pod, placement in zip(entries, pods, placements, strict=True):
            if placement.node is None:
                refused.append((entry, pod, placement, around))
            else:
                sent.append(self._send(entry, pod, placement, around))
        return sent, refused

    def _send(self, entry: Entry, pod: PodView, placement: Placement, around: Circumstances) -> Sent:
        id_ = self._attempts.record(entry, pod, placement, around, "bind")
        wish = Wish(
            namespace=pod.key.namespace,
            name=pod.key.name,
            uid=pod.uid,
            node=placement.node or "",
            node_revision=str(placement.node_revision or ""),
            annotations=self._annotations(id_, placement),
            policy=placement.policy if placement.policy != "builtin" else "",
            overrides=placement.overrides,
            reservation=self._reserved(pod.uid, placement.node or ""),
        )
        sent = self._desk.sent[pod.uid] = Sent(pod, wish, id_)
        return sent

    def _reserved(self, uid: str, node: str) -> str:
        """The reservation on whose strength it goes there, if any."""
        held = self._desk.known.held_for.get(uid)
        return held.key.name if held is not None and held.node == node else ""

    def _annotations(self, id_: str, placement: Placement) -> dict[str, str]:
        found = {DECISION: id_}
        if placement.policy:
            found[POLICY] = placement.policy
        if placement.overrides:
            found["fathom.dev/overrides"] = ",".join(placement.overrides)
        if placement.capacity_class:
            found["fathom.dev/capacity-class"] = placement.capacity_class
        return found

    def _cannot(
        self, api: Api, entry: Entry, pod: PodView, placement: Placement, around: Circumstances
    ) -> None:
        self._desk.counts.unschedulable += 1
        found = self._desk.known.preemption(pod, around.context)
        stale = found.node is not None and not_fresh(self._desk.caches.snapshot(), now_s=_now_s())
        helped_by = (*placement.helped_by, events.VIEW_FRESH) if stale else placement.helped_by
        message = f"{placement.message} {found.message}".strip()
        placement = msgspec.structs.replace(placement, message=message)
        if found.node is not None and not stale:
            id_ = self._rooms.make(entry, pod, placement, around, found)
        else:
            if found.leaving:
                self._rooms.reserve_soon(pod)
            else:
                self._rooms.give_up(pod)
            id_ = self._attempts.record(
                entry, pod, placement, around, "unschedulable", condition="PodScheduled=False"
            )
        self._desk.queue.park(pod.uid, (*helped_by, events.POD_GONE), now_ns=around.now_ns)
        if self._desk.voice is not None:
            waits = ", ".join(helped_by) or "a change of the pod"
            retry = f"attempt {entry.attempt}; looked at again after {waits}, or within a minute"
            self._desk.voice.waits(Word(pod.key, pod.uid, "Unschedulable", message, retry, id_))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
