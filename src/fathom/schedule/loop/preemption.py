"""Makes room for a pod of higher priority, reserves it, and releases it when the pod does not need it.

    make ──> victims are evicted ──> room is reserved ──> room is made: the pod may be decided
                                        └─ pod bound, placed elsewhere, or gone: release

`schedule/decide/preempt.py` chooses the victims, `evictions` evicts them, `reservations` reserves their room;
this file says when. It serves one leader term: requests under way end with the term, and the next leader
finds nominations and reservations in the API.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec

from fathom.client.api import Api
from fathom.model.decision import Subject
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Key, key_of, uid_of
from fathom.model.times import timestamp
from fathom.schedule.decide.place import Placement
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.preempt import Preemption, Victim
from fathom.schedule.loop.background_requests import BackgroundRequests
from fathom.schedule.loop.cache_updates import CacheUpdates
from fathom.schedule.loop.decision_records import BatchContext
from fathom.schedule.loop.evictions import NOT_NEEDED, Evicted, carry_out
from fathom.schedule.loop.queue import QueueEntry
from fathom.schedule.loop.reservations import is_due, is_gone, release, reservation_for, reserve
from fathom.schedule.loop.state import SchedulerState
from fathom.schedule.loop.watched_kinds import RESERVATION


class PreemptionLoop:
    def __init__(
        self, state: SchedulerState, requests: BackgroundRequests, cache_updates: CacheUpdates, api: Api
    ) -> None:
        self._state = state
        self._requests = requests
        self._cache_updates = cache_updates
        self._api = api
        # By UID: whether the pod was taken from the queue meanwhile. Each has a background request, which
        # removes the entry however it ends.
        self._being_made: dict[str, bool] = {}

    def make(
        self,
        entry: QueueEntry,
        pod: PodView,
        placement: Placement,
        around: BatchContext,
        preemption: Preemption,
    ) -> str:
        """Claim the room in our table at once, so that the next pod does not count on it too; then evict."""
        self._state.counts.preempted += len(preemption.victims)
        table = self._state.known.table
        need = f"no older than {FRESH_S:g} s: met"
        consulted = self._state.known.consulted.with_budgets(around.consulted, preemption.budgets)
        around = msgspec.structs.replace(around, need=need, consulted=consulted)
        id_ = self._state.recorder.decided(
            entry, pod, placement, around,
            verdict="preempt", names=table.names, nodes_version=table.nodes_version,
            chosen=preemption.node or "", condition="PodScheduled=False/Unschedulable",
            victims=tuple(_victim_text(victim) for victim in preemption.victims),
        )  # fmt: skip
        self.give_up(pod, id_, but=preemption.node or "")
        self._state.known.nominate(pod, preemption.node or "")
        self._being_made[pod.uid] = False
        self._requests.fly(self._evict(pod, preemption, id_))
        return id_

    def give_up(self, pod: PodView, id_: str, *, but: str = "") -> None:
        """Stop waiting for room on any node but `but`: release the reservation and the claim there. `id_`:
        the decision, here and below."""
        self.release(pod.uid, id_, but=but)
        claim = self._state.known.table.claims.get(pod.uid)
        if claim is not None and claim.node != but:
            self._state.known.give_up(pod.uid, claim.node)
            self._state.cluster_events.record_freed_room(claim.node, f"room on {claim.node} was released")

    async def _evict(self, pod: PodView, preemption: Preemption, id_: str) -> None:
        try:
            await self._evict_and_reserve(pod, preemption, id_)
        finally:
            self._room_is_made(pod.uid)

    def _write_preempted(self, victim: Victim, pod: PodView, *, node: str, id_: str) -> None:
        if self._state.status_writer is not None:
            self._state.status_writer.preempted(victim.key, victim.uid, by=pod.uid, node=node, decision=id_)

    async def _evict_and_reserve(self, pod: PodView, preemption: Preemption, id_: str) -> None:
        view = self._state.caches.snapshot()
        done = await carry_out(
            self._api.with_decision(id_),
            pod.key,
            pod.uid,
            preemption,
            find=lambda key: view.get("Pod", key),
            waits=lambda: pod.uid in self._state.waiting,
            now=lambda: timestamp(self._state.clock.now_ns()),
        )
        for evicted in done:
            if evicted.outcome != NOT_NEEDED:
                self._write_preempted(evicted.victim, pod, node=preemption.node or "", id_=id_)
            self._conclude(id_, evicted)
        if any(evicted.outcome == NOT_NEEDED for evicted in done):
            return
        await self._reserve(
            pod.uid, preemption.node or "", id_, victims={victim.uid for victim in preemption.victims}
        )

    def _conclude(self, id_: str, evicted: Evicted) -> None:
        victim = evicted.victim
        self._state.recorder.concluded(
            id_,
            self._state.clock.now_ns(),
            evicted.result,
            written=Subject("pods", *victim.key, victim.uid),
            revision=evicted.revision,
            message=f"{'/'.join(victim.key)} {evicted.outcome}",
        )

    # Reserving.

    def is_held_back(self, uid: str) -> bool:
        """Whether the pod must wait while its room is made and reserved: until then, a binding that does not
        name the reservation would find the node full because of it. The pod is retried when that is done."""
        if uid not in self._being_made:
            return False
        self._being_made[uid] = True
        return True

    def _room_is_made(self, uid: str) -> None:
        entry = self._state.queue.entry(uid)
        if self._being_made.pop(uid, False) and entry is not None and entry.state == "in-hand":
            self._state.pods.retry(uid, entry.cause, now_ns=self._state.clock.monotonic_ns(), backoff=False)
            self._state.cluster_events.moved.set()

    def reserve_soon(self, pod: PodView, id_: str) -> None:
        """Reserve room whose victims were evicted already, maybe by an earlier leader that got no further."""
        room, now_ns = self._state.known.held_for.get(pod.uid), self._state.clock.now_ns()
        claim = self._state.known.table.claims.get(pod.uid)
        if claim is not None and (room is None or is_due(room.expires_ns, now_ns=now_ns)):
            self._being_made[pod.uid] = False
            self._requests.fly(self._reserve_again(pod.uid, claim.node, id_))

    async def _reserve_again(self, uid: str, node: str, id_: str) -> None:
        try:
            await self._reserve(uid, node, id_)
        finally:
            self._room_is_made(uid)

    async def _reserve(self, uid: str, node: str, id_: str, *, victims: Set[str] = frozenset()) -> None:
        """Reserve the victims' room for the pod, in the ledger that all schedulers share. `victims`: UIDs of
        evicted pods, which our view may not show as terminating yet."""
        waiting, table = self._state.waiting.get(uid), self._state.known.table
        pod = None if waiting is None else self._state.caches.snapshot().get("Pod", waiting.key)
        row = table.row_of.get(node)
        if (
            pod is None
            or row is None
            or uid in self._state.sent
            or "Reservation" not in self._state.caches.kinds
        ):
            return
        if self._being_made.get(uid):
            return  # There is room for it already: its binding takes it in one step.
        views = [counted.view for _, counted in sorted(table.pods_on[row].items())]
        leaving = [view for view in views if view.deleting or view.uid in victims]
        now_ns = self._state.clock.now_ns()
        wanted = reservation_for(pod, node, leaving, now_ns=now_ns)
        reservation = await reserve(self._api.with_decision(id_), wanted, now_ns=now_ns)
        if reservation is None:
            return
        # 1. The create commits. 2. The watch delivers it. 3. The reservation is deleted: its pod is gone, or
        # repair did it. 4. The watch delivers that. 5. The create's answer arrives. Applied now, it would
        # keep the room for ever, since no event removes it again. The cache knows the revision it has
        # reached.
        self._state.caches.apply_write(RESERVATION.name, reservation)
        if uid not in self._state.waiting:  # It was bound meanwhile, or is gone.
            await self._delete_reservation(uid, key_of(reservation), uid_of(reservation), id_)

    def release(self, uid: str, id_: str, *, but: str = "") -> None:
        """Delete the pod's reservation, unless it is on the node `but`. Where this fails, repair does it."""
        room = self._state.known.held_for.get(uid)
        if room is not None and room.node != but:
            self._requests.fly(self._delete_reservation(uid, room.key, room.uid, id_))

    async def _delete_reservation(self, uid: str, key: Key, reservation: str, id_: str) -> None:
        """`reservation`: its UID. One that could not be deleted still holds its room, until the cache shows
        that it is gone."""
        outcome = await release(self._api.with_decision(id_), key, reservation)
        room = self._state.known.held_for.get(uid)
        if is_gone(outcome) and room is not None and room.uid == reservation:
            self._cache_updates.reservation_changed(room.as_object(uid), None)


def _victim_text(victim: Victim) -> str:
    return f"{'/'.join(victim.key)}: {victim.reason}"
