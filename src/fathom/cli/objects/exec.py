"""`fathom exec`: run a command in a container."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import aiohttp
import msgspec
from cyclopts import Parameter

from fathom.cli.api_server import ServerConnection
from fathom.cli.objects.logs import pods_named
from fathom.cli.objects.websocket import PodConnections
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
PROTOCOL = "v5.channel.k8s.io"
READ_BYTES = 32 << 10

Container = Annotated[
    str, Parameter(name=("--container", "-c"), help="Default: the pod's first, or the one it names as such.")
]
Read = Callable[[], bytes]
Write = Callable[[int, bytes], None]


def exec_(
    *words: Annotated[
        str,
        Parameter(
            name="POD|KIND/NAME -- COMMAND",
            help="A pod, or what owns pods; then a command and its arguments.",
        ),
    ],
    container: Container = "",
    stdin: Annotated[
        bool, Parameter(name=("--stdin", "-i"), negative=(), help="Pass standard input to the command.")
    ] = False,
    terminal: Annotated[
        bool, Parameter(name=("--tty", "-t"), negative=(), help="Run it in a terminal.")
    ] = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Run a command in a container, inside its isolation.

    Prints what the command writes; the exit code is the command's.

    fathom exec web-1 -- ls -l /pod
    fathom exec -it deployment/web -c main -- sh
    """
    if len(words) < 2:
        raise Problem("name a pod and a command: fathom exec web-1 -- ls -l")
    at = chosen_namespace(namespace, kubeconfig)
    pod = pods_named(ServerConnection(found_kubeconfig(kubeconfig)), words[:1], at, "")[0]
    chosen = container_of(pod, container)
    is_terminal = terminal and stdin and sys.stdin.isatty()
    if terminal and not is_terminal:
        say("Unable to use a TTY - input is not a terminal or the right kind of file", err=True)
    options = [("container", chosen), ("stdout", "true")]
    options += [("stdin", "true")] if stdin else []
    options += [("tty", "true")] if is_terminal else [("stderr", "true")]
    query = [*options, *(("command", word) for word in words[1:])]
    connections = PodConnections(found_kubeconfig(kubeconfig), at, str(pod["metadata"]["name"]))
    with raw_terminal() if is_terminal else contextlib.nullcontext():
        return asyncio.run(
            run_command(connections, query, _read_stdin if stdin else None, _write, resize=is_terminal)
        )


def container_of(pod: dict[str, Any], requested: str) -> str:
    """Raises Problem."""
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    names = [str(each["name"]) for each in spec.get("containers") or ()]
    initial = [str(each["name"]) for each in spec.get("initContainers") or ()]
    if requested and requested not in {*names, *initial}:
        listed = ", ".join([*names, *(f"{each} (init)" for each in initial)])
        raise Problem(f"pod {name} has no container {requested!r}; it has {listed}", exit_code=ANSWER_IS_NO)
    if requested:
        return requested
    default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container", "")
    if default in names:
        return str(default)
    if len(names) > 1:
        say(f'Defaulted container "{names[0]}" out of: {", ".join(names)}', err=True)
    return names[0]


async def run_command(
    connections: PodConnections,
    query: list[tuple[str, str]],
    read: Read | None,
    write: Write,
    *,
    resize: bool = False,
) -> int:
    """The exit code. `read`: what the command reads; it blocks, and returns nothing at the end."""
    async with connections.open("exec", query, PROTOCOL) as websocket:
        tasks: list[asyncio.Future[None]] = []
        if read is not None:
            tasks.append(asyncio.ensure_future(_send_input(websocket, read)))
        if resize:
            _follow_size(websocket, tasks)
        try:
            return await _receive_output(websocket, write)
        finally:
            for task in tasks:
                task.cancel()


async def _receive_output(websocket: aiohttp.ClientWebSocketResponse, write: Write) -> int:
    async for message in websocket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == ERROR:
            return exit_code(data)
        if data:
            write(channel, data)
    raise Problem("the connection was lost before the command ended", exit_code=ANSWER_IS_NO)


def exit_code(status: bytes) -> int:
    """Of a Status. Raises Problem if no command ran."""
    try:
        answer = msgspec.json.decode(status, type=dict[str, Any])
    except msgspec.MsgspecError:
        raise Problem(status.decode("utf-8", "replace"), exit_code=ANSWER_IS_NO) from None
    if answer.get("status") == "Success":
        return 0
    for cause in (answer.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdigit():
            return int(cause["message"])
    raise Problem(str(answer.get("message") or "the command failed"), exit_code=ANSWER_IS_NO)


async def _send_input(websocket: aiohttp.ClientWebSocketResponse, read: Read) -> None:
    """A thread reads, because a file cannot be waited for; it reads on when its last piece is sent."""
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[bytes](1)

    def work() -> None:
        with contextlib.suppress(RuntimeError, asyncio.CancelledError):  # The command has ended.
            while True:
                piece = read()
                asyncio.run_coroutine_threadsafe(pieces.put(piece), loop).result()
                if not piece:
                    return

    threading.Thread(target=work, daemon=True).start()
    with contextlib.suppress(ConnectionError):
        while piece := await pieces.get():
            await websocket.send_bytes(bytes((STDIN,)) + piece)
        await websocket.send_bytes(bytes((CLOSE, STDIN)))


def _follow_size(websocket: aiohttp.ClientWebSocketResponse, tasks: list[asyncio.Future[None]]) -> None:
    """Tell the size of our terminal now, and whenever it changes."""

    def tell() -> None:
        size = shutil.get_terminal_size()
        message = msgspec.json.encode({"Width": size.columns, "Height": size.lines})
        tasks.append(asyncio.ensure_future(websocket.send_bytes(bytes((RESIZE,)) + message)))

    for variable in ("COLUMNS", "LINES"):
        os.environ.pop(variable, None)  # They do not change with the terminal.
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, tell)
    tell()


def _read_stdin() -> bytes:
    try:
        return os.read(0, READ_BYTES)
    except OSError:
        return b""


def _write(channel: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(2 if channel == STDERR else 1, rest) :]


@contextlib.contextmanager
def raw_terminal() -> Iterator[None]:
    """Every key goes to the command, also Ctrl-C."""
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
