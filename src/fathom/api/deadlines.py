"""Deadlines of requests: one timer cancels all requests that take too long.

Nearly every request has the same time limit, so deadlines pass in the order in which the requests came: a
queue, and one timer for its head, replace a timer per request. An answered request leaves the queue when it
reaches the head.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec


class Deadline(msgspec.Struct, eq=False):
    task: asyncio.Task[Any] | None  # None: the request was answered.
    at_s: float
    cancelling: int  # Cancellations before the deadline began: those are not ours.
    expired: bool = False

    def is_ours(self, task: asyncio.Task[Any]) -> bool:
        """Whether the deadline alone cancelled the task, and nothing else did."""
        return self.expired and task.uncancel() <= self.cancelling


class Deadlines:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: deque[Deadline] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Deadline:
        """Start a deadline for the running task."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        deadline = Deadline(task, loop.time() + self._seconds, task.cancelling())
        self._waiting.append(deadline)
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._fire)
        return deadline

    def end(self, deadline: Deadline) -> None:
        deadline.task = None
        waiting = self._waiting
        while waiting and waiting[0].task is None:
            waiting.popleft()

    def _fire(self) -> None:
        loop, waiting = asyncio.get_running_loop(), self._waiting
        self._timer = None
        while waiting and (waiting[0].task is None or waiting[0].at_s <= loop.time()):
            deadline = waiting.popleft()
            if deadline.task is not None:
                deadline.expired = True
                deadline.task.cancel()
        if waiting:
            self._timer = loop.call_at(waiting[0].at_s, self._fire)
