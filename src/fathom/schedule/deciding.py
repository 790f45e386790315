"""Pods in hand are decided: each has a node and is sent, or has none, says why, and is parked.

From pods in hand to what is to be sent nothing waits. What is decided is on record before it is sent.
"""

from __future__ import annotations

import asyncio

import msgspec

from fathom.kinds.capacity_class import CAPACITY_CLASS
from fathom.kinds.scheduler_override import USED_OVERRIDES
from fathom.kinds.scheduling_policy import POLICY
from fathom.model.well_known import DECISION_ANNOTATION
from fathom.schedule import rules as events
from fathom.schedule.attempts import Attempts
from fathom.schedule.committing import Committing
from fathom.schedule.desk import Desk
from fathom.schedule.place import Placement
from fathom.schedule.pod_moves import Sent
from fathom.schedule.pods import PodView
from fathom.schedule.preempting import not_fresh
from fathom.schedule.queue import Entry
from fathom.schedule.records import Circumstances
from fathom.schedule.roommaking import RoomMaking
from fathom.schedule.sending import Wish
from fathom.schedule.voice import Word

Refused = tuple[Entry, PodView, Placement, Circumstances]


class Deciding:
    """For one term."""

    def __init__(self, desk: Desk, attempts: Attempts, rooms: RoomMaking, committing: Committing) -> None:
        self._desk = desk
        self._attempts = attempts
        self._rooms = rooms
        self._committing = committing

    def decide(self, entries: list[Entry]) -> None:
        """For pods of one shape, that were taken from the line together."""
        by_uid = {entry.pod.uid: entry for entry in entries if not self._rooms.is_held_back(entry.pod.uid)}
        sent: list[Sent] = []
        for pods in self._attempts.groups([self._desk.waiting[uid] for uid in by_uid]):
            decided, refused = self._place([by_uid[pod.uid] for pod in pods], pods)
            sent += decided
            for entry, pod, placement, around in refused:
                self._cannot(entry, pod, placement, around)
        if sent:
            self._committing.begin(sent)

    def _place(self, entries: list[Entry], pods: list[PodView]) -> tuple[list[Sent], list[Refused]]:
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
        sent = Sent(pod, wish, id_, entry.added_ns)
        self._desk.pods.send(sent)
        return sent

    def _reserved(self, uid: str, node: str) -> str:
        """The reservation on whose strength it goes there, if any."""
        held = self._desk.known.held_for.get(uid)
        return held.key.name if held is not None and held.node == node else ""

    def _annotations(self, id_: str, placement: Placement) -> dict[str, str]:
        found = {DECISION_ANNOTATION: id_}
        if placement.policy:
            found[POLICY] = placement.policy
        if placement.overrides:
            found[USED_OVERRIDES] = ",".join(placement.overrides)
        if placement.capacity_class:
            found[CAPACITY_CLASS] = placement.capacity_class
        return found

    def _cannot(self, entry: Entry, pod: PodView, placement: Placement, around: Circumstances) -> None:
        self._desk.counts.unschedulable += 1
        self._desk.rejecting[pod.uid] = tuple(each.rule for each in placement.rejections)
        found = self._desk.known.preemption(pod, around.context)
        stale = found.node is not None and not_fresh(
            self._desk.caches.snapshot(), now_s=asyncio.get_running_loop().time()
        )
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
        self._desk.pods.park(pod.uid, (*helped_by, events.POD_GONE), now_ns=around.now_ns)
        if self._desk.voice is not None:
            waits = ", ".join(helped_by) or "a change of the pod"
            retry = f"looked at again after {waits}, or within a minute"
            self._desk.voice.waits(
                Word(
                    pod.key,
                    pod.uid,
                    "Unschedulable",
                    message,
                    retry,
                    id_,
                    pending=placement.rejections[0].reason,
                    lacks=tuple(placement.rejected),
                )
            )
