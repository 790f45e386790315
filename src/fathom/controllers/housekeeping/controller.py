"""The controllers that an API cannot do without, woken by its changes: one queue and one worker each.

They run in the API server's process and send ordinary API requests under an identity of their own. They are
level-based: an observation only says which object to look at, so losing or doubling one does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fathom.client.local import LocalClient
from fathom.control.decision_log import DecisionLog
from fathom.control.queue import Taken, WorkQueue
from fathom.control.retry import FOREVER
from fathom.controllers.autoscaler.scale_rights import ROLES, ScaleRights
from fathom.controllers.housekeeping.custom_definitions import DefinitionController
from fathom.controllers.housekeeping.event_expiry import EXPIRE_S, KEEP_S, EventController
from fathom.controllers.housekeeping.garbage_collector import Collector
from fathom.controllers.housekeeping.namespaces import RECHECK_S, NamespaceController
from fathom.controllers.housekeeping.plan_garbage import Ref
from fathom.controllers.housekeeping.resource_quotas import EVERY_S as QUOTAS_EVERY_S
from fathom.controllers.housekeeping.resource_quotas import Mend, QuotaController
from fathom.controllers.housekeeping.stopped_acknowledgers import EVERY_S as ACKNOWLEDGERS_EVERY_S
from fathom.controllers.housekeeping.stopped_acknowledgers import StoppedAcknowledgers
from fathom.controllers.housekeeping.tenant_quotas import EVERY_S as TENANTS_EVERY_S
from fathom.controllers.housekeeping.tenant_quotas import TenantController
from fathom.controllers.housekeeping.writer import HousekeepingWriter
from fathom.model.accounts import SCALE_ROLE
from fathom.model.body import Body
from fathom.model.cause import WakeCause
from fathom.model.errors import ApiError
from fathom.model.resource_names import DEFINITIONS
from fathom.model.times import SECOND_NS, timestamp
from fathom.model.view import Resources, View
from fathom.seams.log import Log
from fathom.seams.outside import Outside

NAMESPACES = "namespaces"
KEYS_MAX = 100_000_000
RECHECK = WakeCause("timer", "to check that nothing is left")


class Housekeeping:
    def __init__(
        self,
        *,
        client: LocalClient,
        decisions: DecisionLog,
        view: View,
        resources: Resources,
        outside: Outside,
        log: Log,
        mend_quota: Mend,
        tenant_status: Mend,
    ) -> None:
        self._outside = outside
        self._log = log
        # No other controller would finish what these began, so they never give up; and a rejected key would
        # never be looked at again, so there is room for all that a store can hold.
        self._garbage: WorkQueue[Ref] = WorkQueue(outside.rng, retry=FOREVER, keys_max=KEYS_MAX)
        self._namespaces: WorkQueue[str] = WorkQueue(outside.rng, retry=FOREVER)
        # A new namespace does not wait for deletions of others: its first pods need their service account.
        self._new_namespaces: WorkQueue[str] = WorkQueue(outside.rng, retry=FOREVER)
        self._definitions: WorkQueue[str] = WorkQueue(outside.rng, retry=FOREVER)

        def writer(name: str) -> HousekeepingWriter:
            return HousekeepingWriter(client, decisions, name)

        self._collector = Collector(
            writer=writer("garbage-collector"), view=view, resources=resources, queue=self._garbage
        )
        self._namespace = NamespaceController(
            writer=writer("namespaces"), view=view, resources=resources, clock=outside.clock
        )
        self._quotas = QuotaController(writer=writer("resource-quotas"), view=view, mend=mend_quota)
        self._tenants = TenantController(writer=writer("tenant-quotas"), view=view, status=tenant_status)
        self._acknowledgers = StoppedAcknowledgers(
            writer=writer("stopped-acknowledgers"), view=view, clock=outside.clock
        )
        self._events = EventController(writer=writer("events"), view=view)
        self._definition = DefinitionController(
            writer=writer("custom-definitions"), view=view, resources=resources
        )
        self._scale_rights = ScaleRights(writer=writer("scale-rights"), view=view)

    def observe(
        self, resource: str, key: str, body: Body | None, previous: Body | None, revision: int
    ) -> None:
        """`key` is the object's path below its resource: 'default/web', or 'kube-system'."""
        self._collector.observe(resource, body, previous, revision)
        if resource == NAMESPACES:
            queue = self._new_namespaces if previous is None else self._namespaces
            queue.add(key, WakeCause("event", "", resource, "", key, revision))
        elif resource == DEFINITIONS or (resource == ROLES and key == SCALE_ROLE):
            self._definitions.add(key, WakeCause("event", "", resource, "", key, revision))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work("garbage", self._garbage, self._collect))
            group.create_task(self._work("namespaces", self._namespaces, self._empty))
            group.create_task(self._work("namespaces", self._new_namespaces, self._empty))
            group.create_task(self._work("definitions", self._definitions, self._define))
            group.create_task(self._periodically("quotas", self._quotas.recount, QUOTAS_EVERY_S))
            group.create_task(self._periodically("tenants", self._tenants.report, TENANTS_EVERY_S))
            group.create_task(self._periodically("events", self._expire, EXPIRE_S))
            group.create_task(
                self._periodically("acknowledgers", self._acknowledgers.report, ACKNOWLEDGERS_EVERY_S)
            )

    async def _periodically(
        self, controller: str, work: Callable[[], Awaitable[None]], every_s: float
    ) -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await work()
            except ApiError as error:
                self._log.warn(
                    "reconcile failed", controller=controller, error=error.message, decision=error.decision
                )

    async def _expire(self) -> None:
        await self._events.expire(before=timestamp(self._outside.clock.now_ns() - KEEP_S * SECOND_NS))

    async def _collect(self, taken: Taken[Ref]) -> None:
        await self._collector.reconcile(taken.key)

    async def _empty(self, taken: Taken[str]) -> None:
        if await self._namespace.reconcile(taken.key, cause=taken.cause):
            self._namespaces.add_after(taken.key, RECHECK_S, RECHECK)

    async def _define(self, taken: Taken[str]) -> None:
        """The key is the name of a definition, or of the role that follows all definitions, which is no
        definition's name."""
        await self._scale_rights.reconcile(cause=taken.cause)
        if await self._definition.reconcile(taken.key, cause=taken.cause):
            self._definitions.add_after(taken.key, RECHECK_S, RECHECK)

    async def _work(
        self, controller: str, queue: WorkQueue[Any], reconcile: Callable[..., Awaitable[None]]
    ) -> None:
        while (taken := await queue.take()) is not None:
            key = taken.key
            try:
                await reconcile(taken)
            except ApiError as error:
                if error.code != 409:  # A lost race is ordinary: look again.
                    self._log.warn(
                        "reconcile failed", controller=controller, key=str(key), error=error.message,
                        decision=error.decision,
                    )  # fmt: skip
                queue.failed(key)
            except Exception as error:  # A failure of one object must not stop the others.
                self._log.error("reconcile failed", controller=controller, key=str(key), error=repr(error))
                queue.failed(key)
            else:
                queue.done(key)
