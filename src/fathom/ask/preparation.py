"""Makes the view that questions need before the first one comes, while the server has little else to do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from fathom.api.watch_cache import WatchCache
from fathom.ask.kept_cluster import RESOURCES, KeptCluster
from fathom.ask.objects import CachedObjects
from fathom.seams.log import Log
from fathom.seams.outside import Clock

LOOK_S = 2.0
# With more writes between two looks the server has better things to do: a question then does it all itself.
QUIET_WRITES = 1000
# Requests are served between two steps of some milliseconds, which keep other threads waiting.
PAUSE_S = 0.02
REST_TIMES = 30  # After each preparation, so many times as long as it worked: at most 3 % of a core.


class Preparation:
    def __init__(self, kept: KeptCluster, cache: WatchCache, clock: Clock, log: Log) -> None:
        self._kept = kept
        self._cache = cache
        self._clock = clock
        self._log = log
        self._prepared = 0  # Revision of the last change that the view contains.

    async def run(self) -> None:
        while True:
            before = self._cache.reached
            await asyncio.sleep(LOOK_S)
            if self._cache.reached - before > QUIET_WRITES:
                continue
            try:
                worked_s = await self.prepare()
            except Exception as error:  # An installed rule of somebody else's may fail; a question says so.
                self._log.warn("questions are not prepared", error=repr(error))
                return
            await asyncio.sleep(worked_s * REST_TIMES)

    async def prepare(self) -> float:
        """Returns for how long it has worked."""
        changed = max(self._cache.revision(resource) for resource in RESOURCES.values())
        if changed == self._prepared:
            return 0.0
        self._prepared, objects = changed, CachedObjects(self._cache)
        worked_s, steps = 0.0, self._kept.prepare(objects, now_ns=self._clock.now_ns())
        while True:
            began_ns = self._clock.monotonic_ns()
            more = await asyncio.to_thread(_step, steps)
            worked_s += (self._clock.monotonic_ns() - began_ns) / 1e9
            if not more:
                return worked_s
            await asyncio.sleep(PAUSE_S)


def _step(steps: Iterator[None]) -> bool:
    """Whether there was one more."""
    for _ in steps:
        return True
    return False
