"""Three members of etcd, three API servers, two schedulers, two controller processes and twenty nodes, under
load, while members and processes are killed, stand still, or are cut off from each other, and while disks are
slow or full.

    FATHOM_CHAOS_S=600 [FATHOM_TEST_ETCD=DIR] [FATHOM_TEST_FAKETIME=LIBRARY] script/test --full -n 0 -s FILE

DIR has the programs of another release of etcd than the test dependency's, whose members are stopped and not
killed, because it is known to lose data then.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TypeVar

import pytest
from tests.chaos.judging import FollowedHistory, collected, exported_incident, journals_of
from tests.chaos.topology import Pausable, Process, Topology
from tests.chaos.topology_load import Churn, CounterReader, CounterWriter, PodFollower, Worker

from fathom.record.recording_gaps import read_gaps
from fathom.sim.real_history import RealHistory

SEED = os.environ.get("FATHOM_CHAOS_SEED", "1")
WRITERS = 4
DEPLOYMENTS = [f"web-{number}" for number in range(6)]
FAULTS_S = 60.0
CONVERGES_S = 240.0
SETTLES_S = 20.0  # What counts pods writes its last word some seconds after the last of them is ready.
INCIDENTS_MAX = 3

Chosen = TypeVar("Chosen")


class Faults:
    """One at a time, from a seed: what a process is, then which, then how."""

    def __init__(self, topology: Topology, seed: str) -> None:
        self._topology, self._rng = topology, random.Random(seed)
        self.happened: Counter[str] = Counter()
        self.ended: list[str] = []  # Processes that ended by themselves.

    def strike(self) -> None:
        how, topology = self._rng.random(), self._topology
        if how < 0.5:
            self._kill(*self._chosen(topology.processes))
        elif how < 0.65:
            self._pause(*self._chosen(topology.processes), "stood still")
        elif how < 0.8:
            self._pause(*self._chosen(topology.cuts), "was cut off")
        elif how < 0.9 and topology.slow_disks:
            self._pause(*self._chosen(topology.slow_disks), "was slow")
        elif topology.full_disks:
            self._pause(*self._chosen(topology.full_disks), "was full")
        time.sleep(self._rng.uniform(0.5, 4.0))
        self.ended += self._topology.dead()

    def _chosen(self, among: list[tuple[str, Chosen]]) -> tuple[str, Chosen]:
        what = self._rng.choice(sorted({name for name, _ in among}))
        return what, self._rng.choice([each for name, each in among if name == what])

    def _kill(self, what: str, process: Process) -> None:
        process.kill()
        time.sleep(self._rng.uniform(0.2, 4.0))
        process.start()
        self.happened[f"{what} {'stopped' if self._is_stopped(what) else 'killed'}"] += 1

    def _pause(self, what: str, paused: Pausable, how: str) -> None:
        paused.pause()
        time.sleep(self._rng.uniform(1.0, 12.0))
        paused.resume()
        self.happened[f"{what} {how}"] += 1

    def _is_stopped(self, what: str) -> bool:
        return what == "etcd" and not self._topology.kills_members


class Trial:
    """A topology under load and faults."""

    def __init__(self, topology: Topology, seed: str) -> None:
        self.topology, self.faults = topology, Faults(topology, seed)
        self.churn = Churn(topology, DEPLOYMENTS, seed)
        self.writers = [CounterWriter(topology, number) for number in range(WRITERS)]
        self.reader = CounterReader(topology, self.writers, seed)
        self.followers = [PodFollower(topology, first) for first in range(2)]
        self.workers: list[Worker] = [self.churn, *self.writers, self.reader, *self.followers]
        self.followed = FollowedHistory(topology.etcd.url, [server.data for server in topology.servers])
        self.unsettled: list[str] = []
        self.converged_s = 0.0

    def run(self, seconds: float) -> None:
        self.followed.start()
        self.churn.begin()
        for worker in self.workers:
            worker.start()
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and not self.wrong:
            self.faults.strike()
        self.churn.over.set()
        self.churn.join(60)
        self.churn.settle()
        healed_s = time.monotonic()
        while not self._is_over():
            assert time.monotonic() < healed_s + CONVERGES_S, self.unsettled
            time.sleep(0.5)
        self.converged_s = time.monotonic() - healed_s
        for worker in self.workers:
            worker.over.set()
        for worker in self.workers:
            worker.join(30)

    def _is_over(self) -> bool:
        self.unsettled = self.churn.unsettled()
        return not self.unsettled or bool(self.wrong)

    @property
    def wrong(self) -> list[str]:
        return [worker.wrong for worker in self.workers if worker.wrong]

    def check_all_servers(self) -> None:
        for server in self.topology.servers:
            with server.client() as client:
                for writer in self.writers:
                    assert int(client.get(writer.path).obj["data"]["n"]) >= writer.acknowledged

    @property
    def history(self) -> RealHistory:
        return self.followed.history

    def judge(self) -> list[str]:
        """What the simulator's checkers find in what was committed and decided; an incident for each."""
        time.sleep(SETTLES_S)
        self.topology.end_processes()  # Nothing is decided or written any more.
        self.followed.over.set()
        self.followed.join(60)
        assert (self.followed.failed, self.followed.is_alive()) == ("", False)
        at_s = time.monotonic()
        journals = [data / "journal" for data in self.topology.directory.glob("*/data")]
        if any(read_gaps(each) for journal in journals for each in (journal, *journal.glob("*"))):
            self.history.journals_have_gaps()  # A disk was full.
        for journal in journals:
            for process, kept in journals_of(journal.parent).items():
                self.history.read_journal(process, kept, at_s=at_s)
        self.history.journals_are_read(at_s=at_s)
        broken = [*self.history.violations, *self.history.wrong_at_rest(at_s=at_s)]
        if not broken:
            return []
        servers = [server.data for server in self.topology.servers]
        data = collected(self.topology.directory / "collected", self.topology.deciders, servers)
        return [
            f"{violation}\n{exported_incident(violation, data, data / f'{number}.incident')}"
            for number, violation in enumerate(broken[:INCIDENTS_MAX])
        ]

    def figures(self) -> list[str]:
        took_ms = sorted(1000 * each for writer in self.writers for each in writer.latencies_s)
        p50, p99 = statistics.median(took_ms), took_ms[int(len(took_ms) * 0.99)]
        unknown = sum(writer.unknown for writer in self.writers)
        return [
            ", ".join(f"{count} × {what}" for what, count in sorted(self.faults.happened.items())),
            f"{len(took_ms):,} acknowledged writes, {unknown} of unknown outcome",
            f"a write took {p50:.0f} ms (p50), {p99:.0f} ms (p99), {took_ms[-1]:.0f} ms (longest)",
            f"{self.reader.reads:,} reads through any server, none older than what was acknowledged",
            f"{self.churn.changes} changes of Deployments",
            f"{len(self.followers[0].bound):,} pods bound, each once, and no node beyond what it has",
            f"{self.history.commits:,} commits and {self.history.decisions:,} decisions, judged by"
            f" {len(self.history.judged)} invariants of the simulator",
            f"all as wanted {self.converged_s:.1f} s after the last fault",
        ]


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_nothing_is_lost_or_doubled_and_all_converges_while_anything_is_killed(tmp_path: Path) -> None:
    topology = Topology(tmp_path, SEED)
    try:
        topology.start()
        trial = Trial(topology, SEED)
        trial.run(float(os.environ.get("FATHOM_CHAOS_S", FAULTS_S)))
        assert trial.wrong == []
        assert trial.faults.ended == []
        trial.check_all_servers()
        broken = trial.judge()
        assert not broken, "\n".join(broken)
    finally:
        topology.end()
    sys.stdout.write("\n".join(["", *trial.figures(), ""]))
