"""Pods created over TLS by one process, bound by another, in a durable server: how many a second, end to end.

The clock starts with the first create and stops when the watch has shown the last pod on a node. What the
scheduler itself says (how long attempts took, how many were refused, what recording cost) is read afterwards
from its journal and its log; of another scheduler only what the API shows is known.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from fathom.bench.child import own_cpu_s
from fathom.bench.deciding import decisions_per_s
from fathom.bench.drive import DriveCaller, DriveListener, Lane, Phase, drive, listen, percentile_ms
from fathom.bench.errors import AllSilent, BadTarget, BenchFailed
from fathom.bench.requests import Asker, expect, revision_of
from fathom.bench.result import CoreUse, Machine, Server, this_machine
from fathom.bench.session import Against, ServerUsage, Session, ask, cores_between, session
from fathom.bench.watching import StreamWatcher
from fathom.bench.wire import LAST_CHUNK, WireConnection
from fathom.bench.workloads import WORKLOADS, Obj, Workload, node, plain, stuck_pod
from fathom.record.journal import read_journal
from fathom.schedule.loop.live import journal_directory

CHURN_EVERY_S = 0.1
START_S_MAX = 30.0
ACCOUNT_S_MAX = 10.0
SILENT_S_MAX = 120.0  # Of a scheduler that is not ours: it may be busy with other pods, or wait for a lease.
encode = msgspec.json.encode

# What the scheduler records, and the options that make it do so. The journal is what `fathom why` reads, the
# tape what `fathom replay` reads.
NOTHING, JOURNAL, TAPE = "nothing", "journal", "tape"
RECORDING_OPTIONS = {NOTHING: ("--journal-mib", "0"), JOURNAL: (), TAPE: ("--record",)}


class ScheduleLoad(msgspec.Struct, frozen=True):
    workload: str
    nodes: int
    init_pods: int
    pods: int
    connections: int
    schedulers: int = 1  # Several: all for all pods, without a lease, so that they collide.
    recording: str = JOURNAL  # Or NOTHING, or TAPE: the tape beside the journal.


class Recording(msgspec.Struct, frozen=True):
    bytes: int
    bytes_per_decision: float
    share: float  # Of the scheduler's CPU time.


class ScheduleResult(msgspec.Struct, frozen=True, kw_only=True):
    """`None`: not known for a scheduler that the benchmark did not start."""

    bench: str = "schedule"
    workload: str
    pods_per_s: float
    pods_per_s_p50: float
    create_per_s: float
    attempt_ms_p50: float | None = None
    attempt_ms_p99: float | None = None
    decisions_per_s: float | None = None
    attempts: int | None = None
    conflicts: int | None = None
    conflicts_by_check: dict[str, int] = {}
    recording: Recording | None = None
    cores: CoreUse
    scheduler_cores: float | None = None
    scheduler_us_per_pod: float | None = None  # CPU time of the schedulers' processes.
    server_us_per_pod: float | None = None  # CPU time of the API server's processes.
    parameters: dict[str, int | str]
    machine: Machine
    server: Server


def sized(workload: str, init_pods: int | None, pods: int | None) -> tuple[int, int]:
    """The numbers of first and measured pods; those of scheduler_perf where None is given."""
    defaults = WORKLOADS.get(workload, WORKLOADS["basic"])
    return defaults.sizes[0] if init_pods is None else init_pods, defaults.sizes[1] if pods is None else pods


def run_schedule(against: Against, load: ScheduleLoad) -> ScheduleResult:
    if load.workload not in WORKLOADS:
        raise BadTarget(f"unknown workload {load.workload!r}: choose one of {', '.join(WORKLOADS)}")
    workload = WORKLOADS[load.workload]
    most = workload.most_pods(load.nodes, load.init_pods)
    if load.pods > most:
        raise BadTarget(
            f"{load.workload}: {load.nodes} nodes have room for {most} pods beside the first {load.init_pods}"
            f", not for {load.pods}: the rest would never be bound"
        )
    with session(against) as open_session, tempfile.TemporaryDirectory(dir=against.parent) as scratch:
        data = Path(scratch)
        with contextlib.ExitStack() as stack:
            own: list[OwnScheduler] = []
            for number in range(load.schedulers if against.kubeconfig is None else 0):
                directory = data / f"scheduler-{number}"
                directory.mkdir()
                options = RECORDING_OPTIONS[load.recording]
                scheduler = own_scheduler(
                    open_session, directory, alone=load.schedulers == 1, options=options
                )
                own.append(stack.enter_context(scheduler))
            measured = _measure(open_session, workload, load, own)
        if own and load.recording != NOTHING:
            measured = _with_journal(measured, own)
        rate = decisions_per_s(workload, nodes=load.nodes, init_pods=load.init_pods, pods=load.pods)
        return msgspec.structs.replace(measured, decisions_per_s=round(rate, 1))


# The scheduler.


class OwnScheduler(msgspec.Struct, frozen=True):
    process: subprocess.Popen[bytes]
    data: Path

    @property
    def log(self) -> Path:
        return self.data / "scheduler.log"


@contextlib.contextmanager
def own_scheduler(
    open_session: Session, data: Path, *, alone: bool, options: Sequence[str] = ()
) -> Iterator[OwnScheduler]:
    """`fathom serve scheduler` beside the server; stopped, and its log complete, afterwards."""
    log = data / "scheduler.log"
    command = [sys.executable, "-m", "fathom.cli", "serve", "scheduler"]
    command += ["--kubeconfig", str(open_session.kubeconfig), "--data", str(data)]
    command += [*options] if alone else [*options, "--lease", ""]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield OwnScheduler(process, data)
        if process.poll() is not None:
            raise BenchFailed(f"the scheduler exited during the measurement: {_last_line(log)}")
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"


# The load.


# An event ends in a bare newline; kube-apiserver cuts a large one into several chunks of HTTP.
EVENT_END, CHUNK_BORDER = re.compile(rb"(?<!\r)\n"), re.compile(rb"\r\n[0-9a-fA-F]+\r\n")
REVISION = re.compile(rb'"resourceVersion":"(\d+)"')


class BoundPods:
    """A watch of pods that have a node: when each of those expected was first seen.

    kube-apiserver ends the watch of a client that has not read for some milliseconds, its own scheduler's too
    when the machine is busy. As every client does, this one then goes on after the last event it has."""

    def __init__(
        self, connection: WireConnection, request: Callable[[bytes], bytes], expected: int, prefix: bytes
    ) -> None:
        self.connection = connection
        self._request = request  # Of a watch from a revision on.
        self._expected = expected
        self._mark = b'"name":"' + prefix
        self._names: set[bytes] = set()
        self._rest = b""
        self._revision = b""
        self.seen_ns: list[int] = []

    def open(self, revision: bytes) -> None:
        self._revision = revision
        self.connection.send(self._request(revision))
        watch = StreamWatcher(self.connection, keep=True)
        listen([watch])
        self._rest = b""
        self._take(watch.kept)

    def readable(self) -> bool:
        piece = self.connection.receive()
        if piece is None:
            return False
        self._take(piece)
        if len(self.seen_ns) < self._expected and (not piece or self._rest.endswith(LAST_CHUNK)):
            self.connection.open_again()
            self.open(self._revision)
        return len(self.seen_ns) >= self._expected

    def _take(self, piece: bytes) -> None:
        now_ns = time.perf_counter_ns()
        *events, self._rest = EVENT_END.split(self._rest + piece)
        for event in events:
            self._look(CHUNK_BORDER.sub(b"", event), now_ns)

    def _look(self, line: bytes, now_ns: int) -> None:
        if b'"type":"ERROR"' in line[:40]:
            raise BenchFailed(f"the watch ended after {len(self.seen_ns)} of {self._expected} pods: {line!r}")
        if found := REVISION.search(line):
            self._revision = found[1]
        at = line.find(self._mark)
        if at < 0 or b'"nodeName":"' not in line or b'"type":"DELETED"' in line[:40]:
            return
        start = at + 8
        name = line[start : line.index(b'"', start)]
        if name not in self._names:
            self._names.add(name)
            self.seen_ns.append(now_ns)


def _measure(
    open_session: Session, workload: Workload, load: ScheduleLoad, own: list[OwnScheduler]
) -> ScheduleResult:
    space = _namespace(open_session)
    connections = open_session.connect(load.connections)
    try:
        create_all(open_session, connections, b"/api/v1/nodes", [workload.node(n) for n in range(load.nodes)])
        for extra in workload.extra:
            create_all(open_session, connections[:1], b"/apis/scheduling.k8s.io/v1/priorityclasses", [extra])
        pods = b"/api/v1/namespaces/%s/pods" % space
        init_pods = [workload.init_pod(number) for number in range(load.init_pods)]
        if init_pods:
            _bind_all(open_session, connections, pods, init_pods)
        create_all(open_session, connections, pods, [stuck_pod(number) for number in range(workload.stuck)])
        wanted = [workload.pod(number) for number in range(load.pods)]
        before = open_session.usage()
        pids = [scheduler.process.pid for scheduler in own]
        scheduler_before_s = sum(map(own_cpu_s, pids))
        run = _bind_all(open_session, connections, pods, wanted, churns=workload.churns)
        after = open_session.usage()
        scheduler_s = sum(map(own_cpu_s, pids)) - scheduler_before_s if own else None
    finally:
        if not open_session.server.own:
            _clean(open_session, space, load.nodes)
    elapsed_s = after.at_s - before.at_s
    return ScheduleResult(
        workload=load.workload,
        pods_per_s=round(len(wanted) / run.elapsed_s, 1),
        pods_per_s_p50=round(median_rate(run.began_ns, run.seen_ns), 1),
        create_per_s=round(run.creates.per_s, 1),
        cores=cores_between(before, after),
        scheduler_cores=None if scheduler_s is None else round(scheduler_s / elapsed_s, 2),
        scheduler_us_per_pod=None if scheduler_s is None else round(1e6 * scheduler_s / len(wanted), 1),
        server_us_per_pod=_server_us(before, after, len(wanted)),
        parameters=msgspec.to_builtins(load),
        machine=this_machine(),
        server=open_session.server,
    )


def _server_us(before: ServerUsage, after: ServerUsage, pods: int) -> float | None:
    if before.server_s is None or after.server_s is None:
        return None
    return round(1e6 * (after.server_s - before.server_s) / pods, 1)


class BenchRun(msgspec.Struct, frozen=True):
    began_ns: int
    elapsed_s: float
    seen_ns: list[int]
    creates: Phase


def _bind_all(
    open_session: Session,
    connections: Sequence[WireConnection],
    path: bytes,
    pods: list[Obj],
    *,
    churns: bool = False,
) -> BenchRun:
    """Create them all, and wait until the watch has shown each on a node."""
    bodies = [encode(pod) for pod in pods]
    prefix = str(pods[0]["metadata"]["name"]).rpartition("-")[0].encode()
    asker = Asker(open_session.target, namespace="", object_bytes=0)
    revision = revision_of(expect(ask(open_session.target, asker.get(path + b"?limit=1")), 200, "a list"))
    chosen = b"?watch=1&timeoutSeconds=3600&fieldSelector=spec.nodeName%21%3D&resourceVersion="
    bound = BoundPods(
        open_session.connect(1)[0], lambda after: asker.get(path + chosen + after), len(pods), prefix
    )
    bound.open(revision)
    latencies_ns: list[int] = []
    queue = iter(bodies)
    lanes = [_lane(asker, path, queue) for _ in connections]
    callers = [DriveCaller(*pair, latencies_ns) for pair in zip(connections, lanes, strict=True)]
    churner = [_churn(open_session, asker, path)] if churns else []
    began_ns = time.perf_counter_ns()
    listeners: list[DriveListener] = [bound, *(caller for caller in callers if caller.start())]
    try:
        created_ns = _listen_noting(listeners, callers, churner)
    except AllSilent as error:
        raise BenchFailed(
            f"{len(bound.seen_ns)} of {len(pods)} pods have a node, and for {SILENT_S_MAX:g} s no other got"
            " one: does a scheduler of this cluster take them?"
        ) from error
    ended_ns = bound.seen_ns[-1]
    return BenchRun(
        began_ns,
        (ended_ns - began_ns) / 1e9,
        bound.seen_ns,
        Phase(latencies_ns, max(1, created_ns - began_ns) / 1e9),
    )


def _listen_noting(
    listeners: list[DriveListener], callers: list[DriveCaller], churners: list[Churner]
) -> int:
    """Listen until every listener is done. Returns when the last create was answered."""
    done: list[int] = []

    class Noted:
        def __init__(self, caller: DriveCaller) -> None:
            self.connection = caller.connection
            self._caller = caller

        def readable(self) -> bool:
            over = self._caller.readable()
            if over:
                done.append(time.perf_counter_ns())
            return over

    noted: list[DriveListener] = [
        Noted(listener) if isinstance(listener, DriveCaller) else listener for listener in listeners
    ]
    for churner in churners:
        churner.start(lambda: len(done) >= len(callers))
        noted.append(churner)
    listen(noted, stall_s=SILENT_S_MAX)
    return max(done, default=time.perf_counter_ns())


class Churner:
    """Creates and deletes other nodes and pods at a fixed pace, one request after another."""

    def __init__(self, connection: WireConnection, asker: Asker, path: bytes) -> None:
        self.connection = connection
        self._asker = asker
        self._path = path
        self._over: Callable[[], bool] = lambda: True
        self._caller: DriveCaller | None = None

    def start(self, over: Callable[[], bool]) -> None:
        self._over = over
        self._caller = DriveCaller(self.connection, self._lane(), [])
        self._caller.start()

    def readable(self) -> bool:
        assert self._caller is not None
        return self._caller.readable()

    def _lane(self) -> Lane:
        due = time.perf_counter()
        for number in itertools.count():
            if self._over():
                return
            name = f"churn-{number}"
            new_node = {**node(number), "metadata": {"name": name, "labels": {}}}
            new_node["spec"] = {"unschedulable": True}
            yield self._asker.send(b"POST", b"/api/v1/nodes", encode(new_node))
            big_pod = plain(name)(number)
            big_pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9"}}
            yield self._asker.send(b"POST", self._path, encode(big_pod))
            yield self._asker.delete(b"/api/v1/nodes/" + name.encode())
            yield self._asker.delete(b"%s/%s" % (self._path, str(big_pod["metadata"]["name"]).encode()))
            due += CHURN_EVERY_S
            while time.perf_counter() < due and not self._over():
                # A request that costs next to nothing keeps the pace without a timer.
                yield self._asker.get(b"/livez")


def _churn(open_session: Session, asker: Asker, path: bytes) -> Churner:
    return Churner(open_session.connect(1)[0], asker, path)


def _lane(asker: Asker, path: bytes, bodies: Iterator[bytes]) -> Lane:
    for body in bodies:
        answer = yield asker.send(b"POST", path, body)
        expect(answer, 201, "creating an object")


def create_all(
    open_session: Session, connections: Sequence[WireConnection], path: bytes, objects: Sequence[Obj]
) -> None:
    asker = Asker(open_session.target, namespace="", object_bytes=0)
    bodies = iter([encode(obj) for obj in objects])
    drive(connections, [_lane(asker, path, bodies) for _ in connections])


def _namespace(open_session: Session) -> bytes:
    name = f"bench-{time.time_ns():x}"
    asker = Asker(open_session.target, namespace=name, object_bytes=0)
    expect(ask(open_session.target, asker.create_namespace()), 201, "creating a namespace")
    if not open_session.server.own:
        _await_account(open_session, asker, name)
    return name.encode()


def _await_account(open_session: Session, asker: Asker, namespace: str) -> None:
    """kube-apiserver refuses pods until kube-controller-manager has made the namespace's service account. A
    server without such a controller may take them: then we go on."""
    deadline_s = time.monotonic() + ACCOUNT_S_MAX
    request = asker.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default".encode())
    while ask(open_session.target, request).status != 200 and time.monotonic() < deadline_s:
        time.sleep(0.1)


def _clean(open_session: Session, space: bytes, nodes: int) -> None:
    """Leave the user's cluster as it was."""
    asker = Asker(open_session.target, namespace=space.decode(), object_bytes=0)
    ask(open_session.target, asker.delete(b"/api/v1/namespaces/%s/pods" % space))
    for number in range(nodes):
        ask(open_session.target, asker.delete(b"/api/v1/nodes/node-%05d" % number))
    ask(open_session.target, asker.delete_namespace())


def median_rate(began_ns: int, seen_ns: list[int]) -> float:
    """The median of the rates of whole seconds; of the whole time, where there are fewer than three."""
    seconds = [(at_ns - began_ns) // 1_000_000_000 for at_ns in seen_ns]
    whole = max(seconds, default=0)
    if whole < 3:
        return len(seen_ns) / max(1e-9, (seen_ns[-1] - began_ns) / 1e9)
    counts = [0] * whole
    for second in seconds:
        if second < whole:
            counts[second] += 1
    return float(statistics.median(counts))


# What the scheduler recorded.


class _JournalLine(msgspec.Struct):
    message: str = ""
    bytes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def _with_journal(measured: ScheduleResult, own: list[OwnScheduler]) -> ScheduleResult:
    records = [record for scheduler in own for record in read_journal(journal_directory(scheduler.data))]
    latencies_ns: list[int] = []
    checks: dict[str, int] = {}
    for record in records:
        for outcome in record.outcomes:
            if outcome.result in {"committed", "settled"}:
                latencies_ns.append(outcome.time_ns - record.decision.time_ns)
            elif outcome.result == "conflict":
                checks[outcome.check] = checks.get(outcome.check, 0) + 1
    return msgspec.structs.replace(
        measured,
        attempt_ms_p50=round(percentile_ms(latencies_ns, 50), 2) if latencies_ns else None,
        attempt_ms_p99=round(percentile_ms(latencies_ns, 99), 2) if latencies_ns else None,
        attempts=len(records),
        conflicts=sum(checks.values()),
        conflicts_by_check=checks,
        recording=_recording(own[0].log, len(records) // len(own)),
    )


def _recording(log: Path, decisions: int) -> Recording | None:
    for line in reversed(log.read_text(errors="replace").splitlines()):
        with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
            entry = msgspec.json.decode(line, type=_JournalLine)
            if entry.cpu_seconds:
                share = entry.seconds / entry.cpu_seconds
                return Recording(entry.bytes, round(entry.bytes / max(1, decisions), 1), round(share, 4))
    return None


def as_json(result: ScheduleResult) -> str:
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def as_table(result: ScheduleResult) -> str:
    load = result.parameters
    title = f"{result.workload}: {load['nodes']} nodes, {load['init_pods']} + {load['pods']} pods"
    rows = [
        ("pods a second", f"{result.pods_per_s:,.1f}", f"median second {result.pods_per_s_p50:,.1f}"),
        ("created a second", f"{result.create_per_s:,.1f}", ""),
    ]
    if result.attempt_ms_p50 is not None:
        rows.append(("attempt", f"{result.attempt_ms_p50} ms", f"p99 {result.attempt_ms_p99} ms"))
    rows.append(("decisions a second", f"{result.decisions_per_s:,.1f}", "the decision alone, in memory"))
    if result.conflicts is not None:
        rows.append(("bindings refused", f"{result.conflicts}", str(result.conflicts_by_check or "")))
    if result.recording is not None:
        share = f"{100 * result.recording.share:.1f} % of the scheduler's time"
        rows.append(("recording", f"{result.recording.bytes_per_decision:,.0f} bytes", share))
    rows.append(_cores_row(result))
    return "\n".join([title, "", *(f"{name:<20} {value:>14}  {note}" for name, value, note in rows)])


def _cores_row(result: ScheduleResult) -> tuple[str, str, str]:
    server, scheduler, driver = result.cores.server, result.scheduler_cores, result.cores.driver
    if server is None:
        return "cores", f"{driver} driver", ""
    return "cores", f"{server} server", f"{scheduler} scheduler, {driver} driver"
