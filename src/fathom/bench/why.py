"""`fathom why` over a long history: how long a user waits, and what a question costs client and servers.

An API server and a scheduler run, each in a process of its own, with a million decisions in the scheduler's
journal and as many writes in the audit log. `fathom why pod/NAME` runs as a user runs it, one process after
another, for pods drawn at random.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from fathom.bench.asked_cluster import (
    JOURNAL_MIB,
    PER_NODE,
    AskedCluster,
    JournalSize,
    WhyLoad,
    pod_name,
    size_of,
)
from fathom.bench.child import machine_cpu_s, own_cpu_s
from fathom.bench.drive import percentile_ms
from fathom.bench.errors import BadTarget, BenchFailed
from fathom.bench.result import Machine, Server, this_machine
from fathom.bench.schedule import own_scheduler
from fathom.bench.session import Against, session

IDLE_S = 5.0
QUIET_CORES = 0.1  # Of both servers: above it they still work off the pods that were just bound.
QUIET_TRIES = 12
ANSWERED = (0, 1)  # Exit codes; 1: the pod is not as wanted.
CITED = 5  # Decisions in an answer, the newest.
# An answer that lacks one of these sources is no answer. No agents run, and answers may say that.
SOURCES = ("journal of scheduler", "audit log", "journal of housekeeping")


class Spread(msgspec.Struct, frozen=True):
    p50: float
    p99: float
    max: float


class WhyResult(msgspec.Struct, frozen=True, kw_only=True):
    """Times and CPU times are of one question, in milliseconds."""

    bench: str = "why"
    wall_ms: Spread  # From the start of the client's process to its end.
    client_cpu_ms: Spread
    server_cpu_ms: dict[
        str, float
    ]  # By process, the mean: all that it took meanwhile, its own work included.
    first_ms: float  # The first question after the servers' start.
    first_server_cpu_ms: dict[str, float]
    idle_cores: dict[str, float]  # By process, while nobody asks.
    decisions: int  # On record before the scheduler started.
    bytes_per_decision: JournalSize
    audit_mb: float
    others_cores: float  # What else kept the machine busy during the questions.
    parameters: dict[str, int]
    machine: Machine
    server: Server


def run_why(load: WhyLoad, parent: Path | None = None) -> WhyResult:
    if not 0 <= load.waiting < load.pods:
        raise BadTarget("some pods must have a node: fewer must wait than there are")
    if load.pods - load.waiting > load.nodes * PER_NODE:
        raise BadTarget(f"{load.nodes} nodes have room for {load.nodes * PER_NODE} pods")
    with (
        session(Against(parent=parent)) as opened,
        tempfile.TemporaryDirectory(prefix="fathom-bench-", dir=parent) as scratch,
    ):
        cluster = AskedCluster(opened, Path(scratch), load)
        size = cluster.make_history(cluster.make_pods())
        options = ("--journal-mib", str(JOURNAL_MIB))
        with own_scheduler(opened, cluster.data, alone=True, options=options) as scheduler:
            cluster.run_pods()
            servers = {"api": opened.pids[0], "scheduler": scheduler.process.pid}
            return _measured(cluster, size, servers)


class _Used(msgspec.Struct, frozen=True):
    """Time and CPU time so far."""

    at_s: float
    servers_s: dict[str, float]
    machine_s: float


def _used(servers: Mapping[str, int]) -> _Used:
    cpu = {name: own_cpu_s(pid) for name, pid in servers.items()}
    return _Used(time.perf_counter(), cpu, machine_cpu_s())


class _Question(msgspec.Struct, frozen=True):
    wall_ns: int
    client_ns: int


def _measured(cluster: AskedCluster, size: JournalSize, servers: Mapping[str, int]) -> WhyResult:
    load, drawn = cluster.load, random.Random(cluster.load.seed)
    names = [pod_name(drawn.randrange(load.pods)) for _ in range(load.questions)]
    idle = _quiet(servers)
    before = _used(servers)
    first = _ask(cluster, names[0])
    between = _used(servers)
    questions = [_ask(cluster, name) for name in names]
    after = _used(servers)
    _check_records(cluster, names[-1])
    client_s = sum(question.client_ns for question in questions) / 1e9
    servers_s = sum(after.servers_s[name] - between.servers_s[name] for name in servers)
    others_s = after.machine_s - between.machine_s - servers_s - client_s
    return WhyResult(
        wall_ms=_spread(question.wall_ns for question in questions),
        client_cpu_ms=_spread(question.client_ns for question in questions),
        server_cpu_ms=_by_server(between, after, load.questions),
        first_ms=round(first.wall_ns / 1e6, 1),
        first_server_cpu_ms=_by_server(before, between, 1),
        idle_cores={name: round(cores, 4) for name, cores in idle.items()},
        decisions=cluster.decisions,
        bytes_per_decision=size,
        audit_mb=round(size_of(cluster.audit) / 1e6, 1),
        others_cores=round(max(0.0, others_s) / (after.at_s - between.at_s), 2),
        parameters=msgspec.to_builtins(load),
        machine=this_machine(),
        server=cluster.session.server,
    )


def _quiet(servers: Mapping[str, int]) -> dict[str, float]:
    """Cores of each server while nobody asks, once they have little else to do."""
    cores: dict[str, float] = {}
    for _ in range(QUIET_TRIES):
        before = _used(servers)
        time.sleep(IDLE_S)
        after = _used(servers)
        elapsed_s = after.at_s - before.at_s
        cores = {name: (after.servers_s[name] - before.servers_s[name]) / elapsed_s for name in servers}
        if sum(cores.values()) < QUIET_CORES:
            break
    return cores


def _by_server(before: _Used, after: _Used, questions: int) -> dict[str, float]:
    """Nothing is subtracted for what a server does when nobody asks: on a busy machine that would be a guess,
    and the figure would be too good."""
    spent_s = {name: after.servers_s[name] - before.servers_s[name] for name in before.servers_s}
    return {name: round(1000 * seconds / questions, 1) for name, seconds in spent_s.items()}


def _ask(cluster: AskedCluster, name: str) -> _Question:
    """One question, as a user asks it. Raises BenchFailed for an answer that is none."""
    began_ns = time.perf_counter_ns()
    with subprocess.Popen(
        _command(cluster, name), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        text = process.stdout.read().decode(errors="replace")
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall_ns = time.perf_counter_ns() - began_ns
    unread = [source for source in SOURCES if f"no data: {source}" in text]
    if process.returncode not in ANSWERED or not text.startswith(f"pod default/{name} ") or unread:
        raise BenchFailed(f"fathom why pod/{name} exited with {process.returncode}: {text[:300]}")
    return _Question(wall_ns, round((used.ru_utime + used.ru_stime) * 1e9))


def _check_records(cluster: AskedCluster, name: str) -> None:
    """The history must be in the answers: else they were quick because they had nothing to read."""
    answer = subprocess.run([*_command(cluster, name), "-o", "json"], capture_output=True, check=False)
    try:
        cited = msgspec.json.decode(answer.stdout, type=_Answer).decisions
    except msgspec.DecodeError as error:
        raise BenchFailed(f"fathom why pod/{name} -o json: {error}") from error
    if len(cited) < min(CITED, cluster.decisions // cluster.load.pods):
        raise BenchFailed(f"fathom why pod/{name} cites only {len(cited)} decisions")


class _Answer(msgspec.Struct):
    decisions: list[msgspec.Raw] = []


def _command(cluster: AskedCluster, name: str) -> list[str]:
    kubeconfig = str(cluster.kubeconfig)
    return [sys.executable, "-m", "fathom.cli", "why", f"pod/{name}", "--kubeconfig", kubeconfig]


def _spread(times_ns: Iterable[int]) -> Spread:
    ordered = sorted(times_ns)
    p50, p99 = (round(percentile_ms(ordered, percent), 1) for percent in (50, 99))
    return Spread(p50, p99, round(ordered[-1] / 1e6, 1))


def as_json(result: WhyResult) -> str:
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def as_table(result: WhyResult) -> str:
    load, size, wall = result.parameters, result.bytes_per_decision, result.wall_ms
    stored = f"on disk {size.stored:,.0f}, {size.stored_mb:,.0f} MB in all"
    rows = [
        ("answer", f"{wall.p50:,.0f} ms", f"p99 {wall.p99:,.0f} ms, the first {result.first_ms:,.0f} ms"),
        ("client's CPU", f"{result.client_cpu_ms.p50:,.0f} ms", f"p99 {result.client_cpu_ms.p99:,.0f} ms"),
        *_server_rows(result),
        ("a decision", f"{size.written:,.0f} bytes", stored),
        ("audit log", f"{result.audit_mb:,.0f} MB", f"{load['writes']:,} writes"),
    ]
    title = f"{result.decisions:,} decisions on record, {load['pods']:,} pods, {load['nodes']:,} nodes"
    busy = f"other programs kept {result.others_cores:.2f} cores busy meanwhile"
    return "\n".join(
        [title, "", *(f"{name:<18} {value:>12}  {note}" for name, value, note in rows), "", busy]
    )


def _server_rows(result: WhyResult) -> list[tuple[str, str, str]]:
    return [
        (f"CPU of {name}", f"{ms:,.0f} ms", f"the first {result.first_server_cpu_ms[name]:,.0f} ms")
        for name, ms in result.server_cpu_ms.items()
    ]
