"""Writes the scheduler's conditions and events of pods. It never delays a placement.

Messages wait in a small queue of their own, only the newest one of each pod, and are sent at a bounded rate.
A pod that waits gets its condition at once; the same message is not repeated, one with changed counts
(`0/5 nodes` becoming `0/6`) only after a while: a status is for people, and costs a commit.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from fathom.client.api import Api
from fathom.client.outcomes import Committed, Outcome, Rejected
from fathom.model.conditions import (
    BLOCKED_BY_POLICY,
    NUMBERS_EVERY_S,
    SCHEDULING_RETRYING,
    Status,
    conditions_of,
    find_condition,
    set_condition,
)
from fathom.model.objects import Key, Obj, lookup, metadata, uid_of
from fathom.model.resources import EVENTS, PODS
from fathom.model.times import timestamp
from fathom.model.well_known import DECISION_ANNOTATION
from fathom.seams.outside import Clock, Ids

SCHEDULED, RETRYING, QUEUED = "PodScheduled", SCHEDULING_RETRYING, "Queued"

# Status commits per second; few enough to leave a small server capacity for bindings.
WORDS_PER_S = 100.0
EVENTS_PER_S, EVENTS_BURST = 20.0, 50.0
# The same reason with other counts is written again after this.
AGAIN_NS = round(NUMBERS_EVERY_S * 1e9)
# A shorter wait is not worth a commit.
QUEUED_AFTER_S = 5.0
LINE_MAX = 10_000
# A message that was not written is tried again when the cache has had time to catch up.
LATER_S = 1.0
TOO_MANY_REQUESTS = 429


class PodMessage(msgspec.Struct, frozen=True):
    """A message about one pod: why it has no node, and what it waits for."""

    key: Key
    uid: str
    reason: str  # 'Unschedulable', 'SchedulingGated', 'Queued'
    message: str
    retry: str = ""  # What it waits for, in words.
    decision: str = ""
    pending: str = ""  # 'capacity/ports': the pending reason, for programs (see `model/reasons.py`).
    lacks: tuple[str, ...] = ()  # What nodes lack, without how many of them do.
    policy: str = ""  # The policy that it waits because of; '': it would wait under the other one too.
    waits_for_room: bool = True  # False: no node's room is made for it, so its status must name none.


class SentMessage(msgspec.Struct, frozen=True):
    word: PodMessage
    at_ns: int


class PodStatusWriter:
    def __init__(
        self,
        api: Api,
        *,
        find: Callable[[Key], Obj | None],
        clock: Clock,
        ids: Ids,
        name: str,
        record: Callable[[PodMessage, Obj], str],
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._api = api
        self._find = find  # The pod as the cache has it.
        self._clock = clock
        self._ids = ids
        self._name = name
        self._record = record  # Records the decision of a message that no attempt made; returns its id.
        self._log = log
        self._queue: OrderedDict[str, PodMessage] = OrderedDict()  # By UID: the newest message of each.
        self._last: dict[str, SentMessage] = {}
        self._events: OrderedDict[str, Obj] = OrderedDict()
        self._allowance, self._allowed_ns = EVENTS_BURST, clock.monotonic_ns()
        self._has_work = asyncio.Event()
        self.dropped = 0  # Events that the rate limit dropped.

    def waits(self, pod_message: PodMessage) -> None:
        """A pod has no node."""
        last = self._last.get(pod_message.uid)
        now_ns = self._clock.monotonic_ns()
        if last is not None and says_the_same(last, pod_message, now_ns=now_ns):
            return
        if len(self._queue) < LINE_MAX:
            self._last[pod_message.uid] = SentMessage(pod_message, now_ns)
            self._queue[pod_message.uid] = pod_message
            self._has_work.set()
            if pod_message.reason == "Unschedulable":
                what = ("FailedScheduling", "Warning", pod_message.message)
                self._event(pod_message.key, pod_message.uid, what, pod_message.decision)

    def placed(self, key: Key, uid: str, *, node: str, decision: str) -> None:
        """A pod is bound: drop its message, and emit the event."""
        self.forget(uid)
        message = f"Successfully assigned {key.namespace}/{key.name} to {node}"
        self._event(key, uid, ("Scheduled", "Normal", message), decision)

    def preempted(self, key: Key, uid: str, *, by: str, node: str, decision: str) -> None:
        """A pod is evicted for another. (kube-scheduler's event reason.)"""
        what = ("Preempted", "Normal", f"Preempted by pod {by} on node {node}")
        # Without its name: it may be another tenant's.
        self._event(key, uid, what, decision, related={"apiVersion": "v1", "kind": "Pod", "uid": by})

    def forget(self, uid: str) -> None:
        self._queue.pop(uid, None)
        self._last.pop(uid, None)

    def _event(
        self, key: Key, uid: str, what: tuple[str, str, str], decision: str, *, related: Obj | None = None
    ) -> None:
        """`what`: reason, type and message."""
        now_ns = self._clock.monotonic_ns()
        gained = (now_ns - self._allowed_ns) / 1e9 * EVENTS_PER_S
        self._allowance, self._allowed_ns = min(EVENTS_BURST, self._allowance + gained), now_ns
        if self._allowance < 1.0:
            self.dropped += 1
            return
        self._allowance -= 1.0
        name = f"{key.name}.{self._ids.suffix()}{self._ids.suffix()}"
        now = timestamp(self._clock.now_ns())
        reason, kind, message = what
        annotations = {DECISION_ANNOTATION: decision}
        self._events[name] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": key.namespace, "annotations": annotations},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "uid": uid, **key._asdict()},
            "reason": reason,
            "message": message,
            "type": kind,
            "source": {"component": self._name},
            "reportingComponent": self._name,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            **({} if related is None else {"related": related}),
        }
        self._has_work.set()

    async def run(self) -> None:
        """Send one message at a time, conditions before events; for ever."""
        while True:
            if self._queue:
                _, pod_message = self._queue.popitem(last=False)
                await self._write_conditions(pod_message)
            elif self._events:
                _, event = self._events.popitem(last=False)
                meta = metadata(event)
                api = self._api.with_decision(meta["annotations"][DECISION_ANNOTATION])
                await api.create(EVENTS, meta["namespace"], event)
            else:
                self._has_work.clear()
                await self._has_work.wait()
                continue
            await asyncio.sleep(1.0 / WORDS_PER_S)

    async def _write_conditions(self, pod_message: PodMessage) -> None:
        pod = self._find(pod_message.key)
        if pod is None or uid_of(pod) != pod_message.uid or (pod.get("spec") or {}).get("nodeName"):
            self._last.pop(pod_message.uid, None)
            return
        conditions = conditions_said(pod, pod_message, now=timestamp(self._clock.now_ns()))
        # The server merges conditions by type, so those of other writers stay as they are.
        changed = [condition for condition in conditions if condition not in conditions_of(pod)]
        status: Obj = {"conditions": changed} if changed else {}
        if not pod_message.waits_for_room and lookup(pod, "status", "nominatedNodeName"):
            status["nominatedNodeName"] = None
        if not status:
            return
        # 1. We find no node for the pod, in a view that is behind. 2. Another scheduler binds it. 3. We write
        # that it has no node, and nothing ever corrects that. So the write expects the revision in our cache.
        guard = {"uid": pod_message.uid, "resourceVersion": metadata(pod).get("resourceVersion")}
        patch = {"metadata": guard, "status": status}
        id_ = pod_message.decision or self._record(pod_message, pod)
        outcome = await self._api.with_decision(id_).patch(
            PODS,
            pod_message.key.namespace,
            pod_message.key.name,
            patch,
            subresource="status",
            media="application/strategic-merge-patch+json",
        )
        self._conclude(pod_message, outcome)

    def _conclude(self, pod_message: PodMessage, outcome: Outcome) -> None:
        """Each attempt at the pod has the same message, which is sent once: one that was not written must not
        count as sent."""
        if isinstance(outcome, Committed):
            return
        if isinstance(outcome, Rejected) and outcome.code != TOO_MANY_REQUESTS:
            self._last.pop(pod_message.uid, None)  # The next attempt says it again.
            return
        retry_after_s = outcome.retry_after_s if isinstance(outcome, Rejected) else 0.0
        pause_s = max(LATER_S, retry_after_s)
        asyncio.get_running_loop().call_later(pause_s, self._queue_again, pod_message)

    def _queue_again(self, pod_message: PodMessage) -> None:
        """Queue the message again, unless there is a newer one or the pod needs none any more."""
        last = self._last.get(pod_message.uid)
        newest = last is not None and last.word == pod_message
        if newest and pod_message.uid not in self._queue and len(self._queue) < LINE_MAX:
            self._queue[pod_message.uid] = pod_message
            self._has_work.set()


def says_the_same(last: SentMessage, pod_message: PodMessage, *, now_ns: int) -> bool:
    """Whether the message is not worth a write: another cause is at once, other counts only after a while."""
    before = last.word
    if _cause_of(before) != _cause_of(pod_message):
        return False
    return before.message == pod_message.message or now_ns - last.at_ns < AGAIN_NS


def _cause_of(pod_message: PodMessage) -> tuple[object, ...]:
    said = pod_message
    return said.reason, said.pending, said.lacks, said.policy, said.waits_for_room


def conditions_said(pod: Obj, pod_message: PodMessage, *, now: str) -> list[Obj]:
    """The conditions to write: Queued says only that the pod waits; the others give an attempt's result."""
    conditions = conditions_of(pod)
    if pod_message.reason == QUEUED:
        return _with_condition(pod, conditions, (QUEUED, "True", "Waiting", pod_message.message), now)
    conditions = _with_condition(
        pod, conditions, (SCHEDULED, "False", pod_message.reason, pod_message.message), now
    )
    if pod_message.reason == "SchedulingGated":
        return conditions
    # PodScheduled has Kubernetes' reason; this condition has fathom's pending reason, for programs.
    conditions = _with_condition(
        pod, conditions, (RETRYING, "True", pod_message.pending or pod_message.reason, pod_message.retry), now
    )
    return _blocked_by_policy(pod, conditions, pod_message.policy, now)


def _blocked_by_policy(pod: Obj, conditions: list[Obj], policy: str, now: str) -> list[Obj]:
    """A pod that never waited because of a policy needs no such condition."""
    before = find_condition(conditions, BLOCKED_BY_POLICY)
    if policy:
        message = "the other policy of the rollout would let it on a node"
        return _with_condition(pod, conditions, (BLOCKED_BY_POLICY, "True", policy, message), now)
    if before is None:
        return conditions
    return _with_condition(pod, conditions, (BLOCKED_BY_POLICY, "False", str(before.get("reason")), ""), now)


def _with_condition(
    pod: Obj, conditions: list[Obj], condition: tuple[str, Status, str, str], now: str
) -> list[Obj]:
    generation = int(metadata(pod).get("generation") or 0) or None
    kind, status, reason, message = condition
    return set_condition(
        conditions, type=kind, status=status, reason=reason, message=message,
        observed_generation=generation, now=now,
    )  # fmt: skip
