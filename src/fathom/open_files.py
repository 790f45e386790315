"""The limit of open files of this process: raised to the hard limit.

Shells set 1,024, a habit from the days of select(), and a connection is a file too. Pods get the limit that
we were started with.
"""

from __future__ import annotations

import contextlib
import resource

_started_with: list[int] = []


def take_all() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    _started_with[:] = _started_with or [soft]
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # Then the old limit stays.
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def given() -> int:
    """The limit that this process was started with."""
    return _started_with[0] if _started_with else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
