"""Wakes parked pods after an event: the decider tries them, and only pods that now fit a node are woken.

event ──> shapes that wait for it ──placed for trial──> fits: back in the queue
                                        └─ does not fit: parked, waiting for what blocks it now
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from fathom.schedule.decide import rules
from fathom.schedule.loop.attempts import Attempts
from fathom.schedule.loop.evictions import not_fresh
from fathom.schedule.loop.queue import Hint, Hinted, WaitingPod
from fathom.schedule.loop.state import SchedulerState


class Waking:
    def __init__(self, state: SchedulerState, attempts: Attempts) -> None:
        self._state = state
        self._attempts = attempts
        self._cut_short = False  # For one event: more pods of a shape waited than were tried.

    def wake_helped(self, *, now_ns: int) -> None:
        happened, freed = self._state.cluster_events.take()
        for event in happened:
            if self._state.queue.waited_for(event.name):
                only = freed if event.name == rules.POD_GONE else None
                self._cut_short = False
                hint: Hint = partial(self._could_place, only)
                if event.name == rules.VIEW_FRESH and self._may_evict():
                    hint = self._could_evict
                self._state.pods.wake(event, hint, now_ns=now_ns)
                if self._cut_short:  # All pods that were tried fit: try the rest too.
                    self._state.cluster_events.ask_again(event, freed)

    def _could_place(self, freed: dict[str, None] | None, pods: Sequence[WaitingPod]) -> Hinted:
        """Which of these pods of one shape fit a node now, and what the others wait for. They are placed on
        the table itself, and removed again."""
        views = [self._state.waiting[pod.uid] for pod in pods[: self._state.rules.batch_max]]
        placed: list[str] = []
        waits: dict[str, None] = {}
        full = False  # Only a node that is kept for the pod would take a pod of this shape.
        for group in self._attempts.groups(views):
            elsewhere = freed is not None and self._waits_elsewhere(group[0].uid, freed)
            if elsewhere and full:
                continue
            placements = self._state.known.decider.place_batch(group, self._attempts.context(group[0]))
            for view, placement in zip(group, placements, strict=True):
                if placement.node:
                    placed.append(view.uid)
                else:
                    waits.update(dict.fromkeys(placement.helped_by))
                    full = full or elsewhere
        for uid in placed:
            self._state.known.table.forget(uid)
        self._cut_short |= len(placed) == len(views) < len(pods)
        return Hinted(placed, tuple(waits))

    def _may_evict(self) -> bool:
        return not not_fresh(self._state.caches.snapshot(), now_s=asyncio.get_running_loop().time())

    def _could_evict(self, pods: Sequence[WaitingPod]) -> Hinted:
        """A trial evicts nothing: a pod that waits for a fresh view, though no rule asks for one, waits to
        preempt."""
        hinted = self._could_place(None, pods)
        if rules.VIEW_FRESH in hinted.waits:
            return hinted
        return Hinted([pod.uid for pod in pods])

    def _waits_elsewhere(self, uid: str, freed: dict[str, None]) -> bool:
        """Whether room is being made for the pod on a node that no pod has left just now. Of many such pods,
        the first that fits no other node answers for all: trying each costs a pass over the nodes."""
        claim = self._state.known.table.claims.get(uid)
        return claim is not None and claim.node not in freed
