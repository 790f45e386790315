"""Machine: the operating system of one incarnation of a foreign process.

It owns the process's threads, sockets and signals, and answers its calls of the standard library with its own
clock, randomness and names. It ends with the incarnation: a crash leaves nothing of it.
"""

from __future__ import annotations

import contextvars
import errno
import logging
import os
import random
import shutil
import signal
import socket
import sys
import threading
import traceback
import warnings
from _thread import get_ident
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from greenlet import GreenletExit

from fathom import private_files
from fathom.seams.domain import Domain
from fathom.seams.process import Inside
from fathom.sim.foreign import answers
from fathom.sim.foreign.commands import Commands
from fathom.sim.foreign.connections import Connection
from fathom.sim.foreign.hosts import HostConnection, Hosts, answer_of
from fathom.sim.foreign.logs import LoggingState
from fathom.sim.foreign.output import ProgramOutput
from fathom.sim.foreign.threads import ForeignThread, Waiter, current_thread, new_waiter, park
from fathom.sim.world.outside_guard import watch

if TYPE_CHECKING:
    from fathom.sim.foreign.sockets import ForeignSocket

# Names of the API server that the process talks to, as inside a cluster.
API_ADDRESS = "10.96.0.1"
API_NAMES = frozenset(
    {
        API_ADDRESS,
        *("kubernetes", "kubernetes.default", "kubernetes.default.svc"),
        "kubernetes.default.svc.cluster.local",
    }
)

# Not by `tempfile`, which draws random numbers when it is first asked.
OWN_TEMPORARY_FOLDERS = Path(os.environ.get("TMPDIR", "/tmp"), f"fathom-programs-{os.getuid()}")

LINES_SHOWN = 20  # Of what a program printed: a traceback has about as many.

# More often than code reads a clock for another reason than to wait.
READS_PER_MOMENT = 10_000

_REAL_PID = os.getpid  # Of the test runner: programs of two that run at the same time share no folder.

# A program may look for the first two to learn whether it is being tested, and then leave out what it does
# otherwise: reading its kubeconfig, for example. The runner's own are hidden; one that the program imports is
# its own. So is the `__main__` of a program that is run as a script.
HIDDEN_MODULES = ("pytest", "unittest", "__main__")


def to_do_host(host: str) -> str:
    return (
        f"What to do: if it speaks HTTP, let the test answer for it, operator.serve({host!r}, function); "
        "else replace what talks to it in the test"
    )


def _own_address(host: str) -> str | None:
    """A host that is named by its address."""
    return "127.0.0.1" if host == "localhost" else host if host[:1].isdigit() else None


Handler = Callable[..., object]
OnData = Callable[[bytes | OSError], None]
IGNORED: Any = signal.SIG_IGN


class ForeignDomain(Domain):
    """While it handles an input, the calls of its process go to its machine."""

    machine: Machine | None = None

    def step(self, now_ns: int, deliver: Callable[..., object] | None = None, *args: Any) -> int | None:
        with in_place_of_the_real_one(self.machine):
            return super().step(now_ns, deliver, *args)


@contextmanager
def in_place_of_the_real_one(machine: Machine | None) -> Iterator[None]:
    """What is global in an interpreter is this process's own: who is asked, environment, output."""
    before, environment, streams = watch.visitor, os.environ._data, (sys.stdout, sys.stderr)  # type: ignore[attr-defined]
    argv, path, hidden = sys.argv, sys.path, _hidden_modules()
    if machine is not None:
        machine.take_over()
    try:
        yield
    finally:
        if watch.visitor is not before and isinstance(watch.visitor, Machine):
            watch.visitor.own_modules = _hidden_modules()
            _show(hidden)
        watch.visitor = before
        os.environ._data = environment  # type: ignore[attr-defined]
        sys.stdout, sys.stderr = streams
        sys.argv, sys.path = argv, path


def _hidden_modules() -> dict[str, ModuleType]:
    return {name: sys.modules[name] for name in HIDDEN_MODULES if name in sys.modules}


def _show(modules: dict[str, ModuleType]) -> None:
    for name in HIDDEN_MODULES:
        sys.modules.pop(name, None)
    sys.modules.update(modules)


class Exited(Exception):
    """The world asked the program to stop, and it did so without a handler."""


class Killed(Exception):
    """The program ended itself by a signal."""


class Machine:
    def __init__(
        self,
        inside: Inside,
        name: str,
        *,
        argv: Sequence[str],
        environment: dict[bytes, bytes],
        hosts: Hosts,
        commands: Commands,
        logs: LoggingState,
        on_exit: Callable[[BaseException | None], None],
    ) -> None:
        self.inside = inside
        self.name: str = name
        self.domain = inside.domain
        self.argv, self.path = list(argv), list(sys.path)
        self.environment = environment
        self.output = ProgramOutput()
        self.context = contextvars.Context()  # Empty: of the program's first thread.
        self.rng: random.Random = inside.streams.stream("foreign")
        self.pid: int = 100 + inside.incarnation
        self.address = "10.244.0.7"
        self.signals: dict[signal.Signals, Handler] = {}
        self.blocked: set[signal.Signals] = set()  # By `pthread_sigmask`.
        self._hosts, self.commands, self._logs = hosts, commands, logs
        self._hosts_at: dict[str, str] = {}  # Address -> name, of those that were asked for.
        self.files: dict[int, ForeignSocket] = {}
        self.socket_timeout_s: float | None = None
        self.ending, self.ended_s = "", 0.0
        self.dead = False
        self.exiting = False
        self.threads: list[ForeignThread] = []  # Those that have not ended.
        self.main: ForeignThread | None = None
        self.loops: list[Any] = []
        self._temporary: Path | None = None
        self.temporary_names: Any = None  # Of `tempfile`; made when one is asked for.
        self.numpy_rng: Any = None  # Of `numpy.random`, likewise.
        self._hashed = count(1)
        self.own_modules = {"__main__": sys.modules["__main__"]}  # What it has of HIDDEN_MODULES.
        self.at_exit: list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]] = []
        self._printed: BaseException | None = None  # The error that was printed already.
        self._pending: list[signal.Signals] = []
        self._held: list[signal.Signals] = []  # Blocked, or waited for by `sigwait`.
        self._sigwait: tuple[set[signal.Signals], Waiter] | None = None
        self._pausing: Waiter | None = None
        self._on_exit = on_exit
        self.kernel = contextvars.Context()
        self._read_at_ns, self._reads = 0, 0  # When the clock was read last, and how often at that moment.
        self._file = count(0)
        self._thread = count(1)

    def take_over(self) -> None:
        """Within `in_place_of_the_real_one`."""
        watch.visitor = self
        os.environ._data = self.environment  # type: ignore[attr-defined]  # without putenv
        sys.stdout = sys.stderr = self.output
        sys.argv, sys.path = self.argv, self.path
        _show(self.own_modules)

    # Threads.

    def begin(self, main: Callable[[], Any]) -> None:
        """Start the program's first thread, and listen for signals."""
        shown = threading.Thread(name="MainThread", daemon=False)
        self.main = self.start_thread(shown, main)
        self.kernel_task(self._listen())

    def start_thread(self, shown: threading.Thread, run: Callable[[], Any] | None = None) -> ForeignThread:
        thread = ForeignThread(self, shown, run or shown.run, next(self._thread))
        thread.gr_context = self.context if run is not None else contextvars.Context()
        shown._foreign = thread  # type: ignore[attr-defined]  # how `patches` finds it
        shown._ident = thread.number  # type: ignore[attr-defined]
        shown._started.set()  # type: ignore[attr-defined]
        self.threads.append(thread)
        self.go_on_soon(thread)
        return thread

    def go_on_soon(self, thread: ForeignThread) -> None:
        if not self.dead:
            self.domain.call_soon(self._go_on, thread, context=self.kernel)

    def _go_on(self, thread: ForeignThread) -> None:
        if not self.dead and not thread.dead:
            thread.take_turn()

    def thread_ended(self, thread: ForeignThread) -> None:
        if thread in self.threads:
            self.threads.remove(thread)
        if self.dead:
            return
        if thread is self.main:
            self.exiting = True
            self.print_error(thread.error)
            self._on_exit(thread.error)
        elif thread.error is not None and not isinstance(thread.error, SystemExit):
            logging.getLogger("threading").error(
                "Exception in thread %s", thread.shown.name, exc_info=thread.error
            )

    def print_error(self, error: BaseException | None) -> None:
        """As the interpreter does when the first thread ends, before it waits for others."""
        if error is self._printed:
            return
        self._printed = error
        if isinstance(error, SystemExit):
            if isinstance(error.code, str):
                self.output.write(f"{error.code}\n")
        elif error is not None:
            self.output.write("".join(traceback.format_exception(error)))

    @property
    def last_lines(self) -> list[str]:
        return self.output.last(LINES_SHOWN)

    def join(self, thread: ForeignThread, timeout_s: float | None) -> None:
        if not thread.over:
            waiter = new_waiter()
            thread.joining.append(waiter)
            park(waiter, timeout_s)

    def sleep(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        park(new_waiter(), seconds)

    def clock_read(self) -> None:
        """Code that reads the clock over and over waits for it to move: let it move a little."""
        if self._read_at_ns != self.domain.now_ns:
            self._read_at_ns, self._reads = self.domain.now_ns, 0
        self._reads += 1
        if self._reads > READS_PER_MOMENT and not self.dead and current_thread() is not None:
            self._reads = 0
            self.sleep(0.001)

    def kernel_task(self, work: Any) -> Any:
        """A task of the world and not of the program."""
        return self.domain.create_task(work, context=self.kernel.copy())

    # Signals: handled by the first thread, when it next goes on.

    async def _listen(self) -> None:
        while True:
            await self.inside.seam.signal()
            self.receive(signal.SIGTERM)

    def receive(self, number: signal.Signals) -> None:
        """As the operating system: run the handler, or end the process."""
        if number is signal.SIGKILL:
            self.exit(Killed("SIGKILL"))
            return
        if number in self.blocked or (self._sigwait is not None and number in self._sigwait[0]):
            self._held.append(number)
            if self._sigwait is not None:
                self._sigwait[1].wake()
            return
        if self.signals.get(number) is IGNORED:
            return
        if number not in self.signals and number is signal.SIGTERM:
            self.exiting = True
            self._on_exit(Exited("SIGTERM"))
            return
        self._pending.append(number)
        if self.main is not None:
            self.go_on_soon(self.main)

    def exit(self, error: BaseException) -> None:
        """End the process at once: nothing is cleaned up."""
        self.exiting = True
        self._on_exit(error)
        if current_thread() is not None:
            park(new_waiter())  # For ever: what calls this does not expect to go on.

    def handle_signals(self, thread: ForeignThread) -> None:
        while thread is self.main and self._pending:
            number = self._pending.pop(0)
            handler = self.signals.get(number)
            if number is signal.SIGINT and handler is None:
                raise KeyboardInterrupt
            if handler is not None:
                handler(number, None)
            if self._pausing is not None:
                self._pausing.done = True

    def pause(self) -> None:
        """As `signal.pause`: until a handler has run."""
        self._pausing = new_waiter()
        try:
            park(self._pausing)
        finally:
            self._pausing = None

    def wait_for_signal(self, wanted: set[signal.Signals]) -> signal.Signals:
        """As `signal.sigwait`: its handler is not called."""
        while not (found := [number for number in self._held if number in wanted]):
            self._sigwait = (wanted, new_waiter())
            try:
                park(self._sigwait[1])
            finally:
                self._sigwait = None
        self._held.remove(found[0])
        return found[0]

    # Names and files.

    def resolve(self, host: str, port: int) -> tuple[str, int]:
        """The address of a server that the process can reach. Raises what the operating system would."""
        if host in API_NAMES:
            return API_ADDRESS, port
        if host in self._hosts_at or answer_of(self._hosts, host) is not None:
            return self._address_of(host), port
        if host in {"localhost", "127.0.0.1", "::1", self.name, self.address}:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connection refused. {to_do_host('localhost')}")
        hint = f"the world has no host {host!r}, only its API server. {to_do_host(host)}"
        raise socket.gaierror(socket.EAI_NONAME, hint)

    def _address_of(self, host: str) -> str:
        """Of a host that the test answers for."""
        if host in self._hosts_at:
            return host
        known = next((address for address, name in self._hosts_at.items() if name == host), None)
        address = known or _own_address(host) or f"10.97.0.{len(self._hosts_at) + 1}"
        self._hosts_at[address] = host
        return address

    def connection_to(
        self, address: str, port: int, on_data: Callable[[bytes | OSError], None]
    ) -> Connection:
        """To an address that `resolve` returned."""
        host = self._hosts_at.get(address)
        answer = None if host is None else answer_of(self._hosts, host)
        if host is None or answer is None:
            return Connection(self, on_data)
        return HostConnection(self, on_data, host, port, answer)

    def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host or "0.0.0.0"
        number = int(port or 0) if str(port or 0).isdigit() else {"http": 80, "https": 443}.get(str(port), 0)
        address = name if name[:1].isdigit() else self.resolve_name(name)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, number))]

    def resolve_name(self, name: str) -> str:
        if name == "localhost" and answer_of(self._hosts, name) is None:
            return "127.0.0.1"
        return self.address if name == self.name else self.resolve(name, 0)[0]

    def temporary_folder(self) -> str:
        """Of this incarnation alone, and empty at first: a cache that another run left there would make this
        one differ. The official dynamic client has one, by the address of its server."""
        if self._temporary is None:
            self._temporary = (
                OWN_TEMPORARY_FOLDERS / str(_REAL_PID()) / f"{self.name}-{self.inside.incarnation}"
            )
            private_files.make_directory(OWN_TEMPORARY_FOLDERS)  # Others may write beside it.
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary.mkdir(parents=True)
        return str(self._temporary)

    def next_hash(self) -> int:
        """For an object that other machines hash by its address."""
        return next(self._hashed)

    def open_file(self, sock: ForeignSocket) -> int:
        number = (1 << 20) + next(self._file)
        self.files[number] = sock
        return number

    # Calls of the standard library.

    def answer(self, name: str, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return answers.ANSWERS[name](self, original, args, kwargs)

    def log_loop_error(self, context: dict[str, Any]) -> None:
        if not self.dead:
            logging.getLogger("asyncio").error(context.get("message"), exc_info=context.get("exception"))

    # The end.

    def cut(self) -> None:
        """The process crashed. Its threads stay as they are until `bury`: a crash runs no `finally`."""
        self.dead = True

    def bury(self) -> None:
        """The run is over: end the threads, one by one. What they still do reaches nobody."""
        self.dead = True
        owner, watch.owner = watch.owner, get_ident()
        disabled, unraisable = logging.root.manager.disable, sys.unraisablehook
        logging.disable(logging.CRITICAL)
        sys.unraisablehook = lambda _: None
        try:
            with in_place_of_the_real_one(self), warnings.catch_warnings(action="ignore"):
                self._end_all()
        finally:
            sys.unraisablehook = unraisable
            logging.disable(disabled)
            self._logs.restore()
            watch.owner = owner

    def _end_all(self) -> None:
        self.take_over()
        for loop in self.loops:
            loop.bury()
        for thread in list(self.threads):
            if not thread.dead:
                thread.take_turn(GreenletExit)
        self.threads.clear()
        self.files.clear()
        self.loops.clear()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            with suppress(OSError):  # Another machine has one beside it.
                self._temporary.parent.rmdir()
