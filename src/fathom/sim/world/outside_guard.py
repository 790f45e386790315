"""While a world runs, calls of real clocks, randomness, sockets and threads raise, and their stack is kept.

A world's processes share one interpreter, so a call of `time.time()` anywhere would make two runs of a seed
differ. The Domain blocks those of asyncio; this module blocks the others: clocks, randomness, sockets,
threads, child processes. What cannot be replaced at run time (`datetime.now`, a name that was imported from
its module before) is kept out of the packages by the repository's lint instead.

A foreign process (`sim/foreign`) was not written for a world. While it runs, it is the `visitor`, and its
calls get the answers of its own virtual machine instead.
"""

from __future__ import annotations

import multiprocessing.process  # noqa: F401 - draws a random number when it is imported: not while a world runs
import os
import random
import secrets
import socket
import subprocess
import threading
import time
import traceback
import uuid
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Protocol

import numpy.random  # noqa: F401 - draws random numbers when it is imported, likewise

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


class Visitor(Protocol):
    """A foreign process, while one of its inputs is handled."""

    def answer(self, name: str, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the call of `name`, for example 'time.time', returns in this process."""


class _Watch:
    """Who is guarded now. One for the interpreter: a world runs in one thread."""

    owner = 0  # The thread that runs a world; 0: none does.
    seen: Callable[[str, str], None] | None = None
    visitor: Visitor | None = None


watch = _Watch()


@contextmanager
def shut(seen: Callable[[str, str], None]) -> Iterator[None]:
    """`seen` is called for every attempt, with its name and stack, because the caller may swallow the
    exception. Other threads of the interpreter are not affected."""
    originals = {(module, name): getattr(module, name) for module, names in DOORS for name in names}
    before = watch.owner, watch.seen
    _behind_doors.append(originals)
    try:
        watch.owner, watch.seen = get_ident(), seen
        for (module, name), original in originals.items():
            setattr(module, name, _guarded(module, name, original))
        yield
    finally:
        watch.owner, watch.seen = before
        _behind_doors.pop()
        for (module, name), original in originals.items():
            setattr(module, name, original)


_behind_doors: list[dict[tuple[Any, str], Any]] = []  # What each `shut` under way will put back.


def original_of(owner: Any, name: str) -> Any:
    """The function, and not the guard that may stand before it while a world runs."""
    return (
        _behind_doors[0].get((owner, name), getattr(owner, name)) if _behind_doors else getattr(owner, name)
    )


def replace_for_good(owner: Any, name: str, replacement: Any) -> None:
    """Replace a function for the rest of the interpreter's life. While a world runs its guard stays, and
    answers foreign processes as the replacement does."""
    if not _behind_doors or (owner, name) not in _behind_doors[0]:
        setattr(owner, name, replacement)
        return
    _behind_doors[0][owner, name] = replacement


def name_of(module: Any, name: str) -> str:
    """(socket.socket, '__init__') -> 'socket.socket'"""
    owner = f"{module.__module__}.{module.__qualname__}" if isinstance(module, type) else module.__name__
    return f"{owner}.{name}".removesuffix(".__init__")


def refuse(name: str, to_do: str = "") -> SideDoor:
    """Report a call of `name` with its stack; returns the error for its caller to raise."""
    stack = "".join(traceback.format_stack()[:-2][-FRAMES_MAX:])
    if watch.seen is not None:
        watch.seen(name, f"{stack}What to do: {to_do}." if to_do else stack)
    if to_do:
        return SideDoor(f"{name} is not available in a simulated process: {to_do}")
    return SideDoor(f"{name} is not available to deciding code: go through a seam")


# (owner, name, id of the original) -> its guard. One for ever: a module that is imported while a world runs
# keeps what it imports, and must not keep the guard of that world alone.
_GUARDS: dict[tuple[int, str, int], Any] = {}


def _guarded(module: Any, name: str, original: Any) -> Any:
    key = (id(module), name, id(original))
    if key not in _GUARDS:
        _GUARDS[key] = (
            original if original in _GUARDS.values() else _new_guard(name_of(module, name), original)
        )
    return _GUARDS[key]


def _new_guard(qualified_name: str, original: Any) -> Any:
    @wraps(original)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if watch.owner != get_ident():
            return original(*args, **kwargs)
        if watch.visitor is not None:
            return watch.visitor.answer(qualified_name, original, args, kwargs)
        raise refuse(qualified_name)

    return guarded


def lenient(qualified_name: str, original: Any) -> Any:
    """A replacement for `original` that only a foreign process notices: everybody else gets the original."""

    @wraps(original)
    def lent(*args: Any, **kwargs: Any) -> Any:
        visitor = watch.visitor
        if visitor is None or watch.owner != get_ident():
            return original(*args, **kwargs)
        return visitor.answer(qualified_name, original, args, kwargs)

    return lent
