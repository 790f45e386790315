"""While a world runs, calls of real clocks, randomness, sockets and threads raise, and their stack is kept.

A world's processes share one interpreter, so a call of `time.time()` anywhere would make two runs of a seed
differ. The Domain blocks those of asyncio; this module blocks the others: clocks, randomness, sockets,
threads, child processes. What cannot be replaced at run time (`datetime.now`, a name that was imported from
its module before) is kept out of the packages by the repository's lint instead.
"""

from __future__ import annotations

import os
import random
import secrets
import socket
import subprocess
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fathom.seams.domain import NotHere

# Owner, and its functions that are blocked while a world runs.
DOORS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (time, ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep")),
    (
        random,
        (
            *("random", "randrange", "randint", "randbytes", "getrandbits", "seed", "uniform", "gauss"),
            *("choice", "choices", "sample", "shuffle", "expovariate", "normalvariate", "triangular"),
        ),
    ),
    (secrets, ("token_bytes", "token_hex", "token_urlsafe", "choice", "randbelow", "randbits")),
    (os, ("urandom", "getrandom", "fork", "system")),
    (uuid, ("uuid1", "uuid4")),
    (socket, ("create_connection", "create_server", "getaddrinfo", "gethostbyname")),
    (socket.socket, ("__init__",)),
    (threading.Thread, ("start",)),
    (subprocess.Popen, ("__init__",)),
)

# A stack this deep shows the caller; the rest is the event loop.
FRAMES_MAX = 12


class SideDoor(NotHere):
    """Code under test used the outside world directly, not through its Seam."""


@contextmanager
def shut(seen: Callable[[str, str], None]) -> Iterator[None]:
    """`seen` is called for every attempt, with its name and stack, because the caller may swallow the
    exception. Other threads of the interpreter are not affected."""
    owner = threading.get_ident()
    originals = [(module, name, getattr(module, name)) for module, names in DOORS for name in names]
    try:
        for module, name, original in originals:
            setattr(module, name, _blocked(module, name, original, owner, seen))
        yield
    finally:
        for module, name, original in originals:
            setattr(module, name, original)


def _blocked(module: Any, name: str, original: Any, owner: int, seen: Callable[[str, str], None]) -> Any:
    qualified_name = f"{module.__name__}.{name}".removesuffix(".__init__")

    def raises(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != owner:
            return original(*args, **kwargs)
        stack = "".join(traceback.format_stack()[:-1][-FRAMES_MAX:])
        seen(qualified_name, stack)
        raise SideDoor(f"{qualified_name} is not available to deciding code: go through a seam")

    return raises
