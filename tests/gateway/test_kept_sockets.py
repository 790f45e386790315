"""Listening sockets that outlive the process which listens."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import msgspec
import pytest

from fathom.gateway.proxy import Proxy
from fathom.gateway.routes import RouteListener
from fathom.kept_sockets import VARIABLE, KeptSockets, SocketKeeper, inherited
from fathom.seams.log import NoLog


def on_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


def restarted(keeper: SocketKeeper) -> KeptSockets:
    """The part, as it begins: in this process, with duplicates of what a child inherits."""
    inheritance, link = keeper.begin()
    with link:
        sockets = {name: os.dup(each) for name, each in inheritance.sockets.items()}
        whole = msgspec.structs.replace(inheritance, link=os.dup(inheritance.link), sockets=sockets)
        return inherited({VARIABLE: msgspec.json.encode(whole).decode()})


def listener(port: int) -> RouteListener:
    return RouteListener(service="default/web", address="127.0.0.1", port=port, endpoints=())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def made(kept: KeptSockets) -> Proxy:
    return Proxy(lambda pod, uid, reached: None, NoLog(), kept)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.01)


async def kept_by(keeper: SocketKeeper, *names: str) -> None:
    """The supervisor's loop has read the part's messages."""
    await until(lambda: sorted(keeper._sockets) == sorted(names))


def connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@on_a_loop
async def test_a_connection_waits_while_the_part_is_started_again() -> None:
    keeper, port = SocketKeeper(), free_port()
    first = made(restarted(keeper))
    assert (await first.apply((listener(port),))).failed == {}
    await kept_by(keeper, f"127.0.0.1 {port}")
    for server in first._servers.values():  # Killed: nothing is said to anybody.
        server.close()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as waiting:
        second = made(restarted(keeper))
        assert (await second.apply((listener(port),))).failed == {}
        waiting.settimeout(5)
        with pytest.raises(ConnectionResetError):  # It is carried; there is no endpoint to carry it to.
            await asyncio.to_thread(waiting.recv, 1)
    assert (await second.apply(())).listening == 0
    await kept_by(keeper)
    assert not connects(port)
    keeper.close()


@on_a_loop
async def test_a_part_that_ends_leaves_the_supervisor_in_peace() -> None:
    """The end of the link is readable for ever: the supervisor must not look again and again."""
    keeper, complaints = SocketKeeper(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    _, link = keeper.begin()
    link.close()
    await until(lambda: keeper._link is None)
    assert (complaints, keeper._link) == ([], None)


@on_a_loop
async def test_sockets_of_services_that_went_meanwhile_are_closed() -> None:
    keeper, port = SocketKeeper(), free_port()
    first = made(restarted(keeper))
    await first.apply((listener(port),))
    await kept_by(keeper, f"127.0.0.1 {port}")
    for server in first._servers.values():
        server.close()
    assert connects(port)
    await made(restarted(keeper)).apply(())
    await kept_by(keeper)
    assert not connects(port)
    keeper.close()


@on_a_loop
async def test_a_part_that_begins_anew_within_its_process_listens_again() -> None:
    keeper, port = SocketKeeper(), free_port()
    kept = restarted(keeper)
    first = made(kept)
    await first.apply((listener(port),))
    await kept_by(keeper, f"127.0.0.1 {port}")
    await first.close()
    second = made(kept)
    assert (await second.apply((listener(port),))).failed == {}
    assert connects(port)
    await second.close()
    keeper.close()
    kept.drop(f"127.0.0.1 {port}")
    await until(lambda: not connects(port))


@pytest.mark.parametrize("text", ["", "nonsense", "{}"])
def test_without_a_supervisor_nothing_is_kept(text: str) -> None:
    environ: dict[str, Any] = {VARIABLE: text} if text else {}
    kept = inherited(environ)
    assert (kept.take("127.0.0.1 1"), kept.unclaimed, environ) == (None, [], {})


@pytest.mark.live
@on_a_loop
async def test_a_child_inherits_the_sockets() -> None:
    keeper = SocketKeeper()
    with socket.create_server(("127.0.0.1", 0)) as own:
        kept = restarted(keeper)
        kept.keep("own", own.fileno())
        await kept_by(keeper, "own")
        port = own.getsockname()[1]
    inheritance, link = keeper.begin()
    code = (
        "import os; from fathom.kept_sockets import inherited;"
        "taken = inherited(os.environ).take('own'); print(taken.getsockname()[1])"
    )
    with link:
        done = subprocess.run(
            [sys.executable, "-c", code],
            pass_fds=(inheritance.link, *inheritance.sockets.values()),
            env={**os.environ, VARIABLE: msgspec.json.encode(inheritance).decode()},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == f"{port}\n"
    keeper.close()
