"""Somebody else does something while a client waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """The work begins a moment after the block and has ended when the block ends. A thread that waits for an
    answer while its client is closed would read from a number that another connection gets next."""
    other = threading.Timer(0.2, work)
    other.start()
    try:
        yield
    finally:
        other.join()
