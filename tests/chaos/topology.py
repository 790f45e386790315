"""A control plane of many processes on one machine: three members of etcd, three API servers, two schedulers,
two controller processes, and agents. Each of them may be killed, or stand still, and is started again.
Servers may be cut off from etcd, schedulers and controllers from their server. A member's disk may be slow,
and the disk of a member, of an API server, of a scheduler or of a controller process may be full; the latter
needs root, and is left out elsewhere.

Where FATHOM_TEST_FAKETIME names libfaketime, each process has a wall clock of its own that is up to half a
minute wrong, and another one at each start.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from tests.chaos import slow_disk
from tests.chaos.links import Link, Links
from tests.chaos.small_disk import SmallDisk
from tests.chaos.victim import GONE, JSON, Answer, Client, Victim
from tests.store.engines import EtcdCluster, EtcdServer, etcd_survives_kills

SERVERS, SCHEDULERS, CONTROLLERS = 3, 2, 2
AGENTS, NODES_EACH = 4, 5
NODE_CPU = 4
CLOCK_WRONG_S = 30.0
FSYNC_S = 0.5  # A tenth of a second is much for a disk; a member's leader is given up after half a second.
# etcd sets 64 MB aside for its log, and again for the next one; a journal's first segment has 16 MB.
MEMBER_DISK, RECORDS_DISK = "320m", "96m"
ANSWER_S = 5.0  # A server that stands still does not answer: the next one is asked.


class Pausable(Protocol):
    """A process that may stand still, or links that may be cut."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Process(Pausable, Protocol):
    """What a fault needs of a process."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


def wrong_clock(rng: random.Random) -> dict[str, str] | None:
    """The environment of a process whose wall clock is wrong; None without libfaketime."""
    if not (library := os.environ.get("FATHOM_TEST_FAKETIME")):
        return None
    wrong = f"{rng.uniform(-CLOCK_WRONG_S, CLOCK_WRONG_S):+.1f}s"
    return {**os.environ, "LD_PRELOAD": library, "FAKETIME": wrong, "DONT_FAKE_MONOTONIC": "1"}


class Part:
    """`fathom serve …` until it is killed; `start` begins it anew."""

    def __init__(self, directory: Path, rng: random.Random, *words: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._rng = rng
        self.log = directory / "log"
        self._command = [sys.executable, "-m", "fathom.cli", "serve", *words]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=wrong_clock(self._rng)
            )

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


class PausableServer(Victim):
    """An API server that may also stand still."""

    def __init__(self, directory: Path, rng: random.Random, *arguments: str) -> None:
        super().__init__(directory, *arguments)
        self._rng = rng

    def start(self) -> None:
        self.env = wrong_clock(self._rng)
        super().start()

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)


class StoppedMember:
    """A member of etcd that is stopped and not killed, because its release would lose data."""

    def __init__(self, member: EtcdServer) -> None:
        self.start, self.pause, self.resume = member.start, member.pause, member.resume
        self.kill = member.stop


class Cut:
    """Links that are cut and healed together."""

    def __init__(self, links: list[Link]) -> None:
        self._links = links

    def pause(self) -> None:
        for link in self._links:
            link.cut()

    def resume(self) -> None:
        for link in self._links:
            link.heal()


class FullDisk:
    """The disk of a process is full, and then not any more. A process that ended for that is started again
    if it is one that may."""

    def __init__(self, disk: SmallDisk, may_end: EtcdServer | None = None) -> None:
        self._disk, self._may_end = disk, may_end

    def pause(self) -> None:
        self._disk.fill()

    def resume(self) -> None:
        self._disk.free()
        if self._may_end is not None and not self._may_end.alive:
            self._may_end.start()


class SlowDisk:
    """Every fsync of a member of etcd takes long."""

    def __init__(self, delay: Path) -> None:
        self._delay = delay

    def pause(self) -> None:
        self._delay.write_text(str(FSYNC_S))

    def resume(self) -> None:
        self._delay.write_text("0")


class AnyServer:
    """A client that asks the next server when one does not answer. One request at a time."""

    def __init__(self, servers: list[PausableServer], first: int) -> None:
        self._servers, self._at = servers, first
        self._client: Client | None = None

    def call(self, method: str, path: str, body: object = None, *, media: str = JSON) -> Answer | None:
        """None: nobody knows whether it has happened."""
        if self._client is None:
            self._client = self._servers[self._at % len(self._servers)].client(ANSWER_S)
        try:
            answer: Answer | None = self._client.call(method, path, body, media=media)
        except (*GONE, ValueError):  # Also half an answer.
            answer = None
        if answer is None or answer.status >= 500:
            self.move_on()
        return answer

    def move_on(self) -> None:
        self._at, self._client = self._at + 1, None


class Topology:
    def __init__(self, directory: Path, seed: str) -> None:
        self.directory = directory
        self._rng = random.Random(f"clocks {seed}")
        self._small_disks: list[SmallDisk] = []
        self.kills_members = etcd_survives_kills()
        member_disk = self._small_disk("etcd/m0", MEMBER_DISK) if self.kills_members else None
        slow = slow_disk.is_possible()
        self.etcd = EtcdCluster(directory / "etcd", self._with_slow_disk if slow else lambda _: ())
        self.slow_disks = [("disk of etcd", SlowDisk(self._delay(f"m{n}"))) for n in range(3) if slow]
        self.full_disks: list[tuple[str, FullDisk]] = []  # (whose disk it is, the disk)
        if member_disk is not None:
            self.full_disks.append(("disk of etcd", FullDisk(member_disk, self.etcd.members[0])))
        for what, name in (("api", "api-0"), ("scheduler", "scheduler-0"), ("controllers", "controllers-2")):
            if (disk := self._small_disk(f"{name}/data", RECORDS_DISK)) is not None:
                self.full_disks.append((f"disk of {what}", FullDisk(disk)))
        self._links = Links()
        self.cuts: list[tuple[str, Cut]] = []  # (who is cut off, from all that it needs)
        self.servers = [self._server(number) for number in range(SERVERS)]
        self._others: list[tuple[str, Part]] = []
        self.deciders: dict[str, Path] = {}  # Name -> data directory, of schedulers and controllers.

    def _small_disk(self, name: str, size: str) -> SmallDisk | None:
        try:
            disk = SmallDisk(self.directory / name, size)
        except OSError:
            return None  # Not root, or in a container that may not mount.
        self._small_disks.append(disk)
        return disk

    def _delay(self, member: str) -> Path:
        return self.directory / f"{member}.delay"

    def _with_slow_disk(self, member: str) -> list[str]:
        return [sys.executable, slow_disk.__file__, str(self._delay(member))]

    def start(self) -> None:
        self.servers[0].start()
        for server in self.servers[1:]:  # They trust the same authority.
            shutil.copytree(
                self.servers[0].data / "pki", server.data / "pki", ignore=shutil.ignore_patterns("server.*")
            )
            server.start()
        self._others = [
            *(self._decider("scheduler", number) for number in range(SCHEDULERS)),
            *(self._decider("controllers", number + SCHEDULERS) for number in range(CONTROLLERS)),
            *(self._agent(number) for number in range(AGENTS)),
        ]
        for _, part in self._others:
            part.start()

    def _server(self, number: int) -> PausableServer:
        links = [self._links.to(member.endpoint) for member in self.etcd.members]
        self.cuts.append(("api from etcd", Cut(links)))
        members = ",".join(f"127.0.0.1:{link.port}" for link in links)
        store = f"etcd://{members}?timeout=2"
        return PausableServer(self.directory / f"api-{number}", self._rng, "--store", store, "--drain", "0")

    def _decider(self, what: str, number: int) -> tuple[str, Part]:
        own, server = self.directory / f"{what}-{number}", self._server_of(number)
        address = urlsplit(server.url).netloc
        link = self._links.to(address)
        self.cuts.append((f"{what} from its server", Cut([link])))
        own.mkdir(exist_ok=True)
        kubeconfig = own / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        given = (server.data / "credentials" / what).read_text()
        kubeconfig.write_text(given.replace(address, f"127.0.0.1:{link.port}"))
        words = (what, "--kubeconfig", str(kubeconfig), "--data", str(own / "data"), "--record")
        self.deciders[own.name] = own / "data"
        return what, Part(own, self._rng, *words)

    def _agent(self, number: int) -> tuple[str, Part]:
        own = self.directory / f"agents-{number}"
        nodes = ("--node", f"group-{number}", "--nodes", str(NODES_EACH), "--zones", "a,b,c")
        size = ("--cpu", str(NODE_CPU), "--memory", "8Gi")
        up = ("--up", str(self._server_of(number).data), "--data", str(own / "data"))
        return "agent", Part(own, self._rng, "agent", *nodes, *size, *up, "--driver", "simulated")

    def _server_of(self, number: int) -> PausableServer:
        return self.servers[number % SERVERS]

    @property
    def processes(self) -> list[tuple[str, Process]]:
        """(what it is, the process)."""
        members: list[tuple[str, Process]] = [
            ("etcd", member if self.kills_members else StoppedMember(member)) for member in self.etcd.members
        ]
        return [*members, *(("api", server) for server in self.servers), *self._others]

    def client(self, first: int = 0) -> AnyServer:
        return AnyServer(self.servers, first)

    def dead(self) -> list[str]:
        """Processes that have ended by themselves, with the end of what they said."""
        logs = [
            *((name, part.alive, part.log) for name, part in self._others),
            *(("api", server.alive, server.log) for server in self.servers),
        ]
        return [f"{name}: {log.read_text()[-2000:]}" for name, alive, log in logs if not alive]

    def end_processes(self) -> None:
        """All but etcd."""
        ends: list[Callable[[], None]] = [part.kill for _, part in self._others]
        for end in [*ends, *(server.kill for server in self.servers if server.alive)]:
            end()

    def end(self) -> None:
        self.end_processes()
        for member in self.etcd.members:
            member.kill()
        for disk in self._small_disks:
            disk.unmount()
        self._links.close()
