"""The copy of a foreign cluster as a part of a live server (`fathom.serve.Copying`), and its scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fathom.attach.ask_listener import AskListener
from fathom.attach.kinds import MirroredKind
from fathom.attach.mirror import Mirror
from fathom.client.http import ServerAddress
from fathom.model.record_query import DecisionReader
from fathom.store.protocol import Entry
from fathom.supervise import Part, RunningPart, end_words, restart_pause_s, short_lives
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.serve import Running


class ForeignCluster:
    def __init__(
        self,
        connect: Callable[[], ServerAddress],
        url: str,
        kinds: list[MirroredKind],
        *,
        copied_before: bool,
        journals: dict[str, DecisionReader] | None = None,
        scheduler: RunningPart | None = None,
        ask_listener: AskListener | None = None,
    ) -> None:
        """`connect` is called on the server's loop. `scheduler`: runs as soon as the copy is complete.
        `ask_listener`: answers then."""
        self._connect = connect
        self._kinds = kinds
        self._copied_before = copied_before
        self._scheduler = scheduler
        self._ask_listener = ask_listener
        self.url = url
        self.copied = frozenset(kind.name for kind in kinds)
        self.journals = journals or {}
        self._mirror: Mirror | None = None

    def behind(self) -> str:
        """What of the cluster the copy cannot follow now; '' if it follows all."""
        return "" if self._mirror is None else self._mirror.failing.behind()

    async def run(self, running: Running, synced: asyncio.Event) -> None:
        cache = running.parts.core.cache

        def stored(resource: str) -> Mapping[str, Entry]:
            return cache.copied(resource)[2]

        mirror = self._mirror = Mirror(
            self._connect(),
            self._kinds,
            running.store,
            stored=stored,
            copied_before=self._copied_before,
            audit=running.audit,
            outside=running.outside,
            log=running.log,
        )
        mirror.synced.add_done_callback(lambda _: synced.set())
        async with asyncio.TaskGroup() as group:
            group.create_task(mirror.run())
            if self._scheduler is not None:
                group.create_task(_keep_running(self._scheduler, synced))
            if self._ask_listener is not None:
                group.create_task(self._ask_listener.run(running, self._connect(), synced))


def scheduler_part(command: tuple[str, ...], logs: Path, lock: int) -> RunningPart:
    return RunningPart(Part("scheduler", command), logs, lock, lambda which, line: None)


async def _keep_running(scheduler: RunningPart, synced: asyncio.Event) -> None:
    """Start it again whenever it ends. When we are cancelled, it releases its lease before it ends."""
    await synced.wait()
    loop, failures = asyncio.get_running_loop(), 0
    try:
        while True:
            began_s = loop.time()
            await scheduler.start()
            code = await scheduler.ended()
            failures = short_lives(failures, was_ready=False, lived_s=loop.time() - began_s)
            pause_s = restart_pause_s(failures)
            last = scheduler.last_words[-1] if scheduler.last_words else ""
            say(f"{end_words('scheduler', code, last)}; restarting it in {pause_s:g} s")
            await asyncio.sleep(pause_s)
    finally:
        await scheduler.stop()
