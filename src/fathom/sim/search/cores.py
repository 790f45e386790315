"""Runs on several cores: worker processes that share what was loaded here, and answers in the order asked."""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from fathom.sim.world.engine import Engine
from fathom.sim.world.initial_cluster import genesis_of
from fathom.sim.world.scenario import Scenario

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Work = Callable[[Mapping[str, Scenario], Asked], Answer]

# What each worker has waiting: enough that none is idle, little enough that stopping is quick.
AHEAD = 3


class WorkerDied(Exception):
    """One line. Killed from outside, most likely: out of memory."""


class WorkerPool:
    """`workers` 1: no process but this one."""

    def __init__(self, workers: int, scenarios: Mapping[str, Scenario]) -> None:
        self._scenarios = scenarios
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        genesis_of(Engine)  # What every run needs is made here, once, and not in each worker.
        if workers > 1:
            # Forked, so that a patch that was loaded here is in force there too.
            context = multiprocessing.get_context("fork")
            self._pool = ProcessPoolExecutor(
                workers, mp_context=context, initializer=_start, initargs=(scenarios,)
            )

    def each(self, work: Work[Asked, Answer], asked: Iterable[Asked]) -> Iterator[Answer]:
        if self._pool is None:
            for one in asked:
                yield work(self._scenarios, one)
            return
        waiting: deque[Future[Answer]] = deque()
        try:
            for one in asked:
                waiting.append(self._pool.submit(_run, work, one))
                if len(waiting) >= AHEAD * self._workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise WorkerDied("a worker process died: was it killed, for want of memory?") from None

    def __enter__(self) -> WorkerPool:
        if self._pool is None:
            freeze()
        return self

    def __exit__(self, *how: object) -> None:
        """At once: what is still under way is of no interest to anybody."""
        if self._pool is not None:
            for worker in list((self._pool._processes or {}).values()):
                worker.terminate()
            self._pool.shutdown(wait=True, cancel_futures=True)
        else:
            gc.unfreeze()


_SCENARIOS: dict[str, Scenario] = {}  # Of a worker process; set once, when it starts.


def _start(scenarios: Mapping[str, Scenario]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; it is for the one who asked to answer.
    _SCENARIOS.update(scenarios)
    freeze()


def _run(work: Work[Asked, Answer], one: Asked) -> Answer:
    return work(_SCENARIOS, one)


def freeze() -> None:
    """What is loaded now stays: sweeping between runs need not look at it again."""
    gc.collect()
    gc.freeze()
