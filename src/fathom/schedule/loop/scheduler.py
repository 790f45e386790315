"""The scheduler loop: wakes pods that events may help, takes pods from the queue, decides, sends bindings.

    caches ──cache_updates──> state (known: table, policies, quotas; queue; news) <──waking
                                └──take──> deciding ──> journal ──> committing ──> Bound: done
                                ^             └─ no node: condition, parked; room may be made (preemption)
                                └── backoff <────────────────── Refused: retry. Unknown: read the pod

`cache_updates`, `waking`, `deciding`, `committing` and `preemption` are files beside this one, and share one
`state`. The objects that send requests are made anew for each leader term.

There is no `await` from taking pods to handing over bindings. Requests run while the next batch is decided:
the table counts decided pods (assumed) until the outcome is *known*: the cache shows it, the server refused
it, or a read of the pod tells. A placement is safe from any view, since the server checks it; an eviction is
not, and needs a fresh view.
"""

from __future__ import annotations

import asyncio
from functools import partial

from fathom.cache.caches import Caches
from fathom.cache.freshness import Probes
from fathom.client.api import Api
from fathom.client.outcomes import Outcome, Rejected
from fathom.control.component_leases import ComponentLeases
from fathom.control.decision_log import result_of, subject_of
from fathom.control.lease import LeaderTerm
from fathom.control.watches import NODE, POD
from fathom.kinds.override_status import (
    CONTROLLERS_LEASE,
    Acknowledger,
    acknowledged,
    degraded_without_controllers,
)
from fathom.model.cause import UNSTATED, WakeCause
from fathom.model.objects import Key, Obj, metadata
from fathom.model.times import timestamp
from fathom.schedule.decide.rules import OVERRIDE_CHANGED, RULES, TRUST_CHANGED, VIEW_FRESH, Rules
from fathom.schedule.loop.attached_overrides import AttachedOverrides
from fathom.schedule.loop.attempts import Attempts
from fathom.schedule.loop.background_requests import BackgroundRequests
from fathom.schedule.loop.cache_updates import CacheUpdates
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.schedule.loop.committing import Committing
from fathom.schedule.loop.deciding import Deciding
from fathom.schedule.loop.pod_moves import QueueReader
from fathom.schedule.loop.pod_status_writer import QUEUED, QUEUED_AFTER_S, PodMessage, PodStatusWriter
from fathom.schedule.loop.preemption import PreemptionLoop
from fathom.schedule.loop.queue import ClusterEvent
from fathom.schedule.loop.queue_signals import QueueSignals
from fathom.schedule.loop.state import CurrentRules, SchedulerCounts, SchedulerState
from fathom.schedule.loop.waking import Waking
from fathom.schedule.loop.watched_kinds import OVERRIDE, ROLLOUT
from fathom.schedule.policy_rollout.observed import NO_LEASE, LeaseTerm, observed
from fathom.seams.process import Inside

__all__ = ["CurrentRules", "Scheduler"]

# How often to check what makes no event: expiries, ages, pods that have waited long.
LOOK_S = 1.0
LEASES_S = 5.0  # How often leases are looked at, while there are overrides.
CONTROLLERS_SILENT_S = 30.0  # Twice as long as a lease lasts: by then an heir would have taken it.
PROBE_S = 5.0
# In records: it says that a pod waits for its turn, which is no attempt to place it.
QUEUE = "scheduling-queue"
ASK_FROM_S = 2.0  # A healthy watch is never silent for so long: our servers send a bookmark a second.


class Scheduler:
    def __init__(
        self, inside: Inside, caches: Caches, rules: CurrentRules, *, judging: Rules = RULES
    ) -> None:
        self._inside = inside
        self._state = SchedulerState(inside, caches, rules, judging=judging)
        self._rng = inside.streams.stream("settle")
        self._requests = BackgroundRequests(inside.domain, self._state.cluster_events.moved)
        self._draining = False  # If True, no more pods are taken from the queue.
        # Sent while a pod waits for a fresh view: a server may send bookmarks seldom, or a watch be dead.
        self._probes = Probes(caches, PROBE_S)
        self._probes.answered.append(self._answered)
        self._attempts = Attempts(self._state)
        self._attached = AttachedOverrides(self._state) if rules.attached else None
        self._cache_updates = CacheUpdates(self._state, self._attempts, self._attached)
        self._waking = Waking(self._state, self._attempts)
        self.signals = QueueSignals(self._state)

    @property
    def state(self) -> SchedulerState:
        """For metrics, which only read it."""
        return self._state

    @property
    def counts(self) -> SchedulerCounts:
        return self._state.counts

    @property
    def known(self) -> ClusterView:
        return self._state.known

    @property
    def queue(self) -> QueueReader:
        return self._state.queue

    async def run(self, api: Api, term: LeaderTerm | None) -> None:
        """Run for ever, or until cancelled."""
        inside = self._inside
        self._state.term = term
        self._draining = False
        self._state.status_writer = PodStatusWriter(
            api,
            find=lambda key: self._state.caches.snapshot().get("Pod", key),
            clock=inside.outside.clock,
            ids=inside.outside.ids,
            name=self._state.rules.names[0],
            record=self._record_waiting,
        )
        self._state.known.forget_choices(self._state.waiting.values())
        deciding = self._deciding(api)
        loop = asyncio.get_running_loop()
        await self._recover()
        if self._attached is not None and self._follows_overrides:
            await self._attached.begin(api)
        self._notice_ended()  # While another one led, or nobody.
        background = [
            loop.create_task(self._state.status_writer.run()),
            loop.create_task(self._check_for_ever(api)),
        ]
        try:
            while True:
                self._state.cluster_events.moved.clear()
                self._run_round(deciding)
                await self._until_moved()
        finally:
            self._probes.stop()
            await self._requests.cancel(background)

    def _deciding(self, api: Api) -> Deciding:
        """The objects that decide and send during one term."""
        preemption_loop = PreemptionLoop(self._state, self._requests, self._cache_updates, api)
        committing = Committing(self._state, self._requests, preemption_loop, api, rng=self._rng)
        return Deciding(self._state, self._attempts, preemption_loop, committing)

    async def _recover(self) -> None:
        """Retry the pods that an earlier term left in hand: its requests are fenced off by now, so a cache
        that has caught up shows their outcome."""
        unfinished = self._state.pods.unfinished()
        if not unfinished and not self._state.landed:
            return
        await self._state.caches.probe("Pod", timeout_s=PROBE_S)
        for uid in unfinished:
            if self._state.take_back(uid):
                self._state.pods.retry(
                    uid,
                    WakeCause("start", "left unfinished by an earlier leader term"),
                    now_ns=self._state.clock.monotonic_ns(),
                )

    async def drain(self, seconds: float) -> bool:
        """Take no more pods, and wait for the requests under way. True if all of them ended."""
        self._draining = True
        return await self._requests.wait(seconds)

    def _run_round(self, deciding: Deciding) -> None:
        now_ns = self._state.clock.monotonic_ns()
        self._state.pods.come_due(now_ns=now_ns)
        self._waking.wake_helped(now_ns=now_ns)
        while self._requests.binding < self._state.rules.in_flight_max and not self._draining:
            entries = self._state.pods.take(most=self._state.rules.batch_max)
            if not entries:
                return
            deciding.decide(entries)

    async def _until_moved(self) -> None:
        due_ns = self._state.queue.next_due_ns
        if due_ns is None:
            await self._state.cluster_events.moved.wait()
            return
        timer = asyncio.get_running_loop().call_at(due_ns / 1e9, self._state.cluster_events.moved.set)
        try:
            await self._state.cluster_events.moved.wait()
        finally:
            timer.cancel()

    async def _check_for_ever(self, api: Api) -> None:
        """Check what makes no event: overrides that expire, refused nodes to use again, long waits."""
        leases = ComponentLeases(api, ask_every_s=LEASES_S, silent_s_min=CONTROLLERS_SILENT_S)
        while True:
            await asyncio.sleep(LOOK_S)
            self._notice_ended()
            snapshot = self._state.caches.snapshot()
            for name in self._state.refused_nodes.settle(snapshot):
                node = snapshot.get(NODE.name, Key("", name)) or _named(Key("", name))
                self._state.cluster_events.record(TRUST_CHANGED, NODE.name, node)
            if self._state.queue.waited_for(VIEW_FRESH):
                self._state.cluster_events.add(ClusterEvent(VIEW_FRESH))
                self._probe_old_caches()
            self._write_queued()
            if self._state.cluster_events:
                self._state.cluster_events.moved.set()
            await self._report_observed(api)
            if self._attached is None:
                await self._acknowledge_overrides(api)
                await self._report_stopped_controllers(api, leases)
            elif self._follows_overrides:
                await self._attached.look(api, self._acknowledger(), partial(self._write_attached, api))

    def _notice_ended(self) -> None:
        """Wake the pods that overrides kept waiting which have ended since the last look; and those that an
        override lets in again, because the clock was set back."""
        snapshot = self._state.caches.snapshot()
        for key, what in self._state.known.passing(now_ns=self._state.clock.now_ns()):
            override = snapshot.get(OVERRIDE.name, key) or _named(key)
            self._state.cluster_events.record(OVERRIDE_CHANGED, OVERRIDE.name, override, what)
        self._state.set_priorities()

    def _probe_old_caches(self) -> None:
        snapshot = self._state.caches.snapshot()
        for kind in snapshot.kinds:
            if snapshot.age(kind) > ASK_FROM_S:
                self._probes.ask(kind)

    def _answered(self, kind: str) -> None:
        self._state.cluster_events.put(ClusterEvent(VIEW_FRESH, f"the view of {kind} is fresh"))
        self._state.cluster_events.moved.set()

    async def _report_observed(self, api: Api) -> None:
        """Report in PolicyRollouts that every cache has reached the rollout's activation."""
        if "PolicyRollout" not in self._state.caches.kinds:
            return
        snapshot = self._state.caches.snapshot()
        reached = min(snapshot.revisions.values())
        now = timestamp(self._state.clock.now_ns())
        observer = self._state.rules.observer or self._state.rules.who
        for rollout in snapshot.list("PolicyRollout"):
            patch = observed(rollout, who=observer, reached=reached, now=now, term=self._lease_term())
            if patch is not None:
                await self._write_observed(api, rollout, patch, reached)

    async def _write_observed(self, api: Api, rollout: Obj, patch: Obj, reached: int) -> None:
        subject, cause = subject_of(ROLLOUT.resource, rollout), WakeCause("timer", f"every {LOOK_S:g} s")
        id_ = self._state.note("observe", subject, cause, f"every cache has reached revision {reached}")
        outcome = await api.with_decision(id_).patch(
            ROLLOUT.resource, "", subject.name, patch, subresource="status"
        )
        result, revision, message = result_of(outcome)
        now_ns = self._state.clock.now_ns()
        self._state.recorder.concluded(
            id_, now_ns, result, written=subject, revision=revision, message=message
        )

    async def _acknowledge_overrides(self, api: Api) -> None:
        """Acknowledge the overrides that the cache has: from here on, decisions honour them."""
        if not self._follows_overrides:
            return
        snapshot, now_ns = self._state.caches.snapshot(), self._state.clock.now_ns()
        for override in snapshot.list(OVERRIDE.name):
            entries = acknowledged(
                override,
                (self._acknowledger(),),
                cache_revision=snapshot.revision(OVERRIDE.name),
                now=timestamp(now_ns),
                now_ns=now_ns,
            )
            if entries is not None:
                why = f"the cache has generation {metadata(override).get('generation')}"
                await self._write_override(api, override, {"acknowledgements": entries}, "acknowledge", why)

    async def _write_attached(self, api: Api, override: Obj, fields: Obj) -> bool:
        """False: the server refuses it, and would again."""
        why = f"the cache has generation {metadata(override).get('generation')}"
        outcome = await self._write_override(api, override, fields, "acknowledge", why)
        return not isinstance(outcome, Rejected) or outcome.code in {404, 429, 503}

    async def _report_stopped_controllers(self, api: Api, leases: ComponentLeases) -> None:
        """The controllers report of overrides whose acknowledger has stopped; who else would of themselves?
        When they are back, they write the condition again."""
        overrides = self._state.caches.snapshot().list(OVERRIDE.name) if self._follows_overrides else ()
        if not overrides or all(
            lease.held for lease in await leases.fetch() if lease.name == CONTROLLERS_LEASE
        ):
            return
        now_ns, why = self._state.clock.now_ns(), "the controllers do not renew their lease"
        for override in overrides:
            conditions = degraded_without_controllers(override, now=timestamp(now_ns), now_ns=now_ns)
            if conditions is not None:
                await self._write_override(api, override, {"conditions": conditions}, "degrade", why)

    @property
    def _follows_overrides(self) -> bool:
        return OVERRIDE.name in self._state.caches.kinds

    def _acknowledger(self) -> Acknowledger:
        rules, term = self._state.rules, self._state.term
        epoch = 0 if term is None else term.epoch or 0
        return Acknowledger(rules.lease.rpartition("/")[2] or rules.observer or rules.who, epoch)

    async def _write_override(self, api: Api, override: Obj, status: Obj, action: str, why: str) -> Outcome:
        """At the revision that was read: a lost race is tried again with the next look."""
        subject, cause = subject_of(OVERRIDE.resource, override), WakeCause("timer", f"every {LOOK_S:g} s")
        id_ = self._state.note(action, subject, cause, why)
        revision = metadata(override).get("resourceVersion")
        patch = {"metadata": {"resourceVersion": revision}, "status": status}
        outcome = await api.with_decision(id_).patch(
            OVERRIDE.resource, subject.namespace, subject.name, patch, subresource="status"
        )
        result, written_at, message = result_of(outcome)
        self._state.recorder.concluded(
            id_, self._state.clock.now_ns(), result, written=subject, revision=written_at, message=message
        )
        return outcome

    def _record_waiting(self, message: PodMessage, pod: Obj) -> str:
        """Records the decision to write that a pod waits, where no attempt to place it has said so."""
        entry = self._state.queue.entry(message.uid)
        cause = UNSTATED if entry is None else entry.cause
        subject = subject_of(POD.resource, pod)
        return self._state.note("wait", subject, cause, message.message, controller=QUEUE)

    def _lease_term(self) -> LeaseTerm:
        term = self._state.term
        return NO_LEASE if term is None else LeaseTerm(self._state.rules.lease, term.epoch or 0)

    def _write_queued(self) -> None:
        now_ns, status_writer = self._state.clock.monotonic_ns(), self._state.status_writer
        if status_writer is None:
            return
        for uid, view in self._state.waiting.items():
            entry = self._state.queue.entry(uid)
            if entry is None or entry.attempt or now_ns - entry.added_ns < QUEUED_AFTER_S * 1e9:
                continue
            if entry.state == "active":
                status_writer.waits(
                    PodMessage(view.key, uid, QUEUED, "waits for its turn in the scheduling queue")
                )


def _named(key: Key) -> Obj:
    """Stands for an object that is gone."""
    return {"metadata": key._asdict()}
