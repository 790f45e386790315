"""Requests that run while the loop goes on. The end of each, success or failure, wakes the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from fathom.seams.domain import Domain


class BackgroundRequests:
    def __init__(self, domain: Domain, moved: asyncio.Event) -> None:
        self._domain = domain
        self._moved = moved
        self._running: dict[int, asyncio.Task[None]] = {}  # By number: requests that have not ended.
        self._count = 0  # Only grows, so no number is used twice.
        self.ending = False  # Those who wait for something else than an answer shall end now.
        self.binding = 0  # How many of them are batches of bindings; that number is limited.

    def fly(self, work: Coroutine[Any, Any, None]) -> None:
        self._count += 1
        number = self._count
        task = asyncio.get_running_loop().create_task(work, name=f"flight {number}")
        self._running[number] = task
        task.add_done_callback(lambda _: self._ended(number))

    def _ended(self, number: int) -> None:
        task = self._running.pop(number, None)
        self._moved.set()
        if task is not None and not task.cancelled() and (error := task.exception()) is not None:
            self._domain.call_exception_handler(
                {"message": "a background request of the scheduler failed", "exception": error}
            )

    async def wait(self, seconds: float) -> bool:
        """Wait for the requests; True if all of them have ended."""
        self.ending = True
        if self._running:
            await asyncio.wait(tuple(self._running.values()), timeout=seconds)
        return not self._running

    async def cancel(self, background: Iterable[asyncio.Task[None]]) -> None:
        """Cancel all requests, and these tasks too."""
        running = [*self._running.values(), *background]
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        self._running.clear()
        self.ending = False
        self.binding = 0
