"""One timer for all requests: each has its own time, and only that."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from fathom.api.deadlines import Deadlines
from fathom.seams.domain import Domain

S = 1_000_000_000


async def work(deadlines: Deadlines, seconds: float, said: list[str], name: str) -> None:
    deadline = deadlines.begin()
    task = asyncio.current_task()
    assert task is not None
    try:
        await asyncio.sleep(seconds)
        said.append(f"{name} done")
    except asyncio.CancelledError:
        said.append(f"{name} late" if deadline.is_ours(task) else f"{name} stopped")
    finally:
        deadlines.end(deadline)


def run(domain: Domain, until_s: float) -> None:
    """Let the domain's time pass, deadline by deadline."""
    while (due_ns := domain.next_deadline_ns()) is not None and due_ns <= until_s * S:
        domain.input(due_ns)
    domain.input(round(until_s * S))


def start(domain: Domain, coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    made: list[asyncio.Task[None]] = []
    domain.input(domain.now_ns, lambda: made.append(domain.create_task(coro)))
    return made[0]


def test_who_takes_too_long_is_stopped_when_its_own_time_is_up() -> None:
    domain, deadlines, said = Domain(), Deadlines(10.0), list[str]()
    start(domain, work(deadlines, 3, said, "quick"))
    start(domain, work(deadlines, 30, said, "slow"))
    run(domain, 5)
    start(domain, work(deadlines, 30, said, "slow and later"))
    start(domain, work(deadlines, 9, said, "just in time"))
    run(domain, 9.9)
    assert said == ["quick done"]
    run(domain, 10)
    assert said == ["quick done", "slow late"]
    run(domain, 60)
    assert said == ["quick done", "slow late", "just in time done", "slow and later late"]
    assert domain.next_deadline_ns() is None


def test_a_stop_by_somebody_else_is_not_taken_for_a_deadline() -> None:
    domain, deadlines, said = Domain(), Deadlines(10.0), list[str]()
    task = start(domain, work(deadlines, 30, said, "one"))
    domain.input(5 * S, task.cancel)
    assert said == ["one stopped"]


def test_who_was_answered_is_not_held_on_to() -> None:
    domain, deadlines, said = Domain(), Deadlines(10.0), list[str]()
    for number in range(100):
        start(domain, work(deadlines, 0.01, said, str(number)))
    run(domain, 1)
    assert len(said) == 100
    assert not deadlines._waiting
