"""A bug of the zoo, put back in a process of its own: a patch cannot be taken back.

The process is forked from a clean one, not from ours: a copy of a process with threads, as other tests leave
them, may wait for ever on a lock that a thread held.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from fathom.sim import zoo
from fathom.sim.search.patches import load

T = TypeVar("T")

ZOO = Path(zoo.__file__).parent
PATIENCE_S = 1500.0  # A bug that shows seldom takes hundreds of runs, on a busy machine.


def in_a_child(bug: str, work: Callable[..., T], *args: Any) -> T:
    """What the work, a function of a module, says with the bug in place."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "fathom.sim.scenarios"])
    ours, theirs = context.Pipe()
    child = context.Process(target=_put_back, args=(ZOO / f"{bug}.py", work, args, theirs))
    child.start()
    theirs.close()
    try:
        assert ours.poll(PATIENCE_S), f"{bug}: no answer"
        found: T = ours.recv()
        return found
    finally:
        child.kill()
        child.join()


def _put_back(file: Path, work: Callable[..., Any], args: tuple[Any, ...], answer: Connection) -> None:
    load(file)
    answer.send(work(*args))
