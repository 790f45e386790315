"""Runs on several cores: worker processes forked from this one; results come in the order of the jobs."""

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

# Jobs queued per worker: enough that none is idle, few enough that stopping is quick.
AHEAD = 3


class WorkerDied(Exception):
    """A worker process died; the message is one line. Most likely it was killed: out of memory."""


class WorkerPool:
    """`workers` 1: everything runs in this process."""

    def __init__(self, workers: int, scenarios: Mapping[str, Scenario]) -> None:
        self._scenarios = scenarios
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        genesis_of(Engine)  # Every run needs it: made here, once, and not in each worker.
        if workers > 1:
            # Forked, so that a patch that was loaded here is active there too.
            context = multiprocessing.get_context("fork")
            self._pool = ProcessPoolExecutor(
                workers, mp_context=context, initializer=_start, initargs=(scenarios,)
            )

    def each(self, work: Work[Asked, Answer], jobs: Iterable[Asked]) -> Iterator[Answer]:
        if self._pool is None:
            for job in jobs:
                yield work(self._scenarios, job)
            return
        waiting: deque[Future[Answer]] = deque()
        try:
            for job in jobs:
                waiting.append(self._pool.submit(_run, work, job))
                if len(waiting) >= AHEAD * self._workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise WorkerDied("a worker process died: perhaps it was killed for lack of memory") from None

    def __enter__(self) -> WorkerPool:
        if self._pool is None:
            freeze()
        return self

    def __exit__(self, *how: object) -> None:
        """Ends the workers at once: results still in progress are not needed."""
        if self._pool is not None:
            for worker in list((self._pool._processes or {}).values()):
                worker.terminate()
            self._pool.shutdown(wait=True, cancel_futures=True)
        else:
            gc.unfreeze()


_SCENARIOS: dict[str, Scenario] = {}  # Of a worker process; set once, when it starts.


def _start(scenarios: Mapping[str, Scenario]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; only the parent handles it.
    _SCENARIOS.update(scenarios)
    freeze()


def _run(work: Work[Asked, Answer], job: Asked) -> Answer:
    answer = work(_SCENARIOS, job)
    gc.freeze()  # What is left after a run is remembered for the next ones: collections need not look at it.
    return answer


def freeze() -> None:
    """Loaded objects stay: garbage collection between runs need not look at them again."""
    gc.collect()
    gc.freeze()
