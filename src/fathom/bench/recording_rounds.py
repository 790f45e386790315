"""What recording costs a scheduler, in short rounds at one server.

Two schedulers are started, one without recording and one with it, each for the pods that name it. They take
turns: while one binds a round of pods, the other is stopped (SIGSTOP), and sees what happened afterwards.
Rounds of a second that follow each other meet the same machine, the same server and the same cluster, which
whole runs do not: those differ by ten percent and more among themselves.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from fathom.bench.child import own_cpu_s
from fathom.bench.errors import BadTarget
from fathom.bench.recording_cost import RecordingCost, compared
from fathom.bench.result import this_machine
from fathom.bench.schedule import (
    NOTHING,
    RECORDING_OPTIONS,
    OwnScheduler,
    ScheduleLoad,
    ScheduleResult,
    bind_all,
    create_all,
    new_namespace,
    own_scheduler,
    server_us,
    with_journal,
)
from fathom.bench.session import Against, Session, cores_between, session
from fathom.bench.wire import WireConnection
from fathom.bench.workloads import WORKLOADS, Obj, Workload

QUIET_S = 0.05  # A scheduler that takes less than a tenth of this as CPU time meanwhile has caught up.
QUIET_S_MAX = 30.0


def run_rounds(against: Against, load: ScheduleLoad, pairs: int) -> RecordingCost:
    """`load.pods`: of each round. `load.recording`: what the second of each pair records."""
    workload = WORKLOADS.get(load.workload)
    if workload is None or workload.stuck or workload.churns or workload.displaces:
        plain = [
            name for name, each in WORKLOADS.items() if not (each.stuck or each.churns or each.displaces)
        ]
        raise BadTarget(f"rounds are for one of {', '.join(plain)}, not for {load.workload!r}")
    most = workload.most_pods(load.nodes, load.init_pods)
    if 2 * pairs * load.pods > most:
        raise BadTarget(
            f"{load.nodes} nodes have room for {most} pods, not for {2 * pairs} times {load.pods}"
        )
    with (
        session(against) as open_session,
        tempfile.TemporaryDirectory(dir=against.parent) as scratch,
        contextlib.ExitStack() as stack,
    ):
        turns = _Turns(open_session, workload, load)
        contestants = [
            _Contestant(recording, stack.enter_context(_started(open_session, Path(scratch), recording)))
            for recording in (NOTHING, load.recording)
        ]
        turns.prepare(contestants)
        without, recorded = contestants
        results: dict[str, list[ScheduleResult]] = {without.name: [], recorded.name: []}
        for pair in range(pairs):
            for chosen in contestants if pair % 2 == 0 else reversed(contestants):
                results[chosen.name].append(turns.round(chosen, load.pods))
        stack.close()  # The journal is complete when its scheduler has ended.
        last = with_journal(results[recorded.name][-1], [recorded.scheduler])
        return compared(load, results[without.name], [*results[recorded.name][:-1], last], how="rounds")


class _Contestant(msgspec.Struct, frozen=True):
    name: str  # What it records; the schedulerName of its pods too.
    scheduler: OwnScheduler

    @property
    def pid(self) -> int:
        return self.scheduler.process.pid


@contextlib.contextmanager
def _started(open_session: Session, scratch: Path, recording: str) -> Iterator[OwnScheduler]:
    directory = scratch / recording
    directory.mkdir()
    options = ("--name", recording, *RECORDING_OPTIONS[recording])
    with own_scheduler(open_session, directory, alone=False, options=options) as scheduler:
        try:
            yield scheduler
        finally:
            scheduler.process.send_signal(signal.SIGCONT)  # One that is stopped does not end.


class _Turns:
    def __init__(self, open_session: Session, workload: Workload, load: ScheduleLoad) -> None:
        self._session, self._workload, self._load = open_session, workload, load
        self._pods = b"/api/v1/namespaces/%s/pods" % new_namespace(open_session)
        self._connections: Sequence[WireConnection] = open_session.connect(load.connections)
        self._rounds = 0

    def prepare(self, contestants: Sequence[_Contestant]) -> None:
        """Nodes; and first pods by both, so that nobody's first attempt is measured."""
        nodes = [self._workload.node(number) for number in range(self._load.nodes)]
        create_all(self._session, self._connections, b"/api/v1/nodes", nodes)
        for contestant in contestants:
            contestant.scheduler.process.send_signal(signal.SIGSTOP)
        for contestant in contestants:
            self.round(contestant, max(1, self._load.init_pods // 2))

    def round(self, contestant: _Contestant, count: int) -> ScheduleResult:
        self._rounds += 1
        contestant.scheduler.process.send_signal(signal.SIGCONT)
        _wait_until_quiet(contestant.pid)
        pods = [self._pod(contestant.name, number) for number in range(count)]
        before, scheduler_before_s = self._session.usage(), own_cpu_s(contestant.pid)
        run = bind_all(self._session, self._connections, self._pods, pods)
        after, scheduler_s = self._session.usage(), own_cpu_s(contestant.pid) - scheduler_before_s
        contestant.scheduler.process.send_signal(signal.SIGSTOP)
        return ScheduleResult(
            workload=self._load.workload,
            pods_per_s=round(count / run.elapsed_s, 1),
            pods_per_s_p50=round(count / run.elapsed_s, 1),
            create_per_s=round(run.creates.per_s, 1),
            cores=cores_between(before, after),
            scheduler_us_per_pod=round(1e6 * scheduler_s / count, 1),
            server_us_per_pod=server_us(before, after, count),
            parameters=msgspec.to_builtins(self._load),
            machine=this_machine(),
            server=self._session.server,
        )

    def _pod(self, scheduler: str, number: int) -> Obj:
        pod = self._workload.pod(number)
        pod["metadata"]["name"] = f"round-{self._rounds:04d}-{number:06d}"
        pod["spec"]["schedulerName"] = scheduler
        return pod


def _wait_until_quiet(pid: int) -> None:
    """Until it has seen what happened while it was stopped."""
    deadline_s = time.perf_counter() + QUIET_S_MAX
    quiet = 0
    while quiet < 3 and time.perf_counter() < deadline_s:
        before_s = own_cpu_s(pid)
        time.sleep(QUIET_S)
        quiet = quiet + 1 if own_cpu_s(pid) - before_s < QUIET_S / 4 else 0
