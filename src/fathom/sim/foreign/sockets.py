"""Sockets of a foreign process: a `socket.socket` that is connected to an API server of the world.

A subclass of the real class, so that `isinstance` holds; the real one is never initialised and has no file.
Methods that wait, wait in virtual time.
"""

from __future__ import annotations

import errno
import io
import select
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from fathom.sim.foreign.threads import new_waiter, park
from fathom.sim.world.outside_guard import watch

if TYPE_CHECKING:
    from fathom.sim.foreign.connections import Connection
    from fathom.sim.foreign.machine import Machine


def running_machine() -> Machine:
    """The machine of the process whose input is being handled."""
    assert watch.visitor is not None
    return cast("Machine", watch.visitor)


# What a client reads of an encrypted connection.
TLS_VERSION = "TLSv1.3"
CIPHER = ("TLS_AES_256_GCM_SHA384", TLS_VERSION, 256)


def certificate(host: str | None) -> dict[str, Any]:
    """As `getpeercert` shows it: one that fits the name that was asked for."""
    name = host or ""
    return {
        "subject": ((("commonName", name),),),
        "subjectAltName": (("DNS", name), ("IP Address", name)),
        "notAfter": "Jan  1 00:00:00 2120 GMT",
    }


FIRST_FILE = 1 << 20  # File numbers of virtual sockets: no real file of the interpreter has one so high.


class ForeignSocket(socket.socket):
    def __new__(cls, *_: Any, **__: Any) -> ForeignSocket:
        return super().__new__(cls)

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: Any = None) -> None:  # noqa: A002
        """Of the process that runs now: `socket.socket(...)` in a foreign process comes here."""
        machine = running_machine()
        self._family = socket.AddressFamily(family) if family > 0 else socket.AF_INET
        self._sends_datagrams = bool(type > 0 and type & socket.SOCK_DGRAM)
        self._machine = machine
        self._number = machine.open_file(self)
        self._timeout_s: float | None = machine.socket_timeout_s
        self._connection: Connection | None = None
        self._received: list[bytes | OSError] = []
        self._when_readable: list[Callable[[], object]] = []
        self._peer: tuple[str, int] = ("", 0)
        self._bound: Any = None  # The address that it listens at.
        self._listens = False
        self._io_refs = 0
        self._closed = False

    # Connecting.

    def connect(self, address: Any) -> None:
        if self._family == socket.AF_UNIX:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        if self._sends_datagrams:  # Needs nobody on the other side.
            self._peer = (str(address[0]), int(address[1]))
            return
        host, port = self._machine.resolve(str(address[0]), int(address[1]))
        if self._connection is None:
            self._connection = self._machine.connection_to(host, port, self._arrived)
        self._peer = (host, port)

    def connect_ex(self, address: Any) -> int:
        try:
            self.connect(address)
        except OSError as error:
            return error.errno or errno.ECONNREFUSED
        return 0

    def bind(self, address: Any) -> None:
        if self._family == socket.AF_UNIX:
            self._bound = address
            return
        host, port, *_ = address
        self._bound = (host or "0.0.0.0", int(port) or self._given_port)

    @property
    def _given_port(self) -> int:
        return 40_000 + self._number - FIRST_FILE

    def listen(self, backlog: int = 0) -> None:
        self._listens = True

    def accept(self) -> Any:
        """In a world nobody connects to a program: this waits for ever, or as long as the timeout."""
        self._wait()
        raise TimeoutError("timed out")

    # Receiving.

    @property
    def readable(self) -> bool:
        return bool(self._received) or self._closed

    def call_when_readable(self, callback: Callable[[], object]) -> None:
        """Call it once, as soon as there is something to read."""
        if self.readable:
            callback()
        else:
            self._when_readable.append(callback)

    def _arrived(self, data: bytes | OSError) -> None:
        self._received.append(data)
        callbacks, self._when_readable = self._when_readable, []
        for callback in callbacks:
            callback()

    def take(self, size: int = 1 << 30) -> bytes:
        """What has arrived, at most `size` bytes; b"" at the end. Raises if the connection broke."""
        if self._closed or not self._received:
            return b""
        first = self._received[0]
        if isinstance(first, OSError):
            raise first
        if not first:
            return b""
        if len(first) > size:
            self._received[0] = first[size:]
        else:
            self._received.pop(0)
        return first[:size]

    def recv(self, size: int = 1 << 30, flags: int = 0) -> bytes:
        if not self.readable:
            self._wait()
        if flags & socket.MSG_PEEK:
            first = self._received[0]
            return first[:size] if isinstance(first, bytes) else b""
        return self.take(size)

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0) -> int:
        data = self.recv(size or len(buffer), flags)
        memoryview(buffer).cast("B")[: len(data)] = data
        return len(data)

    def _wait(self) -> None:
        if self._timeout_s == 0:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        waiter = new_waiter()
        self._when_readable.append(waiter.wake)
        if not park(waiter, self._timeout_s):
            raise TimeoutError("timed out")

    # Sending.

    def pass_on(self, data: bytes) -> None:
        if self._connection is not None and not self._closed:
            self._connection.feed(data)

    def sendall(self, data: Any, flags: int = 0) -> None:
        if self._closed or self._connection is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        self._connection.feed(bytes(data))

    def send(self, data: Any, flags: int = 0) -> int:
        if not self._sends_datagrams:
            self.sendall(data)
        return len(data)

    def sendto(self, data: Any, *_: Any) -> int:
        """Datagrams to hosts that do not exist are lost: metrics and logs, most of them."""
        return self.send(data)

    # Everything else of a socket.

    def close(self) -> None:
        if self._io_refs <= 0:
            self._real_close()
        else:
            self._closing = True

    def _decref_socketios(self) -> None:
        self._io_refs -= 1
        if self._io_refs <= 0 and getattr(self, "_closing", False):
            self._real_close()

    def _real_close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._machine.files.pop(self._number, None)
        if self._connection is not None:
            self._connection.close()
        callbacks, self._when_readable = self._when_readable, []
        for callback in callbacks:
            callback()

    def detach(self) -> int:
        self._real_close()
        return -1

    def shutdown(self, how: int) -> None:
        if self._connection is not None:
            self._connection.close()

    def makefile(self, mode: str = "r", buffering: int | None = None, **options: Any) -> Any:
        raw = socket.SocketIO(self, mode.replace("t", "").replace("b", ""))  # type: ignore[arg-type]
        self._io_refs += 1
        size = io.DEFAULT_BUFFER_SIZE if buffering in {None, -1} else buffering
        if size == 0:
            return raw
        file: Any = (
            io.BufferedRWPair(raw, raw) if "r" in mode and "w" in mode
            else io.BufferedReader(raw, size or 1) if "r" in mode
            else io.BufferedWriter(raw, size or 1)
        )  # fmt: skip
        return file if "b" in mode else io.TextIOWrapper(file, **options)

    def settimeout(self, value: float | None) -> None:
        self._timeout_s = value

    def gettimeout(self) -> float | None:
        return self._timeout_s

    @property
    def timeout(self) -> float | None:
        return self._timeout_s

    def setblocking(self, flag: bool) -> None:
        self._timeout_s = None if flag else 0.0

    def getblocking(self) -> bool:
        return self._timeout_s != 0

    def setsockopt(self, *_: Any) -> None:
        pass

    def getsockopt(self, *_: Any) -> Any:
        return 0

    def fileno(self) -> int:
        return -1 if self._closed else self._number

    def getpeername(self) -> Any:
        return self._peer

    def getsockname(self) -> Any:
        return self._bound or (self._machine.address, self._given_port)

    @property
    def family(self) -> Any:
        return self._family

    @property
    def type(self) -> Any:
        return socket.SOCK_DGRAM if self._sends_datagrams else socket.SOCK_STREAM

    @property
    def proto(self) -> int:
        return 0

    # As an `ssl.SSLSocket` has them, after `wrap_socket`: see `tls.py`.

    context: Any = None
    server_hostname: str | None = None

    def getpeercert(self, binary_form: bool = False) -> Any:
        return b"" if binary_form else certificate(self.server_hostname)

    def do_handshake(self, block: bool = False) -> None:
        pass

    def unwrap(self) -> ForeignSocket:
        return self

    def pending(self) -> int:
        return 0

    def selected_alpn_protocol(self) -> None:
        """HTTP/1.1, as when a server knows nothing of others."""

    def version(self) -> str:
        return TLS_VERSION

    def cipher(self) -> tuple[str, str, int]:
        return CIPHER

    def __repr__(self) -> str:
        at, address = ("at", self._bound) if self._bound else ("to", self._peer)
        return f"<socket {at} {address if isinstance(address, str) else ':'.join(map(str, address))}>"

    def __enter__(self) -> ForeignSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Poll:
    """As `select.poll`, over sockets of the machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._registered: dict[int, int] = {}

    def register(self, file: Any, mask: int = select.POLLIN | select.POLLOUT) -> None:
        self._registered[number_of(file)] = mask

    modify = register

    def unregister(self, file: Any) -> None:
        del self._registered[number_of(file)]

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        ready = self._ready()
        if ready or timeout_ms == 0:
            return ready
        sockets = [self._machine.files[number] for number in self._registered]
        wait_for_any(sockets, None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000)
        return self._ready()

    def _ready(self) -> list[tuple[int, int]]:
        ready = []
        for number, mask in self._registered.items():
            sock = self._machine.files.get(number)
            events = mask & select.POLLOUT
            if sock is None or sock.readable:
                events |= mask & select.POLLIN
            if events:
                ready.append((number, events))
        return ready


class Epoll(Poll):
    """As `select.epoll`, which counts in seconds."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.closed = False

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        return super().poll(None if timeout is None or timeout < 0 else timeout * 1000)

    def close(self) -> None:
        self.closed = True
        self._registered.clear()

    def fileno(self) -> int:
        return FIRST_FILE - 1

    def __enter__(self) -> Epoll:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def selected(
    machine: Machine, readers: Any, writers: Any, errors: Any = (), timeout: float | None = None
) -> tuple[list[Any], list[Any], list[Any]]:
    """As `select.select`: a virtual socket can always be written to."""
    files = [(reader, machine.files.get(number_of(reader))) for reader in readers]
    ready = [reader for reader, sock in files if sock is None or sock.readable]
    if not ready and not writers and timeout != 0:
        wait_for_any([sock for _, sock in files if sock is not None], timeout)
        ready = [reader for reader, sock in files if sock is None or sock.readable]
    return ready, list(writers), []


def wait_for_any(sockets: list[ForeignSocket], timeout_s: float | None) -> None:
    waiter = new_waiter()
    for sock in sockets:
        sock.call_when_readable(waiter.wake)
    park(waiter, timeout_s)


def number_of(file: Any) -> int:
    return file if isinstance(file, int) else int(file.fileno())
