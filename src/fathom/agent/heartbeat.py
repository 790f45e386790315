"""Heartbeats: register the node, renew its Lease, write its status when it changed or is due.

Nothing is retried at once: the next heartbeat is the retry. A lost answer does no harm, because each
heartbeat sends everything again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from fathom.agent.node import lease_of, new_node, node_patch, node_status, status_changed
from fathom.agent.settings import AgentSettings
from fathom.client.api import Api
from fathom.client.outcomes import Committed, Outcome, Rejected, Unknown
from fathom.control.decision_log import DecisionLog, subject_at
from fathom.control.watches import LEASE, NODE
from fathom.model.backoff import Backoff
from fathom.model.cause import DELETED, WakeCause
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, lookup, metadata, uid_of
from fathom.model.times import micro_timestamp, timestamp
from fathom.model.well_known import NODE_LEASE_NAMESPACE
from fathom.seams.log import Log
from fathom.seams.outside import Clock

REGISTER = Backoff(0.2, 7.0)  # kubelet's.


class Heartbeat:
    def __init__(
        self,
        settings: AgentSettings,
        api: Api,
        *,
        clock: Clock,
        rng: random.Random,
        log: Log,
        decisions: DecisionLog,
    ) -> None:
        self._settings = settings
        self._api = api
        self._clock = clock
        self._rng = rng
        self._log = log
        self._decisions = decisions
        self._node: Obj | None = None  # As in the last answer.
        self._lease: Obj | None = None
        self._status_s = -1e9  # When the status was last written.
        self.failures = 0  # Heartbeats that failed.
        self.registered = asyncio.Event()
        self.heard_ns: int | None = None  # When the API server last accepted a heartbeat; monotonic.
        self.on_heard: Callable[[], None] = lambda: None  # Called when it is accepted again after a gap.

    @property
    def node(self) -> Obj | None:
        """The Node as last read, if its status has allocatable resources."""
        return self._node if self._node is not None and lookup(self._node, "status", "allocatable") else None

    async def fetch_node(self) -> Obj | None:
        """Raises ApiError."""
        return await self._api.get(NODE.resource, "", self._settings.node)

    async def run(self) -> None:
        failures = 0
        while not await self._register(WakeCause("start")):
            failures += 1
            await asyncio.sleep(REGISTER.jittered_s(failures, self._rng))
        self.registered.set()
        while True:
            await self._beat()
            await asyncio.sleep(self._settings.renew_s * (1.0 - self._rng.random() / 20))

    async def _beat(self) -> None:
        try:
            await self._renew()
            await self._report()
        except ApiError as error:
            self.failures += 1
            self._log.warn("heartbeat failed, will retry", node=self._settings.node, error=error.message)

    # The node.

    async def _register(self, cause: WakeCause) -> bool:
        """Create the Node, or bring its labels and annotations up to date. Whether that succeeded."""
        try:
            node = await self._api.get(NODE.resource, "", self._settings.node)
        except ApiError as error:
            self._log.warn(
                "unable to register node with API server", node=self._settings.node, error=error.message
            )
            return False
        if node is None:
            id_ = self._decided("create", None, cause, "the node is not registered")
            new = new_node(self._settings, self._now())
            created = await self._api.with_decision(id_).create(NODE.resource, "", new)
            self._concluded(id_, created)
            return self._committed(created, "registered", id_)
        patch = node_patch(self._settings, node)
        if patch is None:
            self._node = node
            return True
        id_ = self._decided("patch", node, cause, "labels or annotations differ from the agent's settings")
        patched = await self._api.with_decision(id_).patch(NODE.resource, "", self._settings.node, patch)
        self._concluded(id_, patched)
        return self._committed(patched, "labels and annotations updated", id_)

    def _committed(self, outcome: Outcome, action: str, id_: str) -> bool:
        if isinstance(outcome, Committed):
            self._node = outcome.obj
            self._status_s = -1e9
            self._log.info("node object written", node=self._settings.node, what=action, decision=id_)
            return True
        why = outcome.message if isinstance(outcome, Rejected) else str(outcome)
        self._log.warn(
            "unable to register node with API server", node=self._settings.node, error=why, decision=id_
        )
        return False

    async def _report(self) -> None:
        settings, name = self._settings, self._settings.node
        node = await self._api.get(NODE.resource, "", name) if self._is_due() else self._node
        if node is None:  # It was deleted while we run: register it again.
            await self._register(
                WakeCause("event", "", NODE.resource.name, "", name, event=DELETED, gone=True)
            )
            return
        status = node_status(settings, node, self._now())
        changed = status_changed(node.get("status") or {}, status)
        if not self._is_due() and not changed:
            return
        # A stale list must not undo conditions that controllers keep on the node (Suspect, Quarantined).
        revision = metadata(node).get("resourceVersion")
        guard = {"metadata": {"resourceVersion": revision}, "status": status}
        if changed:
            outcome = await self._write_change(node, guard)
        else:  # A heartbeat decides nothing.
            outcome = await self._api.patch(NODE.resource, "", name, guard, subresource="status")
        # A clock that is set back may give a heartbeat the time of the one before: nobody hears of that one.
        if isinstance(outcome, Committed) and metadata(outcome.obj).get("resourceVersion") != revision:
            self._node, self._status_s = outcome.obj, self._loop_s()

    async def _write_change(self, node: Obj, change: Obj) -> Outcome:
        """Write a status that differs in more than the time of the heartbeat."""
        cause = WakeCause("timer", "heartbeat")
        id_ = self._decided("status", node, cause, "capacity, addresses or conditions changed")
        api = self._api.with_decision(id_)
        outcome = await api.patch(NODE.resource, "", self._settings.node, change, subresource="status")
        self._concluded(id_, outcome)
        return outcome

    def _decided(self, verdict: str, node: Obj | None, cause: WakeCause, why: str) -> str:
        subject = subject_at(NODE.resource, Key("", self._settings.node), uid_of(node or {}))
        return self._decisions.decided(verdict, subject, cause=cause, why=why)

    def _concluded(self, id_: str, outcome: Outcome) -> None:
        self._decisions.concluded(id_, outcome, subject_at(NODE.resource, Key("", self._settings.node)))

    def _is_due(self) -> bool:
        return self._loop_s() - self._status_s >= self._settings.status_s

    # The lease.

    async def _renew(self) -> None:
        wanted = lease_of(self._settings, self._node, micro_timestamp(self._clock.now_ns()))
        if self._lease is None:
            self._lease = await self._api.get(LEASE.resource, NODE_LEASE_NAMESPACE, self._settings.node)
        if self._lease is None:
            outcome = await self._api.create(LEASE.resource, NODE_LEASE_NAMESPACE, wanted)
        else:
            patch = {"metadata": {"ownerReferences": wanted["metadata"].get("ownerReferences")}}
            outcome = await self._api.patch(
                LEASE.resource, NODE_LEASE_NAMESPACE, self._settings.node, {**patch, "spec": wanted["spec"]}
            )
        if isinstance(outcome, Committed):
            self._lease = outcome.obj
            self._heard()
        elif not isinstance(outcome, Unknown):
            self._lease = None  # Deleted or changed: read it before the next renewal.

    def _heard(self) -> None:
        before_ns, self.heard_ns = self.heard_ns, self._clock.monotonic_ns()
        if before_ns is not None and self.heard_ns - before_ns > 2 * self._settings.renew_s * 1e9:
            self.on_heard()

    def _now(self) -> str:
        return timestamp(self._clock.now_ns())

    def _loop_s(self) -> float:
        return asyncio.get_running_loop().time()
