"""A Domain that drives itself, so that asyncio's own test suite can be run on it: nothing comes from outside,
so time jumps to the next timer whenever nothing is ready."""

from __future__ import annotations

import asyncio
from typing import Any

from fathom.seams.domain import Domain


class SteppingDomain(Domain):
    def __init__(self) -> None:
        super().__init__()
        self._stopping = False
        self._closed = False

    def run_until_complete(self, future: Any) -> Any:
        task = None

        def start() -> None:
            nonlocal task
            task = asyncio.ensure_future(future, loop=self)

        self.input(self.now_ns, start)
        assert task is not None
        while not task.done() and not self._stopping:
            deadline_ns = self.next_deadline_ns()
            if deadline_ns is None:
                raise RuntimeError("deadlock: nothing is ready and no timer is armed")
            self.input(deadline_ns)
        return task.result()

    def run_forever(self) -> None:
        self._stopping = False
        while not self._stopping and (deadline_ns := self.next_deadline_ns()) is not None:
            self.input(deadline_ns)

    def stop(self) -> None:
        self._stopping = True

    def close(self) -> None:
        self._closed = True

    def is_closed(self) -> bool:
        return self._closed
