"""Makes the view that questions need before the first one comes, while the server has little else to do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from fathom.api.watch_cache import WatchCache
from fathom.ask.kept_cluster import RESOURCES, KeptCluster
from fathom.ask.objects import CachedObjects
from fathom.seams.log import Log

LOOK_S = 2.0
# With more writes between two looks the server has better things to do: a question then does it all itself.
QUIET_WRITES = 1000
# Requests are served between two steps of some milliseconds, which keep other threads waiting.
PAUSE_S = 0.02
# Changes between two looks are few, and catching up with them is cheap. A view that must be made anew at
# every look is not: after that, a rest of 30 times as long as its steps take, so at most 3 % of a core.
REST_S = 0.12


class Preparation:
    def __init__(self, kept: KeptCluster, cache: WatchCache, log: Log) -> None:
        self._kept = kept
        self._cache = cache
        self._log = log
        self._prepared = 0  # Revision of the last change that the view contains.

    async def run(self) -> None:
        while True:
            before = self._cache.reached
            await asyncio.sleep(LOOK_S)
            if self._cache.reached - before > QUIET_WRITES:
                continue
            made_anew = self._kept.made_anew
            try:
                steps = await self.prepare()
            except Exception as error:  # An installed rule of somebody else's may fail; a question says so.
                self._log.warn("questions are not prepared", error=repr(error))
                return
            if self._kept.made_anew > made_anew:
                await asyncio.sleep(steps * REST_S)

    async def prepare(self) -> int:
        """Returns the number of steps that it took."""
        changed = max(self._cache.revision(resource) for resource in RESOURCES.values())
        if changed == self._prepared:
            return 0
        self._prepared, count = changed, 0
        steps = self._kept.prepare(CachedObjects(self._cache))
        while await asyncio.to_thread(_step, steps):
            count += 1
            await asyncio.sleep(PAUSE_S)
        return count


def _step(steps: Iterator[None]) -> bool:
    """Whether there was one more."""
    for _ in steps:
        return True
    return False
