"""Connections to the input and output of a running program, for `kubectl attach`. Part of the shim.

    agent ──connects──> attach.sock: what the program writes, as it comes; what it is to read, the other way

Both ways in pieces: one byte that says what it is, four bytes of length, then the content. Plain Python
without packages, as the shim. The program waits for a reader that is slow, but not for one that has stopped
reading.
"""

from __future__ import annotations

import _socket
import contextlib
import fcntl
import os
import select
import struct
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:  # Importing `typing` would take as long as all the rest.
    from typing import Any

SOCKET = "attach.sock"
STDIN, STDOUT, STDERR, RESIZE, END = 0, 1, 2, 4, 255  # The channels of Kubernetes.
CHANNELS = {"stdout": STDOUT, "stderr": STDERR}
CLIENTS_MAX = 8
PIECE_BYTES_MAX = 64 << 10
SLOW_S = 2.0  # A client that takes no byte for so long is dropped.
HEAD = struct.Struct(">BI")


class ProgramStreams:
    """The program's input and output: pipes, or one terminal."""

    def __init__(self, *, stdin: bool, terminal: bool) -> None:
        self.readers: dict[int, str] = {}  # What we read, and what it is.
        self.stdin = -1  # What we write to.
        self._terminal = terminal
        if terminal:
            self.stdin, its = os.openpty()
            self.readers[self.stdin] = "stdout"
            self._its = [its, its, its]
        else:
            inputs = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), -1)
            (out_r, out_w), (err_r, err_w) = os.pipe(), os.pipe()
            self.readers, self.stdin = {out_r: "stdout", err_r: "stderr"}, inputs[1]
            self._its = [inputs[0], out_w, err_w]
        if self.stdin >= 0:
            os.set_blocking(self.stdin, False)

    def give(self) -> None:
        """In the process that becomes the program, after setsid."""
        if self._terminal:
            fcntl.ioctl(self._its[0], termios.TIOCSCTTY, 0)
        for number, fd in enumerate(self._its):
            os.dup2(fd, number)

    def given(self, pid: int) -> None:
        """The program has them. It may open its terminal by name too, as its user."""
        if self._terminal and os.getuid() == 0:
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
                    owner = next(int(line.split()[1]) for line in file if line.startswith("Uid:"))
                os.fchown(self._its[0], owner, -1)
        for fd in set(self._its):
            os.close(fd)


class AttachedClients:
    """Of one run. `poll` is the shim's; it asks `serves` whose descriptor is ready."""

    def __init__(self, listener: Any, poll: select.poll, stdin: int, *, once: bool, terminal: bool) -> None:
        self._listener, self._poll = listener, poll
        self._stdin = stdin  # The program's input; -1: it has none, or it has been closed.
        self._once, self._terminal = once, terminal
        self._clients: dict[int, tuple[Any, bytearray]] = {}  # Each with what has come of its next piece.
        self._unwritten = b""  # For the program, which does not read; meanwhile no client is read.
        listener.setblocking(False)
        poll.register(listener.fileno(), select.POLLIN)

    def serves(self, fd: int) -> bool:
        return (
            fd == self._listener.fileno() or fd in self._clients or (fd == self._stdin and not self._terminal)
        )

    def handle(self, fd: int) -> None:
        if fd == self._listener.fileno():
            self._accept()
        elif fd in self._clients:
            self._receive(fd)
        else:
            self._write(b"")

    def write_on(self) -> None:
        """The program's terminal takes input again."""
        self._write(b"")

    def tell(self, stream: str, chunk: bytes) -> None:
        """What the program wrote, to all clients."""
        for fd, (client, _) in list(self._clients.items()):
            try:
                client.settimeout(SLOW_S)
                client.sendall(HEAD.pack(CHANNELS[stream], len(chunk)) + chunk)
                client.setblocking(False)
            except OSError:
                self._drop(fd)

    def close(self) -> None:
        for fd in list(self._clients):
            self._drop(fd)
        self._poll.unregister(self._listener.fileno())
        self._listener.close()

    def _accept(self) -> None:
        try:
            fd, _ = self._listener._accept()  # Which `socket` wraps.
        except OSError:
            return
        client = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)
        if len(self._clients) >= CLIENTS_MAX:
            client.close()
            return
        client.setblocking(False)
        self._clients[fd] = (client, bytearray())
        if not self._unwritten:
            self._poll.register(fd, select.POLLIN)

    def _receive(self, fd: int) -> None:
        client, piece = self._clients[fd]
        try:
            data = client.recv(PIECE_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(fd)
            return
        piece += data
        while len(piece) >= HEAD.size:
            kind, length = HEAD.unpack_from(piece)
            if length > PIECE_BYTES_MAX:
                self._drop(fd)
                return
            if len(piece) < HEAD.size + length:
                return
            content = bytes(piece[HEAD.size : HEAD.size + length])
            del piece[: HEAD.size + length]
            self._obey(kind, content)

    def _obey(self, kind: int, content: bytes) -> None:
        if kind == STDIN:
            self._write(content)
        elif kind == END and self._once and self._stdin >= 0:
            self._close_stdin()
        elif kind == RESIZE and self._terminal and len(content) == 4 and self._stdin >= 0:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._stdin, termios.TIOCSWINSZ, content + b"\0\0\0\0")

    def _write(self, content: bytes) -> None:
        """At most one piece of each client waits here: none is read while one waits."""
        had, self._unwritten = bool(self._unwritten), self._unwritten + content
        while self._unwritten and self._stdin >= 0:
            try:
                self._unwritten = self._unwritten[os.write(self._stdin, self._unwritten) :]
            except BlockingIOError:
                break
            except OSError:  # The program has closed its input.
                self._unwritten = b""
                if not self._terminal:
                    self._close_stdin()
        if self._stdin < 0:
            self._unwritten = b""
        if bool(self._unwritten) != had:
            self._read_clients(on=not self._unwritten)

    def _read_clients(self, *, on: bool) -> None:
        for fd in self._clients:
            if on:
                self._poll.register(fd, select.POLLIN)
            else:
                self._poll.unregister(fd)
        with contextlib.suppress(OSError, KeyError):
            if self._terminal:  # The shim polls it for reading, until its end.
                self._poll.modify(self._stdin, select.POLLIN if on else select.POLLIN | select.POLLOUT)
            elif self._stdin >= 0 and on:
                self._poll.unregister(self._stdin)
            elif self._stdin >= 0:
                self._poll.register(self._stdin, select.POLLOUT)

    def _close_stdin(self) -> None:
        """Of a terminal, its end-of-file character; the descriptor is also for reading."""
        if self._terminal:
            with contextlib.suppress(OSError):
                os.write(self._stdin, b"\x04")
            return
        with contextlib.suppress(KeyError):
            self._poll.unregister(self._stdin)
        os.close(self._stdin)
        self._stdin = -1

    def _drop(self, fd: int) -> None:
        client, _ = self._clients.pop(fd)
        with contextlib.suppress(KeyError):
            self._poll.unregister(fd)
        client.close()
        if self._once and not self._clients and self._stdin >= 0 and not self._terminal:
            self._close_stdin()  # As with kubelet: the first that attaches and leaves ends the input.
