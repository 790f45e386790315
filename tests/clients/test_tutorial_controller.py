"""The tutorial's controller against real servers: over HTTP and in process, on every store, through a sudden
death, and with answers that get lost after the write was made."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import ADMIN, Api, serving
from tests.clients.running import Server, running, server_of
from tests.control.greetings import EXAMPLES, definition, example, greeting
from tests.store.engines import EtcdServer, Place, bounds_of, running_etcd

from fathom.api.request import Response
from fathom.client.http import HttpBackend
from fathom.client.servers import find_server
from fathom.control.live import ENTRY, run_live
from fathom.control.process import ControllerSettings
from fathom.record.journal import DiskJournal, read_journal
from fathom.record.recorded_process import RecordedProcess
from fathom.record.replay import replay
from fathom.record.tape import DiskTape, reels
from fathom.seams.host import Host
from fathom.seams.outside import SystemClock, live
from fathom.seams.seam import Ask, Input

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WITHIN_S = 60.0


def greetings(namespace: str) -> str:
    return f"/apis/example.dev/v1/namespaces/{namespace}/greetings"


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def define(server: Server) -> None:
    """Once for all tests that share a server."""
    there = server.request("GET", DEFINITIONS)["items"]
    if definition()["metadata"]["name"] not in [one["metadata"]["name"] for one in there]:
        server.request("POST", DEFINITIONS, definition())


def is_settled(obj: Any) -> bool:
    """Ready, for the generation that is there now."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    said = {one["type"]: (one["status"], one.get("observedGeneration")) for one in conditions}
    return said.get("Ready") == ("True", obj["metadata"]["generation"])


def wait_until_settled(server: Server, namespace: str, *names: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        found = [server.request("GET", f"{greetings(namespace)}/{name}") for name in names]
        if all(is_settled(one) for one in found):
            return
        assert time.monotonic() < deadline, json.dumps(found, indent=1)
        time.sleep(0.1)


def copies(items: list[Any]) -> dict[str, str]:
    return {one["metadata"]["name"]: one["data"]["message"] for one in items if "message" in one["data"]}


@contextmanager
def controller(kubeconfig: Path, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """As the tutorial starts it. It must stop cleanly when it is told to."""
    command = [sys.executable, "-m", "fathom.control.live", "greeting:Greetings", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--kubeconfig", str(kubeconfig)], cwd=EXAMPLES, stdout=output, stderr=output
        )
    try:
        yield process
        assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, log.read_text()
        assert "Traceback" not in log.read_text(), log.read_text()
    finally:
        process.kill()
        process.wait()


def test_the_tutorial_converges_over_http(server: Server, namespace: str, tmp_path: Path) -> None:
    define(server)
    with controller(server.kubeconfig, tmp_path / "log", "--lease", f"{namespace}/greetings"):
        server.request("POST", greetings(namespace), greeting("hi", copies=3))
        wait_until_settled(server, namespace, "hi")
        made = server.request("GET", maps(namespace))["items"]
        assert copies(made) == {f"hi-{slot}": "hello" for slot in range(3)}
        server.patch(f"{greetings(namespace)}/hi", {"spec": {"copies": 1, "message": "bye"}})
        wait_until_settled(server, namespace, "hi")
        assert copies(server.request("GET", maps(namespace))["items"]) == {"hi-0": "bye"}
    lease = server.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/greetings")
    assert "holderIdentity" not in lease["spec"]


def test_the_tutorial_converges_on_etcd(tmp_path: Path) -> None:
    with running_etcd() as etcd, running(tmp_path, "--store", f"etcd://{etcd.endpoint}") as server:
        define(server)
        with controller(server.kubeconfig, tmp_path / "controller.log"):
            for number in range(3):
                server.request("POST", greetings("default"), greeting(f"g{number}", copies=number + 1))
            wait_until_settled(server, "default", "g0", "g1", "g2")
            assert len(copies(server.request("GET", maps("default"))["items"])) == 6


# A server that dies without a word, and comes back at the same address.


class Mortal:
    def __init__(self, directory: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.data, self.log = directory / "data", directory / "log"
        self._command = [
            sys.executable,
            "-m",
            "fathom.cli",
            "serve",
            "api",
            "--data",
            str(self.data),
            "--port",
            str(port),
        ]
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        with self.log.open("a") as errors:
            self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        assert any(line == "ready\n" for line in self.process.stdout), self.log.read_text()
        return self.process

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    @property
    def server(self) -> Server:
        url = (self.data / "kubeconfig").read_text().split("server: ")[1].split()[0].strip('"')
        return server_of(self.process, url, self.data, self.log)


def test_the_tutorial_converges_through_the_death_of_its_server(tmp_path: Path) -> None:
    mortal = Mortal(tmp_path)
    try:
        define(mortal.server)
        with controller(mortal.data / "kubeconfig", tmp_path / "controller.log"):
            wanted = {f"g{number}": 20 + number for number in range(6)}
            for name, count in wanted.items():
                mortal.server.request("POST", greetings("default"), greeting(name, copies=count))
            while len(mortal.server.request("GET", maps("default"))["items"]) < 10:
                time.sleep(0.01)
            mortal.kill()  # In the middle of it.
            time.sleep(1.0)
            mortal.start()
            wait_until_settled(mortal.server, "default", *wanted)
            made = copies(mortal.server.request("GET", maps("default"))["items"])
            assert sorted(made) == sorted(
                f"{name}-{slot}" for name, count in wanted.items() for slot in range(count)
            )
    finally:
        mortal.kill()


# Answers that are lost after the write was made.


class LossyBackend(HttpBackend):
    """Of every third write, the connection breaks before the answer comes. The server has done it."""

    def __init__(self, host: Host, server: Any) -> None:
        super().__init__(host, server)
        self._asks: dict[int, Ask] = {}
        self.writes = self.lost = 0
        post = host.post

        def tampered(kind: Input, number: int, status: int = 0, payload: bytes = b"") -> None:
            ask = self._asks.pop(number, None)
            if kind is Input.REPLY and ask is not None and ask.method != "GET" and 200 <= status < 300:
                self.writes += 1
                if self.writes % 3 == 0:
                    self.lost += 1
                    status, payload = 0, b"the connection was reset"
            post(kind, number, status, payload)

        self._host = _Posting(tampered)  # type: ignore[assignment]  # all that it uses of a host

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        self._asks[number] = ask
        super().start(number, ask, stream=stream)


class _Posting:
    def __init__(self, post: Any) -> None:
        self.post = post


def test_answers_that_are_lost_after_the_commit_make_no_duplicates(
    server: Server, namespace: str, tmp_path: Path
) -> None:
    define(server)
    example()
    backends: list[LossyBackend] = []

    def connect(host: Host) -> LossyBackend:
        target = find_server(server.kubeconfig, clock=SystemClock(), environ={})
        backends.append(LossyBackend(host, target))
        return backends[-1]

    options = {"controllers": ["greeting:Greetings"], "namespace": namespace}
    flight = RecordedProcess(ENTRY, options, connect=connect, outside=live())

    async def main() -> None:
        running_ = asyncio.create_task(flight.run())
        await asyncio.to_thread(wait_until_settled, server, namespace, "a", "b")
        flight.stop()
        await running_

    for name in ("a", "b"):
        server.request("POST", greetings(namespace), greeting(name, copies=10))
    asyncio.run(main())
    made = server.request("GET", maps(namespace))["items"]
    assert sorted(copies(made)) == sorted(f"{name}-{slot}" for name in "ab" for slot in range(10))
    assert backends[0].lost >= 6


# In process, on every store.


class InProcess:
    """A Seam's backend that calls the server in the same process, without a socket."""

    def __init__(self, host: Host, api: Api) -> None:
        self._host = host
        self._api = api
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        self._tasks[number] = self._host._loop.create_task(self._serve(number, ask, stream))

    def cancel(self, number: int) -> None:
        task = self._tasks.pop(number, None)
        if task is not None:
            self._host._loop.call_soon(task.cancel)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _serve(self, number: int, ask: Ask, stream: bool) -> None:
        answer = await self._api.raw(
            ask.method, ask.target, ask.body or None, token=ADMIN, headers=dict(ask.headers)
        )
        if isinstance(answer, Response):
            kind = Input.OPENED if stream else Input.REPLY
            self._host.post(kind, number, answer.status, answer.body)
            return
        self._host.post(Input.OPENED, number, 200)
        while (chunk := await answer.source.next()) is not None:
            self._host.post(Input.CHUNK, number, 0, chunk)
        self._host.post(Input.ENDED, number)


@pytest.fixture(scope="module")
def etcd_server() -> Iterator[EtcdServer]:
    with running_etcd("--experimental-watch-progress-notify-interval=200ms") as started:
        yield started


@pytest.mark.parametrize("engine", ["memory", "sqlite", "etcd"])
def test_the_tutorial_converges_in_process(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    example()
    etcd = request.getfixturevalue("etcd_server") if engine == "etcd" else None
    with bounds_of(engine):
        place = Place(engine, tmp_path / "store", etcd)

    async def story(api: Api) -> None:
        flight = RecordedProcess(
            ENTRY,
            {"controllers": ["greeting:Greetings"], "lease": "default/greetings"},
            connect=lambda host: InProcess(host, api),
            outside=live(),
        )
        running_ = asyncio.create_task(flight.run())
        assert (await api.post(DEFINITIONS, definition())).status == 201
        assert (await api.post(greetings("default"), greeting("hi", copies=4))).status == 201

        async def settled() -> bool:
            return is_settled((await api.get(f"{greetings('default')}/hi")).obj)

        await api.eventually(settled, timeout_s=WITHIN_S)
        made = (await api.get(maps("default"))).obj["items"]
        assert copies(made) == {f"hi-{slot}": "hello" for slot in range(4)}
        flight.stop()
        await running_

    async def main() -> None:
        async with serving(tmp_path, place.open(), shared_store=engine == "etcd") as api:
            await story(api)

    asyncio.run(main())


# On the record.


def test_what_the_tutorial_did_is_on_record_and_replays_exactly(
    server: Server, namespace: str, tmp_path: Path
) -> None:
    define(server)
    example()
    target = find_server(server.kubeconfig, clock=SystemClock(), environ={})
    tape, journal = DiskTape(tmp_path / "tape"), DiskJournal(tmp_path / "journal")

    async def main() -> None:
        stop = asyncio.Event()
        settings = ControllerSettings(controllers=("greeting:Greetings",), namespace=namespace)
        running_ = asyncio.create_task(run_live(settings, target, stop=stop, tape=tape, journal=journal))
        await asyncio.to_thread(wait_until_settled, server, namespace, *(f"g{n}" for n in range(5)))
        stop.set()
        await running_

    for number in range(5):
        server.request("POST", greetings(namespace), greeting(f"g{number}", copies=number))
    asyncio.run(main())
    tape.close()
    journal.close()
    reel = reels(tmp_path / "tape")[0]
    again = replay(reel.records())
    kept = read_journal(tmp_path / "journal")
    assert (again.matched, again.first_divergence, again.decisions) == (True, None, len(kept))
    assert again.writes >= 10
    assert {one.result for record in kept for one in record.outcomes} == {"committed"}


def test_a_controller_that_is_not_there_is_one_line(server: Server, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fathom.control.live", "greeting:Nobody"]
    done = subprocess.run(
        [*command, "--kubeconfig", str(server.kubeconfig)],
        cwd=EXAMPLES, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "there is no controller 'greeting:Nobody'" in done.stderr
