"""What calls of the standard library return in a foreign process: a table by name, one function each.

Clocks are the Domain's, randomness is a stream of the process alone, names are the same on every machine.
What has no answer that two runs would share is refused, with what to do instead.
"""

from __future__ import annotations

import asyncio
import calendar
import os
import random
import re
import select
import signal
import tempfile
import threading
import time
import uuid
from asyncio import events
from collections.abc import Callable
from concurrent.futures import thread as executor_thread
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

import numpy
import numpy.random

from fathom.sim.foreign import (
    commands,
    interpreter_end,
    locks,
    native_clients,
    processes,
    service_account,
    sockets,
    tls,
)
from fathom.sim.foreign.threads import current_thread
from fathom.sim.world.outside_guard import refuse

if TYPE_CHECKING:
    from fathom.sim.foreign.machine import Machine

Answer = Callable[["Machine", Any, tuple[Any, ...], dict[str, Any]], Any]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# 100 ns since 1582-10-15, for version 1 of UUIDs (RFC 9562).
GREGORIAN_100NS = 0x01B21DD213814000

ADDRESS = re.compile(r"0x[0-9a-f]+")

CORES = 4
NODE = 0x02_00_00_00_00_01
TO_DO_PROCESS = (
    "a simulated process cannot start a real one. Call the code as a function, or replace it in the test"
)
TO_DO_CHILD = (
    "a simulated process cannot start a real one. Use threads here, which take the same calls: "
    "multiprocessing.pool.ThreadPool, concurrent.futures.ThreadPoolExecutor"
)
TO_DO_THREAD = "start it with threading.Thread or an executor: those run in virtual time"
TO_DO_ALARM = "use threading.Timer, or a timeout of the event loop: those are in virtual time"
TO_DO_SIGNAL = "use signal.signal with a handler, signal.pause or signal.sigwait"
TO_DO_SOCKET = (
    "only connections to the API server exist, by socket.socket, asyncio or a library on top of them"
)


def wall_ns(machine: Machine) -> int:
    machine.clock_read()
    return machine.inside.outside.clock.now_ns()


def monotonic_ns(machine: Machine) -> int:
    machine.clock_read()
    return machine.domain.now_ns


def now(machine: Machine, tz: tzinfo | None) -> datetime:
    moment = EPOCH + timedelta(microseconds=wall_ns(machine) // 1000)
    return moment.replace(tzinfo=None) if tz is None else moment.astimezone(tz)


def _gmtime(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    """Local time is UTC, as in a container."""
    seconds = args[0] if args and args[0] is not None else wall_ns(machine) / 1e9
    return _REAL_GMTIME(seconds)


def _strftime(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    return original(args[0], args[1] if len(args) > 1 else _REAL_GMTIME(wall_ns(machine) / 1e9))


def _ctime(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    return _REAL_ASCTIME(_gmtime(machine, original, args, kwargs))


def _mktime(machine: Machine, original: Any, args: Any, kwargs: Any) -> float:
    return float(calendar.timegm(args[0]))


_REAL_GMTIME, _REAL_ASCTIME = time.gmtime, time.asctime


def _seed(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    """`random.Random()` seeds itself from the operating system; here from the process's stream."""
    generator, *rest = args
    given = rest[0] if rest else kwargs.get("a")
    if given is None and not isinstance(generator, random.SystemRandom):
        given = machine.rng.getrandbits(128)
    return original(generator, given, *rest[1:])


def _temporary_names(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    """The interpreter has one sequence, which would go on where an earlier run left it."""
    if machine.temporary_names is None:
        machine.temporary_names = tempfile._RandomNameSequence()  # type: ignore[attr-defined]
    return machine.temporary_names


def _of_numpy(name: str) -> Answer:
    """`numpy.random.rand` and its like share one hidden generator, as those of `random` do."""

    def drawn_by_numpy(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
        if machine.numpy_rng is None:
            machine.numpy_rng = numpy.random.RandomState(machine.rng.getrandbits(32))
        return getattr(machine.numpy_rng, name)(*args, **kwargs)

    return drawn_by_numpy


def _asctime(machine: Machine, original: Any, args: Any, kwargs: Any) -> str:
    return str(original(*(args or (_gmtime(machine, None, (), {}),))))


def _times(machine: Machine) -> os.times_result:
    seconds = monotonic_ns(machine) / 1e9
    return os.times_result((seconds, 0.0, 0.0, 0.0, seconds))


def _uuid1(machine: Machine, original: Any, args: Any, kwargs: Any) -> uuid.UUID:
    stamp = wall_ns(machine) // 100 + GREGORIAN_100NS
    low, middle, high = stamp & 0xFFFFFFFF, stamp >> 32 & 0xFFFF, stamp >> 48 & 0x0FFF
    sequence = machine.rng.getrandbits(14)
    fields = (low, middle, high, sequence >> 8 & 0x3F, sequence & 0xFF, NODE)
    return uuid.UUID(fields=fields, version=1)


# Threads.


def _start(machine: Machine, original: Any, args: Any, kwargs: Any) -> None:
    shown: threading.Thread = args[0]
    if getattr(shown, "_foreign", None) is not None:
        raise RuntimeError("threads can only be started once")
    machine.start_thread(shown)
    # A real start waits until the thread runs, and some code spins until it has done something. But an
    # executor starts its threads under a lock that all of them share: nothing may wait there.
    if getattr(shown, "_target", None) is not executor_thread._worker and current_thread() is not None:
        machine.sleep(0)


def _join(machine: Machine, original: Any, args: Any, kwargs: Any) -> None:
    shown, *rest = args
    timeout = rest[0] if rest else kwargs.get("timeout")
    thread = getattr(shown, "_foreign", None)
    if thread is None:
        raise RuntimeError("cannot join thread before it is started")
    machine.join(thread, timeout)


def _is_alive(machine: Machine, original: Any, args: Any, kwargs: Any) -> bool:
    thread = getattr(args[0], "_foreign", None)
    return thread is not None and not thread.over


def _shown(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    thread = current_thread() or machine.main
    return original() if thread is None else thread.shown


def _main_shown(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    return original() if machine.main is None else machine.main.shown


def _ident(machine: Machine, original: Any, args: Any, kwargs: Any) -> int:
    thread = current_thread()
    return thread.number if thread is not None else 0


def _threads(machine: Machine, original: Any, args: Any, kwargs: Any) -> list[Any]:
    return [thread.shown for thread in machine.threads]


# Signals.


def _signal(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    number, handler = signal.Signals(args[0]), args[1]
    before = machine.signals.get(number, signal.SIG_DFL)
    if handler is signal.SIG_DFL:
        machine.signals.pop(number, None)
    else:
        machine.signals[number] = handler
    return before


def _getsignal(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    number = signal.Signals(args[0])
    default = signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL
    return machine.signals.get(number, default)


def _kill(machine: Machine, original: Any, args: Any, kwargs: Any) -> None:
    if args[0] != machine.pid:
        raise ProcessLookupError(3, "No such process")
    machine.receive(signal.Signals(args[1]))


def _pthread_kill(machine: Machine, original: Any, args: Any, kwargs: Any) -> None:
    machine.receive(signal.Signals(args[1]))


def _raise_signal(machine: Machine, original: Any, args: Any, kwargs: Any) -> None:
    machine.receive(signal.Signals(args[0]))


def _sigmask(machine: Machine, original: Any, args: Any, kwargs: Any) -> set[signal.Signals]:
    how, mask = args
    before, named = set(machine.blocked), {signal.Signals(number) for number in mask}
    machine.blocked = (
        before | named if how == signal.SIG_BLOCK
        else before - named if how == signal.SIG_UNBLOCK
        else named
    )  # fmt: skip
    return before


def _clock_ns(machine: Machine, clock: int) -> int:
    return wall_ns(machine) if clock == time.CLOCK_REALTIME else monotonic_ns(machine)


def _read(machine: Machine, original: Any, args: Any, kwargs: Any) -> bytes:
    """Of a pipe or another file of the system that has nothing to read, such as inotify's: wait in virtual
    time. Only the program itself can fill a pipe here."""
    while current_thread() is not None and not _REAL_SELECT([args[0]], [], [], 0)[0]:
        machine.sleep(READ_AGAIN_S)
    return original(*args, **kwargs)  # type: ignore[no-any-return]


_REAL_SELECT = select.select
READ_AGAIN_S = 1.0


def _exit(machine: Machine, original: Any, args: Any, kwargs: Any) -> None:
    machine.exit(SystemExit(args[0] if args else 134))


def _new_loop(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    from fathom.sim.foreign.event_loop import ForeignLoop  # noqa: PLC0415 - it imports this module's users

    loop = ForeignLoop(machine)
    machine.loops.append(loop)
    return loop


def _get_loop(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    loop, thread = events._get_running_loop(), current_thread()
    if loop is not None or thread is None:
        return loop
    if thread.own_loop is None:
        if thread is not machine.main:
            raise RuntimeError(f"There is no current event loop in thread {thread.shown.name!r}.")
        thread.own_loop = _new_loop(machine, original, args, kwargs)
    return thread.own_loop


def _set_loop(machine: Machine, original: Any, args: Any, kwargs: Any) -> None:
    thread = current_thread()
    if thread is not None:
        thread.own_loop = args[0]


def _as_completed(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    """A set of coroutines is in the order of their addresses, which differ between runs: start them in an
    order that follows from what they do."""
    futures, *rest = args
    if isinstance(futures, set | frozenset):
        futures = [asyncio.ensure_future(future) for future in sorted(futures, key=_what_it_does)]
    return original(futures, *rest, **kwargs)


def _what_it_does(work: Any) -> tuple[int, str, str]:
    frame = getattr(work, "cr_frame", None)
    if frame is None:
        return (hash(work) if isinstance(work, asyncio.Future) else 0, "", "")
    return (
        0,
        work.__qualname__,
        ADDRESS.sub("", repr(sorted(frame.f_locals.items(), key=lambda item: item[0]))),
    )


# The table.


def passed(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    """The original is built from calls that are answered themselves."""
    return original(*args, **kwargs)


def refused(name: str, to_do: str) -> Answer:
    def refuses(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
        raise refuse(name, to_do)

    return refuses


def constant(value_of: Callable[[Machine], Any]) -> Answer:
    return lambda machine, original, args, kwargs: value_of(machine)


def drawn(name: str) -> Answer:
    return lambda machine, original, args, kwargs: getattr(machine.rng, name)(*args, **kwargs)


# What they write comes from C, into a real file.
OF_FAULTHANDLER = (
    *("enable", "register", "dump_traceback", "dump_traceback_later"),
    "cancel_dump_traceback_later",
)
# The functions of `random` that share one hidden generator: methods of its class. Not what the module holds
# now: this may be imported while a world runs, which has replaced them.
OF_RANDOM = tuple(name for name in random.__all__ if hasattr(random.Random, name))
# Those of `numpy.random`, likewise. numpy is imported here: it draws its first seed when it is imported.
OF_NUMPY = tuple(
    name
    for name in numpy.random.__all__
    if name == "seed"
    or isinstance(getattr(getattr(numpy.random, name), "__self__", None), numpy.random.RandomState)
)

ANSWERS: dict[str, Answer] = {
    "time.time": constant(lambda machine: wall_ns(machine) / 1e9),
    "time.time_ns": constant(wall_ns),
    **{
        f"time.{name}": constant(lambda machine: monotonic_ns(machine) / 1e9)
        for name in ("monotonic", "perf_counter", "process_time", "thread_time")
    },
    **{
        f"time.{name}_ns": constant(monotonic_ns)
        for name in ("monotonic", "perf_counter", "process_time", "thread_time")
    },
    "time.clock_gettime": lambda machine, original, args, kwargs: _clock_ns(machine, args[0]) / 1e9,
    "time.clock_gettime_ns": lambda machine, original, args, kwargs: _clock_ns(machine, args[0]),
    "time.sleep": lambda machine, original, args, kwargs: machine.sleep(args[0]),
    "time.gmtime": _gmtime,
    "time.localtime": _gmtime,
    "time.mktime": _mktime,
    "time.strftime": _strftime,
    "time.ctime": _ctime,
    "time.asctime": _asctime,
    **{f"random.{name}": drawn(name) for name in OF_RANDOM},
    "random.Random.seed": _seed,
    **{
        f"secrets.{name}": passed
        for name in ("token_bytes", "token_hex", "token_urlsafe", "choice", "randbelow", "randbits")
    },
    **{f"numpy.random.{name}": _of_numpy(name) for name in OF_NUMPY},
    "os.times": constant(_times),
    "os.getloadavg": constant(lambda machine: (0.0, 0.0, 0.0)),
    "os.urandom": lambda machine, original, args, kwargs: machine.rng.randbytes(*args),
    "os.getrandom": lambda machine, original, args, kwargs: machine.rng.randbytes(args[0]),
    "os.getpid": constant(lambda machine: machine.pid),
    "os.getppid": constant(lambda machine: 1),
    "os.cpu_count": constant(lambda machine: CORES),
    "os.kill": _kill,
    **{f"os.{name}": refused(f"os.{name}", TO_DO_PROCESS) for name in processes.STARTERS},
    **{f"multiprocessing.{name}": processes.of_threading(name) for name in processes.LOCKS},
    **{
        f"multiprocessing.context.BaseContext.{name}": processes.of_context(processes.of_threading(name))
        for name in processes.LOCKS
    },
    **{
        f"multiprocessing.{name}": processes.new_pool_queue if name == "SimpleQueue" else processes.new_queue
        for name in processes.QUEUES
    },
    **{
        f"multiprocessing.context.BaseContext.{name}": processes.of_context(
            processes.new_pool_queue if name == "SimpleQueue" else processes.new_queue
        )
        for name in processes.QUEUES
    },
    "multiprocessing.process.BaseProcess.start": refused("multiprocessing.Process.start", TO_DO_CHILD),
    **{name: refused(name, native_clients.TO_DO) for name in native_clients.NAMES},
    "multiprocessing.connection.wait": processes.wait,
    "os.uname": lambda machine, original, args, kwargs: os.uname_result(
        ("Linux", machine.name, "6.1.0", "#1", "x86_64")
    ),
    "subprocess.Popen": commands.popen,
    "_thread.start_new_thread": refused("_thread.start_new_thread", TO_DO_THREAD),
    "uuid.uuid1": _uuid1,
    "uuid.uuid4": passed,
    "uuid.getnode": constant(lambda machine: NODE),
    "socket.create_connection": passed,
    "socket.create_server": passed,
    "socket.gethostbyname": lambda machine, original, args, kwargs: machine.resolve_name(args[0]),
    "socket.getaddrinfo": lambda machine, original, args, kwargs: machine.getaddrinfo(*args, **kwargs),
    "socket.gethostname": constant(lambda machine: machine.name),
    "socket.getfqdn": constant(lambda machine: machine.name),
    "socket.getdefaulttimeout": constant(lambda machine: machine.socket_timeout_s),
    "socket.setdefaulttimeout": lambda machine, original, args, kwargs: setattr(
        machine, "socket_timeout_s", args[0]
    ),
    "socket.socket": refused("socket.socket", TO_DO_SOCKET),
    "socket.socketpair": refused("socket.socketpair", TO_DO_SOCKET),
    "tempfile._get_candidate_names": _temporary_names,
    "tempfile.gettempdir": constant(lambda machine: machine.temporary_folder()),
    "tempfile.gettempdirb": constant(lambda machine: os.fsencode(machine.temporary_folder())),
    "platform.node": constant(lambda machine: machine.name),
    "getpass.getuser": constant(lambda machine: "operator"),
    "select.epoll": lambda machine, original, args, kwargs: sockets.Epoll(machine),
    "select.poll": lambda machine, original, args, kwargs: sockets.Poll(machine),
    "select.select": lambda machine, original, args, kwargs: sockets.selected(machine, *args, **kwargs),
    "threading.Lock": lambda machine, original, args, kwargs: locks.Lock(),
    "threading.RLock": lambda machine, original, args, kwargs: locks.RLock(),
    "queue.SimpleQueue": lambda machine, original, args, kwargs: locks.SimpleQueue(),
    "threading.Thread.start": _start,
    "threading.Thread.join": _join,
    "threading.Thread.is_alive": _is_alive,
    "threading.current_thread": _shown,
    "threading.main_thread": _main_shown,
    "threading.get_ident": _ident,
    "threading.get_native_id": _ident,
    "threading.enumerate": _threads,
    "threading.active_count": constant(lambda machine: len(machine.threads)),
    "signal.signal": _signal,
    "signal.getsignal": _getsignal,
    "signal.pthread_kill": _pthread_kill,
    "signal.raise_signal": _raise_signal,
    "signal.pause": lambda machine, original, args, kwargs: machine.pause(),
    "signal.sigwait": lambda machine, original, args, kwargs: machine.wait_for_signal(set(args[0])),
    "signal.pthread_sigmask": _sigmask,
    "signal.sigwaitinfo": refused("signal.sigwaitinfo", TO_DO_SIGNAL),
    "signal.sigtimedwait": refused("signal.sigtimedwait", TO_DO_SIGNAL),
    "signal.alarm": refused("signal.alarm", TO_DO_ALARM),
    "signal.setitimer": refused("signal.setitimer", TO_DO_ALARM),
    "os.read": _read,
    "os._exit": _exit,
    "os.abort": _exit,
    **{f"faulthandler.{name}": constant(lambda machine: None) for name in OF_FAULTHANDLER},
    "atexit.register": interpreter_end.register,
    "atexit.unregister": interpreter_end.unregister,
    "os.killpg": _kill,
    "builtins.open": service_account.led,
    **{
        f"os.{name}": service_account.led
        for name in ("open", "stat", "lstat", "access", "listdir", "scandir")
    },
    "ssl.SSLContext.load_verify_locations": service_account.verify_locations,
    "ssl.SSLContext.wrap_socket": tls.wrap_socket,
    "ssl.SSLContext.wrap_bio": tls.wrap_bio,
    "signal.set_wakeup_fd": constant(lambda machine: -1),
    "asyncio.new_event_loop": _new_loop,
    "uvloop.new_event_loop": _new_loop,
    "uvloop.run": lambda machine, original, args, kwargs: asyncio.run(args[0], debug=kwargs.get("debug")),
    "asyncio.as_completed": _as_completed,
    "asyncio.get_event_loop": _get_loop,
    "asyncio.set_event_loop": _set_loop,
}
