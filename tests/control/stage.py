"""A Domain that a test drives by hand: time passes only when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fathom.seams.domain import Domain

T = TypeVar("T")


class Stage:
    def __init__(self, domain: Domain | None = None) -> None:
        self.domain = domain or Domain()

    @property
    def now_s(self) -> float:
        return self.domain.now_ns / 1e9

    def do(self, act: Callable[[], T]) -> T:
        """Something that happens inside the Domain, now."""
        results: list[T] = []
        failures: list[BaseException] = []

        def acting() -> None:
            try:
                results.append(act())
            except BaseException as error:
                failures.append(error)

        self.domain.input(self.domain.now_ns, acting)
        if failures:
            raise failures[0]
        return results[0]

    def begin(self, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task, run as far as it goes without time passing."""
        return self.do(lambda: asyncio.get_running_loop().create_task(coro))

    def until(self, now_s: float) -> None:
        """Let time pass, stopping at every timer on the way."""
        end_ns = round(now_s * 1e9)
        while (due_ns := self.domain.next_deadline_ns()) is not None and due_ns <= end_ns:
            self.domain.input(due_ns)
        self.domain.input(end_ns)

    def wait(self, seconds: float) -> None:
        self.until(self.now_s + seconds)

    def finish(self, coro: Coroutine[Any, Any, T], *, within_s: float = 3600.0) -> T:
        """Run it to its end, with as much time as it needs."""
        task = self.begin(coro)
        end_ns = self.domain.now_ns + round(within_s * 1e9)
        while not task.done():
            due_ns = self.domain.next_deadline_ns()
            if due_ns is None or due_ns > end_ns:
                raise AssertionError(f"not finished after {within_s} s: {task}")
            self.domain.input(due_ns)
        return task.result()
