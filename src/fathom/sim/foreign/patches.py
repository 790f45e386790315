"""How calls of the standard library reach the machine of the foreign process that makes them.

Functions are replaced once, for the rest of the interpreter's life, by ones that ask who is calling: only a
foreign process notices. A module that imported a name before (`from time import monotonic`) keeps a reference
of its own; those are replaced too, module by module.
"""

from __future__ import annotations

import _thread
import _threading_local
import asyncio
import atexit
import builtins
import concurrent.futures
import ctypes
import faulthandler
import gc
import getpass
import multiprocessing.connection
import multiprocessing.context
import multiprocessing.process
import os
import platform
import queue
import random
import secrets
import select
import selectors
import signal
import socket
import ssl
import sys
import tempfile
import threading
import time
import uuid
from _thread import get_ident
from datetime import datetime
from types import FunctionType, ModuleType
from typing import Any

import numpy.random
import uvloop

from fathom.sim.foreign import answers, native_clients, processes, service_account
from fathom.sim.foreign.sockets import ForeignSocket
from fathom.sim.world.outside_guard import lenient, original_of, replace_for_good, watch

_TIME = ("time", "monotonic", "perf_counter", "process_time", "thread_time")

REPLACED: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (time, (*_TIME, *(f"{name}_ns" for name in _TIME))),
    (time, ("clock_gettime", "clock_gettime_ns")),
    (time, ("sleep", "gmtime", "localtime", "mktime", "strftime", "ctime", "asctime")),
    (random, answers.OF_RANDOM),
    (random.Random, ("seed",)),
    (numpy.random, answers.OF_NUMPY),
    (os, ("times", "getloadavg")),
    (secrets, ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "randbits")),
    (os, ("urandom", "getrandom", "getpid", "getppid", "cpu_count", "kill", "killpg", "uname")),
    (os, ("_exit", "abort", "read", *processes.STARTERS)),
    (multiprocessing, (*processes.LOCKS, *processes.QUEUES)),
    (multiprocessing.context.BaseContext, (*processes.LOCKS, *processes.QUEUES)),
    (multiprocessing.connection, ("wait",)),
    (os, service_account.CALLS_WITH_A_PATH),
    (builtins, ("open",)),
    (ssl.SSLContext, ("wrap_socket", "wrap_bio", "load_verify_locations")),
    (uuid, ("uuid1", "uuid4", "getnode")),
    (socket, ("gethostname", "getfqdn", "getaddrinfo", "gethostbyname", "socketpair")),
    (socket, ("getdefaulttimeout", "setdefaulttimeout")),
    (platform, ("node",)),
    (tempfile, ("gettempdir", "gettempdirb", "_get_candidate_names")),
    (getpass, ("getuser",)),
    (select, ("poll", "epoll", "select")),
    (faulthandler, answers.OF_FAULTHANDLER),
    (multiprocessing.process.BaseProcess, ("start",)),
    (threading, ("Lock", "RLock", "current_thread", "main_thread", "get_ident", "get_native_id")),
    (threading, ("enumerate", "active_count")),
    (threading.Thread, ("start", "join", "is_alive")),
    (queue, ("SimpleQueue",)),
    (signal, ("pause", "sigwait", "sigwaitinfo", "sigtimedwait", "pthread_sigmask")),
    (signal, ("signal", "getsignal", "set_wakeup_fd", "pthread_kill", "raise_signal", "alarm", "setitimer")),
    (asyncio, ("new_event_loop", "get_event_loop", "set_event_loop", "as_completed")),
    (uvloop, ("new_event_loop", "run")),
    (_thread, ("start_new_thread",)),
    (atexit, ("register", "unregister")),
)

# Packages whose own references are left alone: the world's, the test runner's, and the interpreter's own.
LEFT_ALONE = (
    "fathom",
    "_pytest",
    "pytest",
    "xdist",
    "execnet",
    "pluggy",
    "importlib",
    "_frozen_importlib",
    "_thread",
    "greenlet",
)

_by_original: dict[int, tuple[Any, Any]] = {}  # id of the original -> the original, its replacement
_seen: set[str] = set()  # Names of modules whose references were replaced.


def install() -> None:
    """Called at each start of a foreign process: the first call replaces, later ones look at new modules."""
    if not _by_original:
        for owner, names in REPLACED:
            for name in names:
                _replace(owner, name)
        _replace_clock_of_datetime()
        _replace_new_of_socket()
        _replace_local()
        _replace_hashes()
        native_clients.install()
        selectors.PollSelector._selector_cls = staticmethod(select.poll)  # type: ignore[attr-defined]
        selectors.EpollSelector._selector_cls = staticmethod(select.epoll)  # type: ignore[attr-defined]
    new = [name for name in list(sys.modules) if name not in _seen]
    for name in new:
        _seen.add(name)
        module = sys.modules.get(name)
        if isinstance(module, ModuleType) and name.partition(".")[0] not in LEFT_ALONE:
            _replace_references(module)


def _replace(owner: Any, name: str) -> None:
    original = original_of(owner, name)
    prefix = f"{owner.__module__}.{owner.__name__}" if isinstance(owner, type) else owner.__name__
    replacement = lenient(f"{prefix}.{name}", original)
    replace_for_good(owner, name, replacement)
    if isinstance(owner, ModuleType):
        _by_original[id(original)] = (original, replacement)
    for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if original in able:
            able.add(replacement)


def _replace_references(module: ModuleType) -> None:
    names = module.__dict__
    for name, value in list(names.items()):
        if id(value) in _by_original:
            names[name] = _replacement_of(value)
        elif isinstance(value, FunctionType | type) and value.__module__ == module.__name__:
            _replace_defaults(value)


def _replacement_of(value: Any) -> Any:
    original, replacement = _by_original.get(id(value), (None, None))
    return replacement if original is value else value


def _replace_defaults(of: Any) -> None:
    """`def __init__(self, timer=time.monotonic)`: of a function, or of the methods of a class."""
    functions = [of] if isinstance(of, FunctionType) else vars(of).values()
    for function in functions:
        defaults = function.__defaults__ if isinstance(function, FunctionType) else None
        if defaults and any(id(value) in _by_original for value in defaults):
            function.__defaults__ = tuple(map(_replacement_of, defaults))


def _replace_local() -> None:
    """The C implementation keeps its values by threads of the operating system; this one asks `threading`
    for the current thread."""
    _by_original[id(threading.local)] = (threading.local, _threading_local.local)
    threading.local = _threading_local.local  # type: ignore[assignment]


def _replace_hashes() -> None:
    """Threads and futures are kept in sets: `concurrent.futures.wait` returns two. Their order follows from
    addresses, which differ between runs; in a foreign process from who was hashed first."""
    for of in (threading.Thread, concurrent.futures.Future):
        of.__hash__ = _hash  # type: ignore[method-assign,assignment]


def _hash(of: Any) -> int:
    """The same for the object's whole life, whoever asks later."""
    known: int | None = of.__dict__.get("_fathom_hash")
    if known is None:
        visitor = watch.visitor if watch.owner == get_ident() else None
        known = object.__hash__(of) if visitor is None else visitor.next_hash()  # type: ignore[attr-defined]
        of.__dict__["_fathom_hash"] = known
    return known


def _replace_clock_of_datetime() -> None:
    """`datetime.now` reads the clock in C, and the class cannot be changed by assignment; its dictionary can.
    The class stays the same object, so every module that imported it before is served too."""
    names = gc.get_referents(datetime.__dict__)[0]
    real_now, real_utcnow = names["now"], names["utcnow"]

    def now(cls: type[datetime], tz: Any = None) -> datetime:
        if watch.visitor is None or watch.owner != get_ident():
            return real_now.__get__(None, cls)(tz)  # type: ignore[no-any-return]
        return answers.now(watch.visitor, tz)  # type: ignore[arg-type]  # a visitor is a machine

    def utcnow(cls: type[datetime]) -> datetime:
        if watch.visitor is None or watch.owner != get_ident():
            return real_utcnow.__get__(None, cls)()  # type: ignore[no-any-return]
        return answers.now(watch.visitor, None)  # type: ignore[arg-type]

    names["now"], names["utcnow"] = classmethod(now), classmethod(utcnow)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))


def _replace_new_of_socket() -> None:
    """In a foreign process `socket.socket(...)` makes a virtual one."""
    real_new = socket.socket.__new__

    def new(cls: type[socket.socket], *args: Any, **kwargs: Any) -> socket.socket:
        if cls is socket.socket and watch.visitor is not None and watch.owner == get_ident():
            return ForeignSocket.__new__(ForeignSocket)
        return real_new(cls, *args, **kwargs)

    socket.socket.__new__ = staticmethod(new)  # type: ignore[method-assign,assignment]
