"""Bytes through real sockets: to somebody who answers, past somebody who does not."""

from __future__ import annotations

import asyncio
import errno
import resource
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fathom.gateway.proxy import UNSEEN_MAX, AppliedRoutes, Proxy, why_not
from fathom.gateway.routes import RouteEndpoint, RouteListener
from fathom.gateway.streams import break_off
from fathom.seams.log import NoLog

Seen = list[tuple[str, bool]]


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 20))


@asynccontextmanager
async def answering(word: bytes, address: str) -> Any:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = await reader.read()
        writer.write(word + b" heard " + said)
        writer.close()

    server = await asyncio.start_server(answer, address, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def asked(port: int, text: bytes, address: str = "127.97.0.9") -> bytes:
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(text)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def free_port(address: str) -> int:
    server = await asyncio.start_server(lambda *_: None, address, 0)
    port = int(server.sockets[0].getsockname()[1])
    server.close()
    await server.wait_closed()
    return port


def proxy(seen: Seen) -> Proxy:
    return Proxy(lambda pod, uid, reached: seen.append((pod, reached)), NoLog())


def test_a_connection_reaches_a_pod_and_both_sides_end_when_they_have_said_all() -> None:
    async def story() -> None:
        seen: Seen = []
        gateway = proxy(seen)
        async with answering(b"a", "127.64.0.1") as port:
            here = await free_port("127.97.0.9")
            table = (
                RouteListener(
                    "127.97.0.9", here, "s/web", endpoints=(RouteEndpoint("127.64.0.1", port, "s/a"),)
                ),
            )
            assert await gateway.apply(table) == AppliedRoutes(1, {})
            assert await asked(here, b"x" * 1_000_000) == b"a heard " + b"x" * 1_000_000
            assert seen == [("s/a", True)]
            await gateway.close()

    run(story)


def test_who_does_not_answer_is_passed_over() -> None:
    async def story() -> None:
        gateway = proxy([])
        async with answering(b"a", "127.64.0.1") as port:
            dead = RouteEndpoint("127.64.0.2", await free_port("127.64.0.2"), "s/dead")
            here = await free_port("127.97.0.9")
            alive = RouteEndpoint("127.64.0.1", port, "s/a")
            await gateway.apply((RouteListener("127.97.0.9", here, "s/web", endpoints=(alive, dead)),))
            assert [await asked(here, b"") for _ in range(6)] == [b"a heard "] * 6
            await gateway.close()

    run(story)


def test_a_service_without_pods_is_a_connection_that_is_reset() -> None:
    async def story() -> None:
        gateway = proxy([])
        here = await free_port("127.97.0.9")
        await gateway.apply((RouteListener("127.97.0.9", here, "s/none"),))
        with pytest.raises(ConnectionResetError):
            await asked(here, b"hello")
        await gateway.close()

    run(story)


def test_an_answer_that_breaks_off_does_not_look_whole() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"half of it")
        await writer.drain()
        await reader.readexactly(1)
        break_off(writer)

    async def story() -> None:
        gateway = proxy([])
        server = await asyncio.start_server(half, "127.64.0.1", 0)
        here = await free_port("127.97.0.9")
        pod = RouteEndpoint("127.64.0.1", server.sockets[0].getsockname()[1], "s/a")
        await gateway.apply((RouteListener("127.97.0.9", here, "s/web", endpoints=(pod,)),))
        reader, writer = await asyncio.open_connection("127.97.0.9", here)
        assert await reader.readexactly(10) == b"half of it"
        writer.write(b"x")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        server.close()
        await gateway.close()

    run(story)


def test_every_port_that_cannot_be_listened_on_is_said() -> None:
    async def story() -> None:
        gateway = proxy([])
        async with answering(b"a", "127.97.0.9") as one, answering(b"b", "127.97.0.9") as other:
            table = tuple(RouteListener("127.97.0.9", port, "s/web") for port in (one, other))
            applied = await gateway.apply(table)
            assert [str(port) in applied.failed["s/web"] for port in (one, other)] == [True, True]
        await gateway.close()

    run(story)


def test_a_pod_is_reached_when_one_of_its_ports_is() -> None:
    async def story() -> None:
        seen: Seen = []
        gateway = proxy(seen)
        async with answering(b"a", "127.64.0.1") as port:
            here, there = await free_port("127.97.0.9"), await free_port("127.97.0.8")
            silent = RouteEndpoint("127.64.0.1", await free_port("127.64.0.1"), "s/a", "1")
            open_ = RouteEndpoint("127.64.0.1", port, "s/a", "1")
            await gateway.apply(
                (
                    RouteListener("127.97.0.9", here, "s/web", endpoints=(open_,)),
                    RouteListener("127.97.0.8", there, "s/more", endpoints=(silent,)),
                )
            )
            for _ in range(UNSEEN_MAX + 1):
                for each in (open_, silent):
                    await gateway._look(each)
            assert seen == [("s/a", True)]
            await gateway.close()

    run(story)


def test_a_gateway_that_stops_ends_what_it_carries_without_complaint() -> None:
    async def story() -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        gateway = proxy([])
        async with answering(b"a", "127.64.0.1") as port:
            here = await free_port("127.97.0.9")
            pod = RouteEndpoint("127.64.0.1", port, "s/a")
            await gateway.apply((RouteListener("127.97.0.9", here, "s/web", endpoints=(pod,)),))
            reader, writer = await asyncio.open_connection("127.97.0.9", here)
            while not gateway._connections:
                await asyncio.sleep(0.01)
            await gateway.close()
            assert await reader.read() == b""
            writer.close()
            await asyncio.sleep(0)
        assert complaints == []

    run(story)


def test_many_who_come_at_once_are_all_served() -> None:
    async def story() -> None:
        gateway = proxy([])
        async with answering(b"a", "127.64.0.1") as port:
            here = await free_port("127.97.0.9")
            pod = RouteEndpoint("127.64.0.1", port, "s/a")
            await gateway.apply((RouteListener("127.97.0.9", here, "s/web", endpoints=(pod,)),))
            answers = await asyncio.gather(*(asked(here, b"") for _ in range(300)))
            assert answers == [b"a heard "] * 300
            await gateway.close()

    run(story)


def test_an_address_that_is_taken_is_said_and_the_others_are_served() -> None:
    async def story() -> None:
        gateway = proxy([])
        async with answering(b"a", "127.97.0.9") as taken:
            free = await free_port("127.97.0.9")
            applied = await gateway.apply(
                (RouteListener("127.97.0.9", taken, "s/taken"), RouteListener("127.97.0.9", free, "s/web"))
            )
            assert (applied.listening, list(applied.failed)) == (1, ["s/taken"])
            await gateway.close()

    run(story)


def test_a_listener_that_is_no_longer_wanted_is_closed_and_a_new_table_keeps_the_others_open() -> None:
    async def story() -> None:
        gateway = proxy([])
        async with answering(b"a", "127.64.0.1") as one, answering(b"b", "127.64.0.1") as other:
            here, there = await free_port("127.97.0.9"), await free_port("127.97.0.9")
            first = RouteListener("127.97.0.9", here, "s/web", endpoints=(RouteEndpoint("127.64.0.1", one),))
            await gateway.apply((first, RouteListener("127.97.0.9", there, "s/old")))
            second = RouteListener(
                "127.97.0.9", here, "s/web", endpoints=(RouteEndpoint("127.64.0.1", other),)
            )
            assert await gateway.apply((second,)) == AppliedRoutes(1, {})
            assert await asked(here, b"") == b"b heard "
            try:
                await asked(there, b"")
            except OSError:
                pass
            else:
                raise AssertionError("somebody still listens for a service that is gone")
            await gateway.close()

    run(story)


def test_pods_are_looked_at_before_anybody_asks_for_them() -> None:
    async def story() -> None:
        seen: Seen = []
        gateway = proxy(seen)
        async with answering(b"a", "127.64.0.1") as port:
            simulated = RouteEndpoint("192.0.2.1", 80, "s/simulated", real=False)
            here = await free_port("127.97.0.9")
            endpoints = (RouteEndpoint("127.64.0.1", port, "s/a"), simulated)
            await gateway.apply((RouteListener("127.97.0.9", here, "s/web", endpoints=endpoints),))
            looking = asyncio.create_task(gateway.probe_for_ever())
            while len(seen) < 2:
                await asyncio.sleep(0.01)
            looking.cancel()
            assert sorted(seen) == [("s/a", True), ("s/simulated", True)]
            await gateway.close()

    run(story)


def test_a_pod_that_says_it_is_ready_before_it_listens_is_reached_as_soon_as_it_does() -> None:
    async def story() -> None:
        seen: Seen = []
        gateway = proxy(seen)
        looking = asyncio.create_task(gateway.probe_for_ever())
        here, port = await free_port("127.97.0.9"), await free_port("127.64.0.1")
        late = RouteEndpoint("127.64.0.1", port, "s/late")
        await gateway.apply((RouteListener("127.97.0.9", here, "s/web", endpoints=(late,)),))
        await asyncio.sleep(0.05)
        assert seen == []
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.64.0.1", port)
        while not seen:
            await asyncio.sleep(0.01)
        assert seen == [("s/late", True)]
        looking.cancel()
        server.close()
        await gateway.close()

    asyncio.run(asyncio.wait_for(story(), 4))  # Sooner than everybody is looked at again.


def test_want_of_files_is_not_held_against_a_pod() -> None:
    async def story() -> None:
        seen: Seen = []
        gateway = proxy(seen)
        async with answering(b"a", "127.64.0.1") as port:
            pod = RouteEndpoint("127.64.0.1", port, "default/a", "u1")
            given = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, given[1]))
            try:
                for _ in range(UNSEEN_MAX):
                    await gateway._look(pod)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, given)
            assert seen == []
            await gateway._look(pod)
            assert seen == [("default/a", True)]

    run(story)


def test_an_endpoint_that_has_left_the_table_is_not_looked_at_any_more() -> None:
    async def story() -> None:
        seen: Seen = []
        gateway = proxy(seen)
        looking = asyncio.create_task(gateway.probe_for_ever())
        here, port = await free_port("127.97.0.9"), await free_port("127.64.0.1")
        gone = RouteEndpoint("127.64.0.1", port, "s/gone")
        await gateway.apply((RouteListener("127.97.0.9", here, "s/web", endpoints=(gone,)),))
        await asyncio.sleep(0.05)
        await gateway.apply((RouteListener("127.97.0.9", here, "s/web"),))
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.64.0.1", port)
        await asyncio.sleep(0.5)
        assert seen == []
        looking.cancel()
        server.close()
        await gateway.close()

    run(story)


def test_a_port_that_needs_root_is_said_with_the_way_out() -> None:
    assert why_not(OSError(errno.EACCES, "no"), 80) == (
        "ports below 1024 need root: give the service another port, or allow this one: "
        "sudo sysctl net.ipv4.ip_unprivileged_port_start=80"
    )
    assert why_not(OSError(errno.EADDRINUSE, "asyncio's words"), 80) == "Address already in use"
