"""An asyncio event loop in a thread of a foreign process: what `asyncio.new_event_loop` returns there.

A Domain without a driver of its own: the thread that calls `run_forever` runs its callbacks, and parks when
there is nothing to run. A callback that blocks, as `time.sleep` in a coroutine does, blocks this loop and
nothing else, as in reality.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import signal
import socket as real_socket
import sys
from asyncio import events
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from fathom.seams.domain import FAR_NS, FAR_S, Domain
from fathom.sim.foreign.commands import AnsweredTransport, StartedCommand, words_of
from fathom.sim.foreign.sockets import ForeignSocket
from fathom.sim.foreign.threads import Waiter, new_waiter, park
from fathom.sim.foreign.transports import ForeignTransport, LostDatagrams
from fathom.sim.world.outside_guard import refuse

if TYPE_CHECKING:
    from fathom.sim.foreign.machine import Machine

# In a world the clock stands still while code runs. A loop that waits for the clock by `sleep(0)`, or sleeps
# for less than a nanosecond, would never see it move: after so many callbacks some time has passed after all.
CALLBACKS_PER_MOMENT = 10_000
PASSED_S = 0.001
# The shortest time that a timer takes: about a turn of a real loop.
SHORTEST_NS = 1_000


class ForeignLoop(Domain):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__()
        self._context = machine.context
        self._stopping = False
        self._closed = False
        self._parked: Waiter | None = None
        self._running = False
        self._executor: concurrent.futures.Executor | None = None
        self._task_factory: Any = None

    @property  # The machine's clock, not one of its own.
    def now_ns(self) -> int:
        return self._machine.domain.now_ns

    @now_ns.setter
    def now_ns(self, value: int) -> None:
        pass

    def time(self) -> float:
        """A clock as any other: code that reads it over and over sees it move. kopf's timers with `idle=` do
        so for a moment, where a float is one digit short of the time that they wait for."""
        self._machine.clock_read()
        return super().time()

    # Running, in the thread that calls it.

    def run_forever(self) -> None:
        if self._running or events._get_running_loop() is not None:
            raise RuntimeError("This event loop is already running")
        self._running = True
        hooks = sys.get_asyncgen_hooks()
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(None, self._finish_generator)
        try:
            self._run_until_stopped()
        finally:
            self._running = self._stopping = False
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(None)

    def _run_until_stopped(self) -> None:
        ran = 0
        while True:
            self._move_due()
            if not self._ready:
                if self._stopping:
                    return
                self._park()
                ran = 0
                continue
            ran += len(self._ready)
            self._run_those_ready()
            if ran > CALLBACKS_PER_MOMENT:
                ran = 0
                self._machine.sleep(PASSED_S)
            if self._stopping:
                return

    def _run_those_ready(self) -> None:
        """Callbacks that are added meanwhile wait for the next round, as in asyncio."""
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if handle.callback is None:
                continue
            try:
                handle.context.run(handle.callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except Exception as error:
                self.call_exception_handler({"message": f"Exception in {handle}", "exception": error})

    def _park(self) -> None:
        deadline_ns = self.next_deadline_ns()
        self._parked = new_waiter()
        try:
            park(self._parked, until_ns=deadline_ns)
        finally:
            self._parked = None

    def _wake(self) -> None:
        if self._parked is not None:
            self._parked.wake()

    def run_until_complete(self, future: Any) -> Any:
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(self._stop_when_done)
        try:
            self.run_forever()
        finally:
            task.remove_done_callback(self._stop_when_done)
        if not task.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        return task.result()

    def _stop_when_done(self, _: object) -> None:
        self._stopping = True

    def stop(self) -> None:
        self._stopping = True
        self._wake()

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if self._running:
            raise RuntimeError("Cannot close a running event loop")
        self._closed = True

    def bury(self) -> None:
        """Close what its tasks were doing: they can do no harm here, as this loop runs nothing any more."""
        self.set_exception_handler(lambda *_: None)
        outer = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while self._tasks:  # What is closed may create more.
                task, _ = self._tasks.popitem()
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own
                with suppress(BaseException):  # Nobody is left for what it raises now.
                    task.get_coro().close()
        finally:
            events._set_running_loop(outer)
        self._ready.clear()
        self._timers.clear()

    # Callbacks. A loop that is parked is woken by whoever adds one: a connection, a thread, a signal.

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        if self._closed and not self._machine.dead:
            raise RuntimeError("Event loop is closed")
        handle = super().call_soon(callback, *args, context=context)
        self._wake()
        return handle

    call_soon_threadsafe: Any = call_soon

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        return self.call_at(super().time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """Never earlier than asked for, however little a float can show: the caller may read the clock."""
        now_ns = self.now_ns
        when_ns = FAR_NS if when >= FAR_S else math.ceil(when * 1e9)
        return self._at(
            max(when_ns, now_ns + SHORTEST_NS) if when > now_ns / 1e9 else now_ns, callback, args, context
        )

    def _at(self, when_ns: int, callback: Any, args: Any, context: Any) -> asyncio.TimerHandle:
        handle = super()._at(when_ns, callback, args, context)
        self._wake()
        return handle

    def create_task(self, coro: Any, **options: Any) -> Any:
        if self._task_factory is None:
            return super().create_task(coro, **options)
        task = self._task_factory(self, coro, **{k: v for k, v in options.items() if k == "context"})
        if options.get("name") is not None:
            task.set_name(options["name"])
        return task

    def set_task_factory(self, factory: Any) -> None:
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        return self._task_factory

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """As asyncio: such an error is logged, and nothing else happens."""
        self._machine.log_loop_error(context)

    # Threads.

    def run_in_executor(self, executor: Any, work: Any, *args: Any) -> Any:  # type: ignore[override]
        if executor is None:
            executor = self._executor = self._executor or concurrent.futures.ThreadPoolExecutor()
        return asyncio.wrap_future(executor.submit(work, *args), loop=self)

    def set_default_executor(self, executor: Any) -> None:
        self._executor = executor

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False)

    # Signals.

    def add_signal_handler(self, number: int, callback: Any, *args: Any) -> None:  # type: ignore[override]
        self._machine.signals[signal.Signals(number)] = lambda *_: self.call_soon(callback, *args)

    def remove_signal_handler(self, number: int) -> bool:
        return self._machine.signals.pop(signal.Signals(number), None) is not None

    # Connections.

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        return self._machine.getaddrinfo(host, port, **options)

    async def create_connection(  # type: ignore[override]  # any of its forms
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        *,
        sock: Any = None,
        **_: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if sock is None:
            sock = ForeignSocket()
            await self.sock_connect(sock, (host, port))
        protocol = protocol_factory()
        transport = ForeignTransport(self, sock, protocol)
        protocol.connection_made(transport)
        transport.begin()
        return transport, protocol

    async def sock_connect(self, sock: Any, address: Any) -> None:
        await asyncio.sleep(0)
        sock.connect(address)

    async def sock_sendall(self, sock: Any, data: Any) -> None:
        sock.sendall(data)

    async def sock_recv(self, sock: Any, size: int) -> bytes:
        while not sock.readable:
            future = self.create_future()
            sock.call_when_readable(partial(_finish, future))
            await future
        return bytes(sock.recv(size))

    async def create_datagram_endpoint(
        self, protocol_factory: Callable[[], Any], local_addr: Any = None, remote_addr: Any = None, **_: Any
    ) -> tuple[asyncio.DatagramTransport, Any]:
        protocol = protocol_factory()
        transport = LostDatagrams(self, protocol, local_addr, remote_addr)
        self.call_soon(protocol.connection_made, transport)
        await asyncio.sleep(0)
        return transport, protocol

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, sock: Any = None, **_: Any
    ) -> Any:
        if sock is None:
            sock = ForeignSocket()
            sock.bind((host if isinstance(host, str) else "", port or 0))
        return NobodyCalls(sock)

    async def create_unix_server(
        self, protocol_factory: Any, path: Any = None, *, sock: Any = None, **_: Any
    ) -> Any:
        if sock is None:
            sock = ForeignSocket(real_socket.AF_UNIX)
            sock.bind(str(path))
        return NobodyCalls(sock)

    # Commands.

    async def subprocess_exec(self, protocol_factory: Any, *words: Any, **options: Any) -> Any:
        started = StartedCommand(self._machine, "asyncio.create_subprocess_exec", words_of(words), options)
        protocol = protocol_factory()
        return AnsweredTransport(self._machine, self, protocol, started, options), protocol

    async def subprocess_shell(self, protocol_factory: Any, command: Any, **options: Any) -> Any:  # type: ignore[override]
        return await self.subprocess_exec(protocol_factory, *words_of(command), **options)

    async def start_tls(self, transport: Any, protocol: Any, *_: Any, **__: Any) -> Any:
        """TLS is as plain as the rest: see `tls.py`."""
        transport.set_protocol(protocol)
        return transport


def _refused(name: str, to_do: str) -> Any:
    def refuses(self: object, *_: object, **__: object) -> Any:
        raise refuse(f"loop.{name}", to_do)

    return refuses


TO_DO_READER = "use a stream of asyncio over a socket, or read in a thread: asyncio.to_thread"
for _name in (
    "add_reader",
    "add_writer",
    "connect_read_pipe",
    "connect_write_pipe",
    "sock_accept",
    "sendfile",
):
    setattr(ForeignLoop, _name, _refused(_name, TO_DO_READER))


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class NobodyCalls(asyncio.AbstractServer):
    """A listening server: health probes and metrics of the program. In a world nobody connects to it."""

    def __init__(self, sock: real_socket.socket) -> None:
        self.sockets: tuple[real_socket.socket, ...] = (sock,)
        self._closed = asyncio.Event()

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()
        self.sockets = ()
        self._closed.set()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def is_serving(self) -> bool:
        return not self._closed.is_set()

    async def start_serving(self) -> None:
        pass

    async def serve_forever(self) -> None:
        await self._closed.wait()
        raise asyncio.CancelledError  # As asyncio's own server does when it is closed.
