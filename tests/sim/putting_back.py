"""A bug of the zoo, put back in a child of this process: a patch cannot be taken back."""

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
PATIENCE_S = 300.0


def in_a_child(bug: str, work: Callable[[], T]) -> T:
    """What the work says with the bug in place."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_put_back, args=(ZOO / f"{bug}.py", work, theirs))
    child.start()
    theirs.close()
    try:
        assert ours.poll(PATIENCE_S), f"{bug}: no answer"
        found: T = ours.recv()
        return found
    finally:
        child.kill()
        child.join()


def _put_back(file: Path, work: Callable[[], Any], answer: Connection) -> None:
    load(file)
    answer.send(work())
