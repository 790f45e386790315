"""11. A leader that is told to stop releases its lease before its workers have finished, and no server checks
its epoch, as on any other Kubernetes: it writes after its term (client-go#728)."""

from __future__ import annotations

import asyncio
from typing import Any

from fathom.control.leadership import EndingTasks, Leading
from fathom.control.lease import Fenced
from fathom.sim.zoo import put_back

SCENARIOS = ("leaders",)
BREAKS = "no write behind a lost fence"


async def lead(self: Any, elector: Any, term: Any, stopping: Any) -> None:
    loop = asyncio.get_running_loop()
    self._inside.identity = term.identity
    keeping = loop.create_task(elector.keep(term))
    working = loop.create_task(self._work_when_synced(term, EndingTasks(stopping, keeping)))
    await asyncio.wait((working, stopping, keeping), return_when=asyncio.FIRST_COMPLETED)
    if stopping.done():
        keeping.cancel()
        await elector.release(term)
    await working
    keeping.cancel()


async def unfenced(self: Any, ask: Any, *, timeout_s: float) -> Any:
    return await self._inner.request(ask, timeout_s=timeout_s)


put_back(Leading, "_lead", lead)
put_back(Fenced, "request", unfenced)
