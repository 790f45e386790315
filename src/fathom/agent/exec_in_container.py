"""Run commands of probes, hooks and `kubectl exec` inside their container.

    agent ──connects──> exec.sock ─── keeper ──fork──> one for each command ──fork──> the command

The keeper is forked by the process that becomes the container's program, after that process is confined: so
every command has the same users, capabilities, limits, namespaces and Landlock domain, because it never was
outside of them. The kernel lets no process enter an existing Landlock domain, and from another domain a hook
could not signal its own program. Plain Python without packages, as the shim.

The container can do with the keeper what it can do with its own processes, so the agent trusts it no more
than the program: it passes descriptors, and reads an exit code. A request is a list, the command of a probe,
with one descriptor for its output; or an object, with the descriptors 0, 1 and 2, or one of a terminal.
"""

from __future__ import annotations

import _socket
import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import sys
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:  # Importing `typing` would take as long as all the rest.
    from collections.abc import Callable
    from typing import Any

PR_SET_PDEATHSIG = 1
SOCKET = "exec.sock"
WAITING_MAX = 64  # Commands that wait to be accepted.
REQUEST_BYTES_MAX = 4 << 20
DESCRIPTORS_MAX = 3
TERMINAL = "xterm"  # If the container does not name one; as container runtimes do.
NOT_FOUND, NOT_EXECUTABLE = 127, 126


class ExecCommands:
    """Environment and program lookup that all commands of a container share."""

    def __init__(self, env: dict[str, str], find_program: Callable[[str, dict[str, str]], str]) -> None:
        self.env = env
        self.found = find_program  # Finds a program's path, as for the container's own.


def leave_keeper(commands: ExecCommands, fd: int, shim: int) -> None:
    """Fork the keeper so that it is not the program's child (programs wait for theirs) but the shim's."""
    wait_r, wait_w = os.pipe()
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        for descriptor in (
            wait_r,
            wait_w,
            fd,
        ):  # Only now: with the child gone, the shim is the keeper's parent.
            os.close(descriptor)
        return
    try:
        if os.fork() == 0:
            os.close(wait_w)
            os.read(wait_r, 1)  # Until the shim is our parent: we end when it dies.
            _end_with_parent()
            if os.getppid() == shim:
                _keep(commands, fd)
    finally:
        os._exit(0)


def _keep(commands: ExecCommands, fd: int) -> None:
    """The keeper's loop. Never returns."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    # The program's output and the pipe that reports its start would never reach EOF while we hold them.
    os.closerange(3, fd)
    os.closerange(fd + 1, 1 << 16)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)
    while True:
        try:
            link, _ = listener._accept()  # type: ignore[attr-defined]  # Which `socket` wraps.
            if os.fork() == 0:
                listener.close()
                _serve(commands, link)
            os.close(link)
        except OSError:  # Out of files or processes: try again later.
            select.poll().poll(100)


def _serve(commands: ExecCommands, fd: int) -> None:
    """Run one command. Never returns."""
    try:
        _end_with_parent()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)
        request, descriptors = _read_request(link)
        pid = os.fork()
        if pid == 0:
            link.close()
            _become(commands, request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        link.send(_end_of(pid, fd).to_bytes(4, "big"))
    finally:
        os._exit(0)


def _read_request(link: Any) -> tuple[dict[str, Any], list[int]]:
    """The command, and the descriptors for its input and output."""
    head, passed, _, _ = link.recvmsg(4, _socket.CMSG_SPACE(4 * DESCRIPTORS_MAX))
    raw = passed[0][2]
    descriptors = [int.from_bytes(raw[at : at + 4], sys.byteorder) for at in range(0, len(raw) // 4 * 4, 4)]
    remaining = min(int.from_bytes(head, "big"), REQUEST_BYTES_MAX)
    pieces = []
    while remaining > 0 and (piece := link.recv(remaining)):
        pieces.append(piece)
        remaining -= len(piece)
    request = json.loads(b"".join(pieces))
    return (request if isinstance(request, dict) else {"argv": request}), descriptors


def _become(commands: ExecCommands, request: dict[str, Any], descriptors: list[int]) -> None:
    """Exec the command. Never returns."""
    code, argv, env = NOT_EXECUTABLE, request["argv"], commands.env
    try:
        os.setsid()
        _end_with_parent()
        if request.get("terminal"):
            fcntl.ioctl(descriptors[0], termios.TIOCSCTTY, 0)
            descriptors, env = descriptors[:1] * 3, {"TERM": TERMINAL, **env}
        # A probe has an output, and nothing to read.
        numbers = (0, 1, 2) if len(descriptors) == DESCRIPTORS_MAX else (1, 2)
        for number in numbers:
            os.dup2(descriptors[number] if len(descriptors) == DESCRIPTORS_MAX else descriptors[0], number)
        os.closerange(3, 1 << 16)
        os.execve(commands.found(argv[0], env), argv, env)
    except FileNotFoundError as error:
        code = NOT_FOUND
        os.write(2, f"{error.strerror}: {error.filename}\n".encode())
    except (OSError, ValueError) as error:
        os.write(2, f"{getattr(error, 'strerror', None) or error}: {argv[0]}\n".encode())
    finally:
        os._exit(code)


def _end_of(pid: int, link: int) -> int:
    """The exit code. The command is killed when the agent closes the connection."""
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(link, select.POLLIN | select.POLLHUP)
    if all(fd != ended for fd, _ in poll.poll()):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
