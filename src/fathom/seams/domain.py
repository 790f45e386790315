"""The Domain: the one event loop on which deciding code runs, live, simulated and replayed.

It is an asyncio loop whose only source of nondeterminism is the sequence of its inputs. `input(now, deliver)`
sets the clock, moves the timers that are due, delivers one input, runs callbacks first in first out until
nothing is left to run, and returns. The same code, the same seed and the same inputs give the same behaviour;
so a recording of the inputs is enough to replay the process.

    live        a pump on the host's loop calls `input`          (seams/host.py)
    simulated   the world calls it, in the order of its oracle
    replayed    the log calls it

Other ways to the outside (threads, sockets, executors, signals) raise `NotHere`. Sources of nondeterminism
that cannot be closed are made harmless: contexts begin empty, tasks hash by number, and garbage is collected
at moments that are inputs themselves (`collect`), because finalizers are behaviour too. The driver of a
Domain turns automatic collection off.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import heapq
import sys
import warnings
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar, TypeVarTuple, Unpack

import msgspec

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_get_running_loop, _set_running_loop = events._get_running_loop, events._set_running_loop

# A drain that runs longer is a loop that feeds itself. Counted, not timed: the same in a replay.
CALLBACKS_PER_INPUT_MAX = 1_000_000

# A bug that fails on every input must not fill the memory; the first failures are the most useful ones.
FAILURES_KEPT_MAX = 1000

TIMERS_UNSWEPT = 1000

# For `Domain.armed`: an odd factor, so that no time is ever lost from the checksum.
ARMED_FACTOR, ARMED_MASK = 1_000_003, (1 << 64) - 1

# For `sleep(inf)`: later than any process lives, and an integer.
FAR_NS = 1 << 62
FAR_S = FAR_NS / 1e9


class NotHere(RuntimeError):
    """Deciding code tried to reach the outside without a seam."""


class Runaway(RuntimeError):
    """One input caused more callbacks than any real one does."""


class DomainFuture(asyncio.Future[T]):
    """Hashes by number: asyncio keeps futures and tasks in sets, and addresses differ between runs."""

    _number = 0

    def __hash__(self) -> int:
        return self._number


class DomainTask(asyncio.Task[T]):
    _number = 0

    def __hash__(self) -> int:
        return self._number


class _Handle(msgspec.Struct, eq=False):
    """What call_soon and call_later return: asyncio's Handle and TimerHandle, without debugging. A Struct,
    because several are made for every input."""

    callback: Callable[..., object] | None  # None: cancelled.
    args: tuple[Any, ...]
    context: contextvars.Context
    when_ns: int = 0

    def cancel(self) -> None:
        self.callback, self.args = None, ()  # Frees the objects that they reference.

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.when_ns / 1e9

    def __repr__(self) -> str:
        """Without an address: failures may be recorded, and must read the same in a replay."""
        return f"<handle of {getattr(self.callback, '__qualname__', type(self.callback).__name__)}>"


def _ns(seconds: float) -> int:
    if seconds <= 0:
        return 0
    return round(seconds * 1e9) if seconds < FAR_S else FAR_NS


def _closed(name: str) -> Any:
    def closed(self: object, *args: object, **kwargs: object) -> Any:
        raise NotHere(f"loop.{name} is not available to deciding code: go through a seam")

    return closed


@contextmanager
def driving() -> Iterator[None]:
    """Around many `step`s: the driver's own running loop and hooks are restored once, at the end. Between two
    steps asyncio still sees the last Domain as the running loop."""
    outer, hooks = _get_running_loop(), sys.get_asyncgen_hooks()
    try:
        yield
    finally:
        sys.set_asyncgen_hooks(*hooks)
        _set_running_loop(outer)


class Domain(asyncio.AbstractEventLoop):
    def __init__(self, *, now_ns: int = 0) -> None:
        self.now_ns = now_ns  # Frozen while an input is being worked on; never goes back.
        self.epoch_ns = 0  # The wall clock when `now_ns` was 0; moves only by an input.
        self.inputs = 0
        self.callbacks = 0
        self.failed = 0  # How many failures there were; `failures` keeps the first of them.
        self.failures: list[dict[str, Any]] = []  # Errors of unawaited tasks and of callbacks.
        self._context = contextvars.Context()  # Empty: variables of the host are not visible here.
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[int, int, _Handle]] = []  # A heap of (when, order of arming, handle).
        self._timers_max = TIMERS_UNSWEPT
        self.armed = 0  # A checksum of the times of all timers that were ever set: a replay compares it.
        self._order = count(1).__next__
        self._number = count(1).__next__
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._tasks: dict[asyncio.Task[Any], None] = {}  # Strong: asyncio itself holds tasks weakly.
        self._inside = False

    # Inputs: the only way to make a Domain run.

    def input(self, now_ns: int, deliver: Callable[..., object] | None = None, *args: Any) -> int | None:
        """Deliver one input and run everything that follows from it. Without `deliver` only time has passed.
        Returns what `next_deadline_ns` does."""
        outer, hooks = _get_running_loop(), sys.get_asyncgen_hooks()
        try:
            return self.step(now_ns, deliver, *args)
        finally:
            sys.set_asyncgen_hooks(*hooks)
            _set_running_loop(outer)

    def step(self, now_ns: int, deliver: Callable[..., object] | None = None, *args: Any) -> int | None:
        """`input`, for a driver that delivers many of them within `driving`."""
        if self._inside:
            raise RuntimeError("an input cannot be delivered while another is being processed")
        _set_running_loop(self)
        sys.set_asyncgen_hooks(None, self._finish_generator)
        self._inside = True
        try:
            self.now_ns = max(self.now_ns, now_ns)
            self.inputs += 1
            timers = self._timers
            if timers and timers[0][0] <= self.now_ns:
                self._move_due()
            if deliver is not None:
                self._context.run(deliver, *args)
            if self._ready:
                self._drain()
        finally:
            self._inside = False
        timers = self._timers
        if not timers:
            return None
        return timers[0][0] if timers[0][2].callback is not None else self.next_deadline_ns()

    def collect(self, generation: int = 2) -> None:
        """Collect garbage. Delivered as an input, so that callbacks started by finalizers run within it."""
        gc.collect(generation)

    def next_deadline_ns(self) -> int | None:
        """When the earliest timer is due; the driver must deliver an input at that time."""
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    @property
    def is_busy(self) -> bool:
        """Whether callbacks wait to be run."""
        return bool(self._ready)

    def _move_due(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self.now_ns:
            handle = heapq.heappop(timers)[2]
            if handle.callback is not None:
                self._ready.append(handle)

    def _drain(self) -> None:
        ready, ran = self._ready, 0
        while ready:
            handle = ready.popleft()
            callback = handle.callback
            if callback is None:
                continue
            ran += 1
            if ran > CALLBACKS_PER_INPUT_MAX:
                raise Runaway(f"one input caused over {CALLBACKS_PER_INPUT_MAX} callbacks; next: {handle}")
            try:
                handle.context.run(callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # As asyncio: a callback's error is reported, and the rest go on.
                self.call_exception_handler({"message": f"Exception in {handle}", "exception": error})
        self.callbacks += ran

    # The interface that asyncio requires of a loop.

    def time(self) -> float:
        return self.now_ns / 1e9

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, contextvars.copy_context() if context is None else context)
        self._ready.append(handle)
        return handle  # type: ignore[return-value]  # the same to whoever cancels it

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        when_ns = self.now_ns + (round(delay * 1e9) if 0 < delay < FAR_S else _ns(delay))
        return self._at(when_ns, callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._at(max(self.now_ns, _ns(when)), callback, args, context)

    def _at(
        self,
        when_ns: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> asyncio.TimerHandle:
        handle = _Handle(callback, args, contextvars.copy_context() if context is None else context, when_ns)
        self.armed = (self.armed * ARMED_FACTOR ^ when_ns) & ARMED_MASK
        heapq.heappush(self._timers, (when_ns, self._order(), handle))
        if len(self._timers) > self._timers_max:
            self._sweep()
        return handle  # type: ignore[return-value]  # the same to whoever cancels it

    def _sweep(self) -> None:
        """Remove cancelled timers: most are cancelled long before they are due, and must not pile up."""
        self._timers = [timer for timer in self._timers if timer[2].callback is not None]
        heapq.heapify(self._timers)
        self._timers_max = max(TIMERS_UNSWEPT, 2 * len(self._timers))

    def private_future(self) -> asyncio.Future[Any]:
        """A cheaper future, which hashes by its address: only for a caller that awaits it itself and passes
        it to no other code."""
        return asyncio.Future(loop=self)

    def create_future(self) -> asyncio.Future[Any]:
        future: DomainFuture[Any] = DomainFuture(loop=self)
        future._number = self._number()
        return future

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_ignored: object,
    ) -> asyncio.Task[T]:
        # The number must be there before asyncio puts the task into its set.
        task: DomainTask[T] = DomainTask.__new__(DomainTask)
        task._number = number = self._number()
        task.__init__(coro, loop=self, name=name or f"task-{number}", context=context)  # type: ignore[misc]  # on purpose, see above
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def _finish_generator(self, generator: Any) -> None:
        """An async generator was dropped half-way: its `finally` runs as a task of this loop. When that
        happens follows from reference counts, which follow from the inputs."""
        self.create_task(generator.aclose())

    def bury(self) -> None:
        """Free a process that was cut off. Dropping a suspended coroutine runs its `finally`; here that can
        touch nothing but this loop, which runs nothing any more. Its warnings and errors are suppressed."""
        outer, unraisable = _get_running_loop(), sys.unraisablehook
        _set_running_loop(self)
        sys.unraisablehook = lambda _: None
        self._handler = lambda loop, context: None  # Failures would keep their tasks alive.
        try:
            with warnings.catch_warnings(action="ignore"):
                while self._tasks or self._ready or self._timers:  # Finalizers may add more.
                    for collection in (self._tasks, self._ready, self._timers):
                        collection.clear()
                    gc.collect()
        finally:
            sys.unraisablehook = unraisable
            _set_running_loop(outer)

    @property
    def tasks(self) -> tuple[asyncio.Task[Any], ...]:
        """Unfinished tasks, oldest first."""
        return tuple(self._tasks)

    def is_running(self) -> bool:
        return self._inside

    def is_closed(self) -> bool:
        return False

    # `bool()` is False, and costs no frame: asyncio calls this for every new future and task.
    get_debug: Any = staticmethod(bool)

    def set_debug(self, enabled: bool) -> None:
        pass

    def get_exception_handler(self) -> Any:
        return self._handler

    def set_exception_handler(self, handler: Any) -> None:
        self._handler = handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.failed += 1
        if len(self.failures) < FAILURES_KEPT_MAX:
            self.failures.append(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._handler is None:
            self.default_exception_handler(context)
        else:
            self._handler(self, context)

    def get_task_factory(self) -> None:
        return None

    def close(self) -> None:
        """Nothing to close: a Domain holds no resource."""

    async def shutdown_asyncgens(self) -> None:
        pass

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        pass

    # Ways to the outside, by asyncio's names; all of them raise `NotHere`.

    call_soon_threadsafe: Any = _closed("call_soon_threadsafe")
    run_in_executor: Any = _closed("run_in_executor")
    set_default_executor: Any = _closed("set_default_executor")
    getaddrinfo: Any = _closed("getaddrinfo")
    getnameinfo: Any = _closed("getnameinfo")
    create_connection: Any = _closed("create_connection")
    create_server: Any = _closed("create_server")
    create_unix_connection: Any = _closed("create_unix_connection")
    create_unix_server: Any = _closed("create_unix_server")
    create_datagram_endpoint: Any = _closed("create_datagram_endpoint")
    connect_accepted_socket: Any = _closed("connect_accepted_socket")
    start_tls: Any = _closed("start_tls")
    sendfile: Any = _closed("sendfile")
    connect_read_pipe: Any = _closed("connect_read_pipe")
    connect_write_pipe: Any = _closed("connect_write_pipe")
    subprocess_shell: Any = _closed("subprocess_shell")
    subprocess_exec: Any = _closed("subprocess_exec")
    add_reader: Any = _closed("add_reader")
    remove_reader: Any = _closed("remove_reader")
    add_writer: Any = _closed("add_writer")
    remove_writer: Any = _closed("remove_writer")
    sock_recv: Any = _closed("sock_recv")
    sock_recv_into: Any = _closed("sock_recv_into")
    sock_recvfrom: Any = _closed("sock_recvfrom")
    sock_recvfrom_into: Any = _closed("sock_recvfrom_into")
    sock_sendall: Any = _closed("sock_sendall")
    sock_sendto: Any = _closed("sock_sendto")
    sock_connect: Any = _closed("sock_connect")
    sock_accept: Any = _closed("sock_accept")
    sock_sendfile: Any = _closed("sock_sendfile")
    add_signal_handler: Any = _closed("add_signal_handler")
    remove_signal_handler: Any = _closed("remove_signal_handler")
    set_task_factory: Any = _closed("set_task_factory")
    run_forever: Any = _closed("run_forever")
    run_until_complete: Any = _closed("run_until_complete")
    stop: Any = _closed("stop")
