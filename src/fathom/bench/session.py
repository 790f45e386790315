"""What every measurement needs around it: a server, a namespace of its own, and a look at the server's use
of memory and CPU."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from fathom.bench.child import cpu_s, machine_cpu_s, own_server, rss_mb
from fathom.bench.drive import Lane, Phase, drive
from fathom.bench.kubeconfig import BenchTarget, read_target
from fathom.bench.requests import Asker, expect
from fathom.bench.result import CoreUse, Server
from fathom.bench.wire import WireAnswer, WireConnection, connect


class Against(msgspec.Struct, frozen=True):
    """Which server to measure: that of a kubeconfig, or one that we start."""

    kubeconfig: Path | None = None
    pids: tuple[
        int, ...
    ] = ()  # Processes of the kubeconfig's server on this machine, for its memory and CPU.
    store: str | None = None
    parent: Path | None = None  # Where our own server's data goes.


class Session:
    """One server under measurement, and the connections to it."""

    def __init__(
        self,
        target: BenchTarget,
        server: Server,
        *,
        pids: tuple[int, ...],
        ready_s: float | None,
        kubeconfig: Path | None = None,
    ) -> None:
        self.target = target
        self.server = server
        self.ready_s = ready_s
        self.kubeconfig = kubeconfig
        self.pids = pids
        self._open: list[WireConnection] = []

    def connect(self, count: int) -> list[WireConnection]:
        opened = [connect(self.target) for _ in range(count)]
        self._open += opened
        return opened

    def close(self) -> None:
        for connection in self._open:
            connection.close()

    def rss_mb(self) -> float | None:
        return round(rss_mb(self.pids), 1) if self.pids else None

    def usage(self) -> ServerUsage:
        server_s = cpu_s(self.pids) if self.pids else None
        return ServerUsage(time.perf_counter(), time.process_time(), server_s, machine_cpu_s())

    def measure(self, connections: Sequence[WireConnection], lanes: Sequence[Lane]) -> tuple[Phase, CoreUse]:
        before = self.usage()
        phase = drive(connections, lanes)
        return phase, cores_between(before, self.usage())


class ServerUsage(msgspec.Struct, frozen=True):
    """Time and CPU time so far."""

    at_s: float
    driver_s: float
    server_s: float | None  # None: the server's processes are not known.
    machine_s: float


def cores_between(before: ServerUsage, after: ServerUsage) -> CoreUse:
    elapsed_s = after.at_s - before.at_s
    driver_s = after.driver_s - before.driver_s
    if before.server_s is None or after.server_s is None:
        return CoreUse(driver=round(driver_s / elapsed_s, 2))
    server_s = after.server_s - before.server_s
    # Ticks are hundredths of a second: what is left of a short phase may come out below nothing.
    others_s = max(0.0, after.machine_s - before.machine_s - driver_s - server_s)
    return CoreUse(*(round(seconds / elapsed_s, 2) for seconds in (driver_s, server_s, others_s)))


@contextlib.contextmanager
def session(against: Against) -> Iterator[Session]:
    with contextlib.ExitStack() as stack:
        if against.kubeconfig is not None:
            target = read_target(against.kubeconfig)
            server = Server(version=_version(target), own=False)
            opened = Session(target, server, pids=against.pids, ready_s=None, kubeconfig=against.kubeconfig)
        else:
            child = stack.enter_context(own_server(parent=against.parent, store=against.store))
            server = Server(_version(child.target), True, against.store or "sqlite", child.filesystem)
            opened = Session(
                child.target,
                server,
                pids=(child.pid,),
                ready_s=round(child.ready_s, 3),
                kubeconfig=child.kubeconfig,
            )
        # A server that is told to stop waits for its connections: close them first.
        stack.callback(opened.close)
        yield opened


@contextlib.contextmanager
def namespace(session: Session, *, object_bytes: int) -> Iterator[Asker]:
    """A new namespace, deleted afterwards: the user's cluster is left as it was."""
    asker = Asker(session.target, namespace=f"fathom-bench-{time.time_ns():x}", object_bytes=object_bytes)
    expect(ask(session.target, asker.create_namespace()), 201, "creating a namespace")
    try:
        yield asker
    finally:
        if not session.server.own:
            expect(ask(session.target, asker.delete_all()), 200, "deleting the objects")
            expect(ask(session.target, asker.delete_namespace()), 200, "deleting the namespace")


def ask(target: BenchTarget, request: bytes) -> WireAnswer:
    """One request on a connection of its own."""
    answers: list[WireAnswer] = []

    def once() -> Lane:
        answers.append((yield request))

    connection = connect(target)
    try:
        drive([connection], [once()])
    finally:
        connection.close()
    return answers[0]


class _Version(msgspec.Struct):
    text: str = msgspec.field(name="gitVersion", default="unknown version")


def _version(target: BenchTarget) -> str:
    request = Asker(target, namespace="", object_bytes=0).get(b"/version")
    answer = expect(ask(target, request), 200, "/version")
    return msgspec.json.decode(answer.body, type=_Version).text
