"""A progress line that is rewritten in place, if stderr is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from fathom.terminal import rewrite_line

if TYPE_CHECKING:
    from fathom.sim.search.summary import ExploreSummary

BAR = 20  # Characters.
TICK_S = 0.5


@contextmanager
def live_line(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line on stderr if that is a terminal; elsewhere nothing is shown."""
    enabled = not quiet and sys.stderr.isatty()

    def tell(line: str) -> None:
        if enabled:
            rewrite_line(line)

    try:
        yield tell
    finally:
        if enabled:
            rewrite_line("")


@contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[None]:
    """'what: 7 s', counted by a thread of its own, while something takes its time."""
    with live_line(quiet=quiet) as tell:
        over, began_s = Event(), time.monotonic()

        def count() -> None:
            while not over.wait(TICK_S):
                tell(f"{what}: {time.monotonic() - began_s:.0f} s")

        thread = Thread(target=count, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@contextmanager
def exploring(total: int | None, *, quiet: bool) -> Iterator[Callable[[ExploreSummary], None]]:
    with live_line(quiet=quiet) as tell:
        yield lambda summary: tell(progress_text(summary, total))


def progress_text(summary: ExploreSummary, total: int | None) -> str:
    """`total` None: the total is unknown."""
    done = f"{bar(summary.runs, total)} {summary.runs:,}/{total:,}" if total else f"{summary.runs:,}"
    reach = f"{len(summary.coverage)} fault × request  {len(summary.reached)} states"
    rare = f"{len(summary.hits)} rare paths"
    return f"{done} runs  {summary.runs_per_s:,.1f}/s  {len(summary.violations)} violations  {reach}  {rare}"


def bar(done: int, total: int) -> str:
    full = BAR * min(done, total) // total
    return f"[{'█' * full}{'·' * (BAR - full)}]"


@contextmanager
def counting(total: int, noun: str, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    with live_line(quiet=quiet) as tell:
        yield lambda done: tell(f"{bar(done, total)} {done:,}/{total:,} {noun}")
