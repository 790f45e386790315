"""Commits placements: sends a batch of bindings, and follows each until its outcome is known.

    begin ──> volumes first, where claims wait for the pod (`volume_binding`)
          ──> Bound: the pod has landed
          ├─> Refused: the room is freed, a node that refused is skipped for a while, the pod is retried
          └─> Unknown: the pod is read, the same binding is sent again, until it is one of the two

A sent binding counts on its node until then. There is no expiry:
1. A binding is sent, its answer is lost. 2. A timer drops it, and its room is given to another pod. 3. The
first binding commits after all: the node is over its limit.
"""

from __future__ import annotations

import asyncio
import random
from itertools import count

from fathom.client.api import Api
from fathom.control.commit import NOT_SENT
from fathom.model.backoff import Backoff
from fathom.model.binding_checks import ABOUT_NODE, FENCE_LOST, QUOTA_EXCEEDED, RESERVATION_GONE
from fathom.model.cause import WakeCause
from fathom.model.decision import Result, Subject
from fathom.schedule.loop.background_requests import BackgroundRequests
from fathom.schedule.loop.bind_requests import BindAnswer, BindSender, read_outcome
from fathom.schedule.loop.pod_moves import SentBinding
from fathom.schedule.loop.preemption import PreemptionLoop
from fathom.schedule.loop.state import SchedulerState
from fathom.schedule.loop.volume_binding import VolumeBinding

VOLUMES_NOT_BOUND = "VolumesNotBound"  # Not a check of the server: the binding was not sent.
# A refusal about a node brings new facts: the pod is retried at once, so often in a row, then with a backoff.
AT_ONCE_MAX = 3
# How often an unknown outcome is looked up; the pod stays assumed on its node meanwhile.
SETTLE = Backoff(0.05, 2.0)


class Committing:
    """Commits placements during one leader term."""

    def __init__(
        self,
        state: SchedulerState,
        requests: BackgroundRequests,
        preemption_loop: PreemptionLoop,
        api: Api,
        *,
        rng: random.Random,
    ) -> None:
        self._state = state
        self._requests = requests
        self._preemption_loop = preemption_loop
        self._api = api
        self._rng = rng
        self._sender = BindSender(api, timeout_s=state.rules.bind_timeout_s)
        self._volumes = VolumeBinding(state, requests, api)

    def begin(self, sent: list[SentBinding]) -> None:
        """Send a batch in the background, while the next one is decided."""
        later = [binding for binding in sent if self._volumes.is_needed(binding)]
        for binding in later:
            self._requests.fly(self._bind_with_volumes(binding))
        if at_once := [binding for binding in sent if binding not in later] if later else sent:
            self._requests.binding += 1
            self._requests.fly(self._bind(at_once))

    async def _bind_with_volumes(self, sent: SentBinding) -> None:
        """Not counted as a binding under way until it is sent: a volume may take minutes."""
        wrong = await self._volumes.get(sent)
        if wrong:
            self._conclude(sent, BindAnswer("Refused", check=VOLUMES_NOT_BOUND, message=wrong))
        elif wrong is not None:
            await self._commit([sent])

    async def _bind(self, sent: list[SentBinding]) -> None:
        try:
            await self._commit(sent)
        finally:
            self._requests.binding -= 1

    async def _commit(self, sent: list[SentBinding]) -> None:
        answers = await self._sender.send([binding.request for binding in sent])
        for binding, answer in zip(sent, answers, strict=True):
            if answer.status != "Unknown":
                self._conclude(binding, answer)
        unknown = [
            (binding, answer)
            for binding, answer in zip(sent, answers, strict=True)
            if answer.status == "Unknown"
        ]
        if unknown:
            self._state.counts.unknown += len(unknown)
            await asyncio.gather(*(self._settle(binding, answer) for binding, answer in unknown))

    async def _settle(self, sent: SentBinding, answer: BindAnswer) -> None:
        """Resolve an unknown outcome. Read the pod; if it has no node, send the same binding again: whichever
        of the two bindings comes first, the other finds the pod bound."""
        self._note(sent, "unknown", 0, answer.message)
        for attempt in count(1):
            outcome = await read_outcome(self._api, sent.request)
            if outcome is not None and outcome.status == "Unknown":
                (outcome,) = await self._sender.send([sent.request])
                if outcome.check == "PodBound":
                    outcome = await read_outcome(self._api, sent.request)
            if outcome is not None and outcome.status != "Unknown" and outcome.check not in NOT_SENT:
                self._conclude(sent, outcome, settled=True)
                return
            await asyncio.sleep(SETTLE.jittered_s(attempt, self._rng))

    def _conclude(self, sent: SentBinding, answer: BindAnswer, *, settled: bool = False) -> None:
        """Apply a known outcome: record it, and land or retry the pod."""
        uid = sent.pod.uid
        if answer.check == RESERVATION_GONE or _needs_no_reservation(sent, answer):
            self._preemption_loop.release(uid, sent.decision)
        if answer.status == "Bound":
            self._note(sent, "settled" if settled else "committed", answer.revision)
            self._has_landed(sent, answer)
        else:
            message = f"{answer.check}: {answer.message}"
            self._note(sent, "conflict", answer.current_revision, message, check=answer.check)
            self._take_back(sent, answer)

    def _has_landed(self, sent: SentBinding, answer: BindAnswer) -> None:
        uid = sent.pod.uid
        counts, now_ns = self._state.counts, self._state.clock.monotonic_ns()
        counts.bound += 1
        counts.bound_after.observe(max(0, now_ns - sent.queued_ns) / 1e9)
        self._state.land(sent, answer.revision)
        if self._state.status_writer is not None:
            self._state.status_writer.placed(
                sent.pod.key, uid, node=sent.request.node, decision=sent.decision
            )

    def _take_back(self, sent: SentBinding, answer: BindAnswer) -> None:
        uid, counts, now_s = sent.pod.uid, self._state.counts, asyncio.get_running_loop().time()
        counts.refused[answer.check] = counts.refused.get(answer.check, 0) + 1
        is_ours = self._state.pods.is_under_way(sent) and self._state.take_back(uid)
        if answer.check in ABOUT_NODE:
            self._state.refused_nodes.add(sent.request.node, answer.current_revision, now_s=now_s)
        if answer.check == FENCE_LOST and self._state.term is not None:
            self._state.term.end("fenced")
        if is_ours:
            self._try_again(sent, answer)

    def _try_again(self, sent: SentBinding, answer: BindAnswer) -> None:
        uid = sent.pod.uid
        entry = self._state.queue.entry(uid)
        at_once = answer.check in ABOUT_NODE and entry is not None and entry.failures < AT_ONCE_MAX
        cause = WakeCause("retry", f"{answer.check}: {answer.message}"[:200], decision=sent.decision)
        self._state.pods.retry(uid, cause, now_ns=self._state.clock.monotonic_ns(), backoff=not at_once)

    def _note(
        self, sent: SentBinding, result: Result, revision: int, message: str = "", *, check: str = ""
    ) -> None:
        now_ns = self._state.clock.now_ns()
        written = Subject("pods", *sent.pod.key, sent.pod.uid)
        self._state.recorder.concluded(
            sent.decision, now_ns, result, written=written, revision=revision, message=message, check=check
        )


def _needs_no_reservation(sent: SentBinding, answer: BindAnswer) -> bool:
    """Whether the pod does not need its reservation: its binding did not use it, and was bound, or refused by
    quota. Reserved room counts against the tenant's quota, so it may itself be what is missing."""
    return not sent.request.reservation and (answer.status == "Bound" or answer.check == QUOTA_EXCEEDED)
