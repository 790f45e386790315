"""Requests that take too long, cancelled by one timer for all of them.

Nearly every request has the same time, so they run out of it in the order they came: a queue and a timer for
its head take the place of a timer each. What is answered leaves the queue with the first behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec


class Deadline(msgspec.Struct, eq=False):
    task: asyncio.Task[Any] | None  # None: it was answered.
    at_s: float
    cancelling: int  # How often it had been told to stop before: those were not for us.
    expired: bool = False

    def is_ours(self, task: asyncio.Task[Any]) -> bool:
        """Whether it was cancelled because its time was up, and by nobody else."""
        return self.expired and task.uncancel() <= self.cancelling


class Deadlines:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: deque[Deadline] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Deadline:
        """For the task that is running."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        deadline = Deadline(task, loop.time() + self._seconds, task.cancelling())
        self._waiting.append(deadline)
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._ring)
        return deadline

    def end(self, deadline: Deadline) -> None:
        deadline.task = None
        waiting = self._waiting
        while waiting and waiting[0].task is None:
            waiting.popleft()

    def _ring(self) -> None:
        loop, waiting = asyncio.get_running_loop(), self._waiting
        self._timer = None
        while waiting and (waiting[0].task is None or waiting[0].at_s <= loop.time()):
            deadline = waiting.popleft()
            if deadline.task is not None:
                deadline.expired = True
                deadline.task.cancel()
        if waiting:
            self._timer = loop.call_at(waiting[0].at_s, self._ring)
