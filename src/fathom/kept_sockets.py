"""Listening sockets that outlive the process which listens: its supervisor holds them, too.

    part ──"keep 127.96.0.1 80" and the socket──> supervisor
    part is killed; the kernel goes on to queue connections, because the supervisor has the socket open
    part ──started again, with all kept sockets inherited──> accepts what has queued

So whoever connects while the part is restarted waits a moment, and is not refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from array import array

import msgspec

# Set by the supervisor: file descriptors, of the link and of the kept sockets by name.
VARIABLE = "FATHOM_KEPT_SOCKETS"
MESSAGE_BYTES_MAX = 256
KEEP, DROP = "keep", "drop"


class InheritedSockets(msgspec.Struct, frozen=True):
    link: int
    sockets: dict[str, int] = {}


class SocketKeeper:
    """The supervisor's side, for all its life. Each start of the part has a link of its own."""

    def __init__(self) -> None:
        self._sockets: dict[str, int] = {}
        self._link: socket.socket | None = None

    def begin(self) -> tuple[InheritedSockets, socket.socket]:
        """What the next start of the part inherits, and its end of the link: close it when it has started."""
        self._end_link()
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._link.setblocking(False)
        asyncio.get_running_loop().add_reader(self._link.fileno(), self._read)
        return InheritedSockets(theirs.fileno(), dict(self._sockets)), theirs

    def _read(self) -> None:
        assert self._link is not None
        try:
            words, descriptors = _received(self._link)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            words, descriptors = [], []
        if not words:  # The part has ended.
            self._end_link()
            return
        verb, name = words
        if verb == KEEP and descriptors:
            self._drop(name)
            self._sockets[name] = descriptors.pop(0)
        elif verb == DROP:
            self._drop(name)
        for descriptor in descriptors:
            os.close(descriptor)

    def _drop(self, name: str) -> None:
        if name in self._sockets:
            os.close(self._sockets.pop(name))

    def _end_link(self) -> None:
        if self._link is not None:
            asyncio.get_running_loop().remove_reader(self._link.fileno())
            self._link.close()
            self._link = None

    def close(self) -> None:
        self._end_link()
        for name in list(self._sockets):
            self._drop(name)


def _received(link: socket.socket) -> tuple[list[str], list[int]]:
    """Verb and name, and the sockets that came with them. No words: the other side is gone."""
    message, ancillary, _, _ = link.recvmsg(MESSAGE_BYTES_MAX, socket.CMSG_SPACE(array("i", [0]).itemsize))
    descriptors = array("i")
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
    return message.decode().split(" ", 1) if message else [], list(descriptors)


class KeptSockets:
    """The part's side: the sockets that it had before it was killed. Without a supervisor, none."""

    def __init__(self, inheritance: InheritedSockets | None = None) -> None:
        self._link: socket.socket | None = None
        self._inherited: dict[str, socket.socket] = {}
        if inheritance is not None:
            self._link = socket.socket(fileno=inheritance.link)
            self._link.setblocking(False)
            self._link.set_inheritable(False)
            for name, descriptor in inheritance.sockets.items():
                self._inherited[name] = socket.socket(fileno=descriptor)
                self._inherited[name].set_inheritable(False)

    def take(self, name: str) -> socket.socket | None:
        """A socket that listens already."""
        return self._inherited.pop(name, None)

    @property
    def unclaimed(self) -> list[str]:
        return list(self._inherited)

    def keep(self, name: str, descriptor: int) -> None:
        """From now on, the supervisor holds it, too. If that fails, connections are refused while the part is
        restarted: no worse than without."""
        self._send(f"{KEEP} {name}", [descriptor])

    def put_back(self, name: str, descriptor: int) -> None:
        """Before it is closed by somebody who will take it again: the supervisor goes on to hold it, so that
        nobody could listen there anew."""
        if self._link is not None:
            self._inherited[name] = socket.socket(fileno=os.dup(descriptor))

    def drop(self, name: str) -> None:
        taken = self._inherited.pop(name, None)
        if taken is not None:
            taken.close()
        self._send(f"{DROP} {name}", [])

    def _send(self, message: str, descriptors: list[int]) -> None:
        if self._link is None:
            return
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))] if descriptors else []
        with contextlib.suppress(OSError):
            self._link.sendmsg([message.encode()], rights)


def inherited(environ: dict[str, str] | os._Environ[str]) -> KeptSockets:
    """Call it once: it removes the variable, so that children do not inherit it."""
    text = environ.pop(VARIABLE, "")
    if not text:
        return KeptSockets()
    try:
        return KeptSockets(msgspec.json.decode(text, type=InheritedSockets))
    except (msgspec.DecodeError, OSError):
        return KeptSockets()
