"""fathom's caches following a server, on a Domain as in every controller.

As a program (`python -m fathom.bench.follow URL EVENTS`) it follows a `source` and prints its progress, one
JSON document a line: at its start, after the first sync, after the last event. Its twin for kopf is
`follow_kopf`.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import time
from collections.abc import Callable

import msgspec
import uvloop

from fathom.bench.child import rss_mb
from fathom.cache.caches import Caches
from fathom.cache.indexes import FOR_PODS
from fathom.cache.scope import CacheScope
from fathom.client.api import Api
from fathom.client.http import HttpBackend, ServerAddress
from fathom.model.objects import Obj
from fathom.model.resources import PODS
from fathom.seams.domain import Domain
from fathom.seams.host import Host, NoTape
from fathom.seams.outside import SystemClock
from fathom.seams.seam import Seam
from fathom.seams.streams import Streams

SYNC_S_MAX = 600.0


class ReachedRevision(msgspec.Struct, frozen=True):
    """Where a follower is, and what it took so far."""

    at_s: float  # On the clock that all processes of a machine share.
    cpu_s: float
    rss_mb: float


def reached() -> ReachedRevision:
    return ReachedRevision(time.monotonic(), time.process_time(), rss_mb([os.getpid()]))


def say(progress: ReachedRevision) -> None:
    print(msgspec.json.encode(progress).decode(), flush=True)  # noqa: T201  # Our parent process reads it.


class CacheFollower:
    """Make it on the host's loop. `tell` is called after the first sync, and after so many changes."""

    def __init__(
        self,
        server: ServerAddress,
        *,
        namespace: str = "",
        changes: int = 0,
        tell: Callable[[ReachedRevision], None],
    ) -> None:
        self._left = changes
        self._tell = tell
        self._domain = Domain()
        self._host = Host(self._domain, SystemClock(), NoTape())
        self._backend = HttpBackend(self._host, server)
        self._seam = Seam(self._domain, self._backend)
        self.caches = Caches(Api(self._seam), streams=Streams("bench"))
        self.caches.add("Pod", CacheScope(PODS, namespace), indexes=FOR_PODS)
        self.caches.on_change("Pod", self._count)
        self.objects = 0  # That were there at the first sync.
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        self._host.start(self._seam, lambda: self._tasks.append(self._domain.create_task(self._inside())))
        try:
            await self._ended
        finally:
            self._host.stop()
            await self._backend.close()

    async def _inside(self) -> None:
        self.caches.start()
        await self.caches.until_synced(timeout_s=SYNC_S_MAX)
        self.objects = self.caches.snapshot().size("Pod")
        self._tell(reached())
        if not self._left:
            self._ended.set_result(None)

    def _count(self, old: Obj | None, new: Obj | None) -> None:
        if old is not None and self._left:
            self._left -= 1
            if not self._left:
                self._tell(reached())
                self._ended.set_result(None)


async def main(url: str, changes: int) -> None:
    say(reached())
    server = ServerAddress(url, ssl.create_default_context(), tuple)
    await CacheFollower(server, changes=changes, tell=say).run()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
