"""Writes the record of a run, only at the revision that was read: so one client at a time carries it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from fathom.client.api import Api, own_resource
from fathom.client.outcomes import Committed, Conflict, Outcome, Rejected
from fathom.kinds import runbook_run
from fathom.kinds.runbook_run import RunbookRun, RunbookRunStatus
from fathom.kinds.shape import read
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, key_of
from fathom.model.times import micro_timestamp

RUNS = own_resource(runbook_run.DEFINITION)
TRIES_MAX = 30
AGAIN_S = 2.0


class RunLost(Exception):
    """The run was taken over, or its record cannot be written any more; the message is one line."""


class RunRecord:
    def __init__(
        self,
        api: Api,
        run: Obj,
        *,
        now_ns: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._api = api
        self._now_ns = now_ns
        self._sleep = sleep
        self._obj = run  # As last written or read: its resourceVersion guards the next write.
        self._key = key_of(run)
        self.status: RunbookRunStatus = read(RunbookRun, run).status
        self.written_ns = 0

    async def write(self, status: RunbookRunStatus) -> None:
        """Raises RunLost if somebody else has taken the run, or if nothing can be written."""
        status = self._numbered(status)
        for _ in range(TRIES_MAX):
            obj = {**self._obj, "status": msgspec.to_builtins(status)}
            outcome = await self._api.update(RUNS, self._key.namespace, obj, "status")
            if isinstance(outcome, Committed):
                self._accept(outcome.obj)
                return
            if isinstance(outcome, Rejected) and outcome.code != 429:
                raise RunLost(f"the record of the run cannot be written: {outcome.message}")
            if await self._is_written(status, outcome):
                return
        raise RunLost("the record of the run cannot be written: the API server does not answer")

    def _numbered(self, status: RunbookRunStatus) -> RunbookRunStatus:
        """Each write has a number: after an unknown outcome a read tells whether it is the one stored."""
        holder = msgspec.structs.replace(
            status.holder,
            sequence=self.status.holder.sequence + 1,
            renewed_at=micro_timestamp(self._now_ns()),
        )
        return msgspec.structs.replace(status, holder=holder)

    async def _is_written(self, status: RunbookRunStatus, outcome: Outcome) -> bool:
        """After a conflict or an unknown outcome: whether what is stored is what we wrote."""
        if not isinstance(outcome, Conflict):
            await self._sleep(AGAIN_S)
        try:
            stored = await self._api.get(RUNS, *self._key)
        except ApiError:
            return False
        if stored is None:
            raise RunLost("the record of the run was deleted")
        holder, ours, before = read(RunbookRun, stored).status.holder, status.holder, self.status.holder
        if (holder.name, holder.epoch, holder.sequence) == (ours.name, ours.epoch, ours.sequence):
            self._accept(stored)
            return True
        if (holder.epoch, holder.sequence) != (before.epoch, before.sequence):
            raise RunLost(f"{holder.name} has taken the run over")
        self._obj = stored  # Somebody changed something else, such as a label.
        return False

    def _accept(self, obj: Obj) -> None:
        self._obj = obj
        self.status = read(RunbookRun, obj).status
        self.written_ns = self._now_ns()
