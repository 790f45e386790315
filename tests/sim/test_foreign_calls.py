"""Calls of the standard library that public operators make, besides clocks, threads and HTTP: each waits in
virtual time, answers alike in every run, or is refused."""

from __future__ import annotations

import asyncio
import atexit
import faulthandler
import http.server
import importlib
import multiprocessing
import os
import platform
import queue
import random
import sched
import selectors
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import kubernetes.dynamic
import kubernetes.stream
import numpy.random
import pytest
import uvloop
from tests.sim.test_foreign_programs import results_of, run

from fathom.sim.foreign.programs import run_program
from fathom.sim.world.world import World

BEGAN_S = 1.0


# Threads.


def test_each_thread_has_its_own_values_in_a_local() -> None:
    def main(found: list[Any]) -> None:
        class Settings(threading.local):
            def __init__(self, name: str) -> None:
                self.name = name

        plain, settings = threading.local(), Settings("first")
        plain.value = 1
        settings.name = "changed"

        def other() -> None:
            found.append((getattr(plain, "value", None), settings.name))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        found.append((plain.value, settings.name))

    assert results_of(main) == [(None, "first"), (1, "changed")]


def test_a_pool_of_threads_works() -> None:
    def work(seconds: float) -> float:
        time.sleep(seconds)
        return time.monotonic()

    def main(found: list[Any]) -> None:
        with ThreadPool(2) as pool:
            found += pool.map(work, [3, 1])

    assert results_of(main) == [4.0, 2.0]


def test_the_official_client_works_in_its_pool() -> None:
    def main(found: list[Any]) -> None:
        kubernetes.config.load_kube_config()
        asked = kubernetes.client.VersionApi().get_code(async_req=True)
        found.append(asked.get().major)

    assert results_of(main) == ["1"]


def test_queues_and_events_of_multiprocessing_wait_in_virtual_time() -> None:
    def main(found: list[Any]) -> None:
        box: Any = multiprocessing.Queue()
        stop = multiprocessing.get_context("spawn").Event()
        threading.Timer(3, lambda: box.put("late")).start()
        found.append((box.get(), time.monotonic()))
        try:
            box.get(timeout=2)
        except queue.Empty:
            found.append(time.monotonic())
        found.append((stop.wait(5), time.monotonic()))

    assert results_of(main) == [("late", 4.0), 6.0, (False, 11.0)]


def test_a_pipe_that_is_empty_is_waited_for_in_virtual_time() -> None:
    def main(found: list[Any]) -> None:
        reading, writing = os.pipe()
        threading.Timer(5, lambda: os.write(writing, b"x")).start()
        found.append((os.read(reading, 10), time.monotonic()))
        os.close(reading)
        os.close(writing)

    assert results_of(main) == [(b"x", 6.0)]


# Clocks that were taken before: as a default, and by number.


class Cache:
    def __init__(self, timer: Callable[[], float] = time.monotonic) -> None:
        self.timer = timer


def test_a_clock_that_is_a_default_argument_is_virtual() -> None:
    def main(found: list[Any]) -> None:
        scheduler = sched.scheduler()
        scheduler.enter(5, 1, lambda: found.append(time.monotonic()))
        scheduler.run()
        found.append(Cache().timer())

    assert results_of(main) == [6.0, 6.0]


def test_clocks_by_number_are_virtual() -> None:
    def main(found: list[Any]) -> None:
        found.append(time.clock_gettime(time.CLOCK_MONOTONIC))
        found.append(time.clock_gettime_ns(time.CLOCK_REALTIME) == time.time_ns())

    assert results_of(main) == [BEGAN_S, True]


@pytest.mark.parametrize("library", [uvloop, asyncio])
def test_a_loop_of_uvloop_is_virtual(library: Any) -> None:
    async def nap() -> float:
        await asyncio.sleep(5)
        return asyncio.get_running_loop().time()

    def main(found: list[Any]) -> None:
        uvloop.install()
        found.append(library.run(nap()))

    policy = asyncio.get_event_loop_policy()
    try:
        assert results_of(main) == [6.0]
    finally:
        asyncio.set_event_loop_policy(policy)


# Signals, in programs whose threads do the work.


@pytest.mark.parametrize("blocks", [False, True])
def test_a_program_that_waits_for_a_signal_gets_it(blocks: bool) -> None:
    told: list[Any] = []

    def main() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        told.append((signal.sigwait({signal.SIGTERM, signal.SIGINT}), time.monotonic()))

    def pausing() -> None:
        signal.signal(signal.SIGTERM, lambda *_: told.append("handled"))
        signal.pause()
        told.append(time.monotonic())

    async def story(world: World) -> None:
        run_program(world, "program", main if blocks else pausing)
        await world.sleep(5)
        world.stop("program", grace_s=60)
        await world.sleep(5)

    assert run(story).violation is None
    assert told == [(signal.SIGTERM, 6.0)] if blocks else told == ["handled", 6.0]


# Files that would outlive a run.


def test_each_start_has_an_empty_temporary_folder_of_its_own() -> None:
    def main(found: list[Any]) -> None:
        with tempfile.NamedTemporaryFile() as file:
            found.append(Path(file.name).parent == Path(tempfile.gettempdir()))
        cache = Path(tempfile.gettempdir(), "cache.json")
        found.append(cache.exists())
        cache.write_text("{}")
        found.append(str(cache))

    first, second = results_of(main), results_of(main)
    assert first == second
    assert first[:2] == [True, False]
    assert str(os.getpid()) in first[2].split(os.sep), "two test runners would share it"
    assert not Path(first[2]).parent.exists()


def test_the_dynamic_client_asks_the_server_of_this_run_for_its_kinds() -> None:
    def main(found: list[Any]) -> None:
        kubernetes.config.load_kube_config()
        client = kubernetes.dynamic.DynamicClient(kubernetes.client.ApiClient())
        found.append(client.resources.get(api_version="v1", kind="ConfigMap").name)
        found.append(len(os.listdir(tempfile.gettempdir())))

    assert results_of(main) == ["configmaps", 1]


# The machine, and who else is on the network.


def test_a_program_knows_its_machine_by_its_own_name() -> None:
    def main(found: list[Any]) -> None:
        found += [os.uname().nodename, platform.node(), socket.gethostbyname(socket.gethostname())]
        asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # What many do to learn their address.
        asking.connect(("8.8.8.8", 80))
        found.append(asking.getsockname()[0])

    assert results_of(main) == ["program", "program", "10.244.0.7", "10.244.0.7"]


def test_datagrams_are_lost_and_unix_sockets_are_not_there() -> None:
    def main(found: list[Any]) -> None:
        metrics = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        found.append(metrics.sendto(b"handled:1|c", ("127.0.0.1", 8125)))
        try:
            socket.socket(socket.AF_UNIX).connect("/run/agent.sock")
        except FileNotFoundError:
            found.append("absent")

    assert results_of(main) == [11, "absent"]


def test_a_server_in_a_thread_can_be_shut_down() -> None:
    def main(found: list[Any]) -> None:
        server = http.server.ThreadingHTTPServer(("", 8080), http.server.BaseHTTPRequestHandler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        time.sleep(3)
        server.shutdown()
        found.append(round(time.monotonic()))

    assert results_of(main) == [4]


@pytest.mark.parametrize(
    "selector", [selectors.DefaultSelector, selectors.EpollSelector, selectors.PollSelector]
)
def test_a_selector_waits_for_sockets_in_virtual_time(selector: Any) -> None:
    def main(found: list[Any]) -> None:
        asking = socket.create_connection(("kubernetes", 443))
        with selector() as waiting:
            waiting.register(asking, selectors.EVENT_READ)
            found.append((waiting.select(timeout=3), time.monotonic()))
            asking.sendall(b"GET /version HTTP/1.1\r\nHost: kubernetes\r\n\r\n")
            ((key, events),) = waiting.select(timeout=3)
            found += [key.fileobj is asking, events, asking.recv(12)]
            waiting.unregister(asking)

    assert results_of(main) == [([], 4.0), True, selectors.EVENT_READ, b"HTTP/1.1 200"]


def test_what_listens_names_its_own_address() -> None:
    """Programs log where they listen, and look up the port that they were given."""

    def main(found: list[Any]) -> None:
        with socket.socket() as listening:
            listening.bind(("", 8443))
            listening.listen()
            found.append(listening.getsockname())

        async def serve() -> None:
            server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 8080)
            given = await asyncio.start_server(lambda reader, writer: None, port=0)
            found.append([listening.getsockname() for listening in server.sockets])
            found.append(given.sockets[0].getsockname()[1] > 0)
            server.close()
            await server.wait_closed()
            found.append((list(server.sockets), server.is_serving()))

        asyncio.run(serve())

    assert results_of(main) == [("0.0.0.0", 8443), [("127.0.0.1", 8080)], True, ([], False)]


def test_a_server_that_is_closed_ends_who_serves() -> None:
    async def main(found: list[Any]) -> None:
        server = await asyncio.start_server(lambda reader, writer: None, port=8080)
        asyncio.get_running_loop().call_later(5, server.close)
        try:
            await server.serve_forever()
        except asyncio.CancelledError:
            found.append(time.monotonic() - BEGAN_S)

    assert results_of(main) == [5.0]


def test_an_event_loop_sends_datagrams_which_are_lost() -> None:
    async def main(found: list[Any]) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            asyncio.DatagramProtocol, remote_addr=("statsd", 8125)
        )
        transport.sendto(b"handled:1|c")
        found.append(transport.is_closing())
        transport.close()
        found.append(transport.is_closing())

    assert results_of(main) == [False, True]


def test_a_program_writes_bytes_and_asks_for_tracebacks() -> None:
    async def story(world: World) -> None:
        def main() -> None:
            faulthandler.enable()
            faulthandler.dump_traceback_later(5)
            sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
            sys.stdout.buffer.write("grüß dich\n".encode())
            sys.stdout.flush()

        process = run_program(world, "program", main)
        await world.sleep(1)
        assert [list(machine.output.lines) for machine in process.machines] == [["grüß dich"]]  # type: ignore[attr-defined]

    assert run(story).violation is None


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("multiprocessing.Process.start", lambda: multiprocessing.Process(target=print).start()),
        ("multiprocessing.Process.start", lambda: multiprocessing.Pool(2)),
        ("os.execv", lambda: os.execv("/bin/true", ["true"])),
        ("os.posix_spawn", lambda: os.posix_spawn("/bin/true", ["true"], {})),
        ("os.spawnv", lambda: os.spawnv(os.P_NOWAIT, "/bin/true", ["true"])),
    ],
)
def test_no_program_starts_a_process(name: str, call: Callable[[], object]) -> None:
    async def story(world: World) -> None:
        run_program(world, "program", call)
        await world.sleep(5)

    violation = run(story).violation
    assert violation is not None
    assert violation.message.startswith(f"{name} was called:\n")


def test_a_command_in_a_pod_that_is_not_there_is_refused_as_by_a_server() -> None:
    def main(found: list[Any]) -> None:
        kubernetes.config.load_kube_config()
        execute = kubernetes.client.CoreV1Api().connect_get_namespaced_pod_exec
        try:
            kubernetes.stream.stream(execute, "absent", "default", command=["ls"], stdout=True)
        except kubernetes.client.ApiException as error:
            found.append("404 Not Found" in str(error))

    assert results_of(main) == [True]


def test_a_client_that_connects_from_c_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that stands for psycopg2, imported by the program."""
    (tmp_path / "psycopg2.py").write_text(
        "def _connect(dsn): return 'connected'\ndef connect(dsn): return _connect(dsn)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "psycopg2", raising=False)

    def main() -> None:
        importlib.import_module("psycopg2").connect("host=db")

    async def story(world: World) -> None:
        run_program(world, "program", main)
        await world.sleep(5)

    violation = run(story).violation
    assert violation is not None
    assert violation.message.startswith("psycopg2._connect was called:\n")
    assert "Replace it in the test by an object that answers." in violation.message
    assert sys.modules["psycopg2"].connect("host=db") == "connected"
    monkeypatch.delitem(sys.modules, "psycopg2")


# What an interpreter has once, and would carry from one run to the next.


def test_what_earlier_runs_did_does_not_change_the_next() -> None:
    def main(found: list[Any]) -> None:
        found += [tempfile.mktemp(), numpy.random.rand(), numpy.random.randint(1000, size=3).tolist()]
        found += [
            numpy.random.default_rng().integers(1000),
            random.random(),
            time.asctime(),
            os.times().elapsed,
        ]
        numpy.random.seed(3)
        found.append(numpy.random.rand() == numpy.random.RandomState(3).rand())

    first = results_of(main)
    results_of(main, seed="2")
    assert results_of(main) == first
    assert first[-3:] == ["Thu Jan  1 00:00:01 2026", BEGAN_S, True]


def test_futures_and_threads_in_sets_have_the_same_order_in_every_run() -> None:
    def main(found: list[Any]) -> None:
        with ThreadPoolExecutor(5) as pool:
            futures = [pool.submit(abs, number) for number in range(20)]
            time.sleep(1)
            found.append([future.result() for future in wait(futures).done])
            found.append([future.result() for future in as_completed(futures)])
        threads = [threading.Thread() for _ in range(20)]
        found.append([threads.index(thread) for thread in set(threads)])

    assert results_of(main) == results_of(main)
    assert len({threading.Thread(), threading.Thread()}) == 2


# The end of a program.


def test_a_program_ends_when_its_threads_have_ended_and_then_cleans_up(tmp_path: Path) -> None:
    found: list[Any] = []

    def work(name: str, seconds: float) -> None:
        time.sleep(seconds)
        found.append((name, time.monotonic()))

    def main() -> None:
        pool = ThreadPoolExecutor(2)
        pool.submit(work, "pool", 5)
        atexit.register(lambda: found.append(("registered first", time.monotonic())))
        atexit.register(found.append, "registered last")
        threading.Thread(target=work, args=["thread", 9]).start()
        threading.Thread(target=time.sleep, args=[1000], daemon=True).start()
        raise SystemExit(3)

    async def story(world: World) -> None:
        process = run_program(world, "program", main, restart=False)
        await world.sleep(8)
        assert [machine.ending for machine in process.machines] == [""]
        await world.sleep(3)
        assert [machine.ending for machine in process.machines] == ["ends with SystemExit: 3"]

    result = run(story)
    assert result.violation is None, result.violation
    assert found == [("pool", 6.0), ("thread", 10.0), "registered last", ("registered first", 10.0)]


def test_a_program_that_is_killed_cleans_nothing_up() -> None:
    def main(found: list[Any]) -> None:
        atexit.register(found.append, "cleaned up")
        os._exit(0)

    assert results_of(main) == []


def test_the_end_of_a_run_is_not_the_end_of_a_program() -> None:
    """Nothing is printed that the report would show as its last words, and nothing is cleaned up."""
    found: list[Any] = []
    machines: list[Any] = []

    def main() -> None:
        atexit.register(found.append, "cleaned up")
        try:
            time.sleep(1000)
        finally:
            raise RuntimeError("in the middle of something")

    async def story(world: World) -> None:
        process = run_program(world, "program", main)
        await world.sleep(5)
        machines.extend(process.machines)

    assert run(story).violation is None
    assert (found, [machine.last_lines for machine in machines]) == ([], [[]])
