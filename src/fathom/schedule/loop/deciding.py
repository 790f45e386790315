"""Decides pods taken from the queue: each is sent to its node, or gets a condition with the reason and parks.

There is no `await` from taking pods to handing over bindings. Each decision is recorded before it is sent.
"""

from __future__ import annotations

import asyncio

import msgspec

from fathom.kinds.capacity_class import CAPACITY_CLASS
from fathom.kinds.scheduler_override import USED_OVERRIDES
from fathom.kinds.scheduling_policy import POLICY
from fathom.model.well_known import DECISION_ANNOTATION
from fathom.schedule.decide import rules
from fathom.schedule.decide.place import Placement
from fathom.schedule.decide.pods import PodView
from fathom.schedule.loop.attempts import Attempts
from fathom.schedule.loop.bind_requests import BindRequest
from fathom.schedule.loop.committing import Committing
from fathom.schedule.loop.decision_records import BatchContext
from fathom.schedule.loop.evictions import not_fresh
from fathom.schedule.loop.pod_moves import SentBinding
from fathom.schedule.loop.pod_status_writer import PodMessage
from fathom.schedule.loop.policy_trial import PolicyTrial
from fathom.schedule.loop.preemption import PreemptionLoop
from fathom.schedule.loop.queue import QueueEntry
from fathom.schedule.loop.state import SchedulerState

Refused = tuple[QueueEntry, PodView, Placement, BatchContext]


class Deciding:
    """Decides pods during one leader term."""

    def __init__(
        self,
        state: SchedulerState,
        attempts: Attempts,
        preemption_loop: PreemptionLoop,
        committing: Committing,
    ) -> None:
        self._state = state
        self._attempts = attempts
        self._preemption_loop = preemption_loop
        self._committing = committing
        self._policy_trial = PolicyTrial(state.known)

    def decide(self, entries: list[QueueEntry]) -> None:
        """Decide pods of one shape that were taken from the queue together."""
        by_uid = {
            entry.pod.uid: entry for entry in entries if not self._preemption_loop.is_held_back(entry.pod.uid)
        }
        sent: list[SentBinding] = []
        for pods in self._attempts.groups([self._state.waiting[uid] for uid in by_uid]):
            decided, refused = self._place([by_uid[pod.uid] for pod in pods], pods)
            sent += decided
            for entry, pod, placement, around in refused:
                self._park(entry, pod, placement, around)
        if sent:
            self._committing.begin(sent)

    def _place(
        self, entries: list[QueueEntry], pods: list[PodView]
    ) -> tuple[list[SentBinding], list[Refused]]:
        context = self._attempts.context(pods[0])
        around = self._attempts.around(context, pods)
        placements = self._state.known.decider.place_batch(pods, context)
        self._state.counts.batches += 1
        self._state.counts.attempts += len(pods)
        sent: list[SentBinding] = []
        refused: list[Refused] = []
        for entry, pod, placement in zip(entries, pods, placements, strict=True):
            if placement.node is None:
                refused.append((entry, pod, placement, around))
            else:
                sent.append(self._send(entry, pod, placement, around))
        return sent, refused

    def _send(
        self, entry: QueueEntry, pod: PodView, placement: Placement, around: BatchContext
    ) -> SentBinding:
        id_ = self._attempts.record(entry, pod, placement, around, "bind", condition="PodScheduled=True")
        request = BindRequest(
            namespace=pod.key.namespace,
            name=pod.key.name,
            uid=pod.uid,
            node=placement.node or "",
            node_uid=placement.node_uid,
            node_revision=str(placement.node_revision or ""),
            annotations=self._annotations(id_, placement),
            policy=placement.policy if placement.policy != "builtin" else "",
            overrides=placement.overrides,
            reservation=self._reserved(pod.uid, placement.node or ""),
        )
        sent = SentBinding(pod, request, id_, entry.added_ns)
        self._state.pods.send(sent)
        return sent

    def _reserved(self, uid: str, node: str) -> str:
        """The reservation that its binding to this node uses, if any."""
        room = self._state.known.held_for.get(uid)
        return room.key.name if room is not None and room.node == node else ""

    def _annotations(self, id_: str, placement: Placement) -> dict[str, str]:
        annotations = {DECISION_ANNOTATION: id_}
        if placement.policy:
            annotations[POLICY] = placement.policy
        if placement.overrides:
            annotations[USED_OVERRIDES] = ",".join(placement.overrides)
        if placement.capacity_class:
            annotations[CAPACITY_CLASS] = placement.capacity_class
        return annotations

    def _park(self, entry: QueueEntry, pod: PodView, placement: Placement, around: BatchContext) -> None:
        self._state.counts.unschedulable += 1
        self._state.rejecting[pod.uid] = tuple(each.rule for each in placement.rejections)
        preemption = self._state.known.preemption(pod, around.context)
        stale = preemption.node is not None and not_fresh(
            self._state.caches.snapshot(), now_s=asyncio.get_running_loop().time()
        )
        policy_decides = preemption.node is None and self._policy_trial.decides(pod, around.context)
        helped_by = (
            *placement.helped_by,
            *((rules.VIEW_FRESH,) if stale else ()),
            *((rules.POLICY_CHANGED,) if policy_decides else ()),
        )
        message = f"{placement.message} {preemption.message}".strip()
        placement = msgspec.structs.replace(placement, message=message, policy_decides=policy_decides)
        if preemption.node is not None and not stale:
            id_ = self._preemption_loop.make(entry, pod, placement, around, preemption)
        else:
            id_ = self._attempts.record(
                entry, pod, placement, around, "unschedulable", condition="PodScheduled=False/Unschedulable"
            )
            if preemption.leaving:
                self._preemption_loop.reserve_soon(pod, id_)
            else:
                self._preemption_loop.give_up(pod, id_)
        self._state.pods.park(pod.uid, (*helped_by, rules.POD_GONE), now_ns=around.now_ns)
        if self._state.status_writer is not None:
            waits = ", ".join(helped_by) or "a change of the pod"
            retry = f"retried after {waits}, or within a minute"
            self._state.status_writer.waits(
                PodMessage(
                    pod.key,
                    pod.uid,
                    "Unschedulable",
                    message,
                    retry,
                    id_,
                    pending=placement.rejections[0].reason,
                    lacks=tuple(placement.rejected),
                    policy=placement.policy if policy_decides else "",
                    waits_for_room=pod.uid in self._state.known.table.claims,
                )
            )
