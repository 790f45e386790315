"""Leading, standing by and stopping: what the controllers' process and the scheduler's process share.

caches follow ──> stand by ──the lease is ours──> work ──lost──> cut off ──> stand by
                                                    └──"stop"──> drain ──> release ──> end
                                                    └──"rebase"──> drain ──> end, the lease is kept
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from fathom.cache.caches import Caches
from fathom.control.lease import Elector, LeaderTerm
from fathom.seams.process import Inside

STOP, REBASE = "stop", "rebase"
SYNC_TOLD_S = 60.0


class EndingTasks(msgspec.Struct, frozen=True):
    """The tasks whose completion ends the work: a stop signal, or the loss of the lease."""

    stopping: asyncio.Task[str]
    keeping: asyncio.Task[str] | None = None  # Renews the lease; None without leader election.

    @property
    def all(self) -> tuple[asyncio.Task[str], ...]:
        return (self.stopping,) if self.keeping is None else (self.stopping, self.keeping)

    @property
    def lost(self) -> bool:
        return self.keeping is not None and self.keeping.done()


# Works until one of the ends is done. Returns whether all work was drained.
Work = Callable[[LeaderTerm | None, EndingTasks], Awaitable[bool]]


class Leading:
    def __init__(self, inside: Inside, caches: Caches, elector: Elector | None, work: Work) -> None:
        self._inside = inside
        self._caches = caches
        self._elector = elector  # None: there is only one process, or several work side by side.
        self._work = work

    async def run(self) -> None:
        """Runs until the process receives a stop signal."""
        self._caches.start()
        stopping = asyncio.get_running_loop().create_task(self._stop_signal())
        try:
            if self._elector is None:
                await self._work_when_synced(None, EndingTasks(stopping))
            else:
                await self._take_terms(self._elector, stopping)
        finally:
            stopping.cancel()
            await self._caches.stop()

    async def _take_terms(self, elector: Elector, stopping: asyncio.Task[str]) -> None:
        predecessor = self._inside.birth.predecessor
        while not stopping.done():
            campaign = asyncio.get_running_loop().create_task(elector.campaign(predecessor))
            predecessor = ""
            await asyncio.wait((campaign, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not campaign.done():
                campaign.cancel()
                return
            await self._lead(elector, campaign.result(), stopping)

    async def _lead(self, elector: Elector, term: LeaderTerm, stopping: asyncio.Task[str]) -> None:
        """Works for one term. The lease is released only after the last worker has finished its key."""
        self._inside.identity = term.identity
        keeping = asyncio.get_running_loop().create_task(elector.keep(term))
        try:
            drained = await self._work_when_synced(term, EndingTasks(stopping, keeping))
            if drained and stopping.result() == STOP:
                keeping.cancel()
                await asyncio.wait((keeping,))
                await elector.release(term)
        finally:
            keeping.cancel()

    async def _work_when_synced(self, term: LeaderTerm | None, ends: EndingTasks) -> bool:
        syncing = asyncio.get_running_loop().create_task(self._synced())
        await asyncio.wait((syncing, *ends.all), return_when=asyncio.FIRST_COMPLETED)
        syncing.cancel()
        if any(end.done() for end in ends.all):
            return ends.stopping.done()
        return await self._work(term, ends)

    async def _synced(self) -> None:
        while late := await self._caches.until_synced(timeout_s=SYNC_TOLD_S):
            self._inside.log.warn("waiting for caches to sync", kinds=list(late))

    async def _stop_signal(self) -> str:
        while (signal := await self._inside.seam.signal()) not in {STOP, REBASE}:
            self._inside.log.warn("unknown signal ignored", word=signal)
        return signal
