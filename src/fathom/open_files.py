"""How many files a part of ours may have open: as many as it may ask for. What shells give (1,024) is a habit
from the days of select(), and a connection is a file too. Pods get what we were given."""

from __future__ import annotations

import contextlib
import resource

_given: list[int] = []


def take_all() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    _given[:] = _given or [soft]
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # Then with those that we have.
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def given() -> int:
    """The limit before that."""
    return _given[0] if _given else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
