"""Starts an API server for the time of a measurement, and reads from /proc how much memory and CPU a process
and its children take."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from fathom.bench.errors import BadTarget, BenchFailed
from fathom.bench.kubeconfig import BenchTarget, read_target
from fathom.bench.wire import AnswerParser, connect

START_S_MAX = 60.0
STOP_S_MAX = 15.0
# Often enough for a start of a second to be measured to a percent, rarely enough not to slow it.
PROBE_EVERY_S = 0.01
READY = b"GET %s/readyz HTTP/1.1\r\nHost: %s\r\n\r\n"


class Child(msgspec.Struct, frozen=True):
    pid: int
    target: BenchTarget
    ready_s: float  # From spawn to the first 200 from /readyz.
    filesystem: str  # Where the data lies: a durable write means little on tmpfs.
    kubeconfig: Path


@contextlib.contextmanager
def own_server(*, parent: Path | None, store: str | None) -> Iterator[Child]:
    """`fathom serve api` in a new data directory under `parent`; both are removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="fathom-bench-", dir=parent) as scratch:
        data, log = Path(scratch, "data"), Path(scratch, "log")
        command = [sys.executable, "-m", "fathom.cli", "serve", "api", "--data", str(data), "--port", "0"]
        command += ["--store", store] if store else []
        with log.open("wb") as output:
            began = time.perf_counter()
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            target = _wait_ready(process, data / "kubeconfig", log, began=began)
            ready_s = time.perf_counter() - began
            yield Child(process.pid, target, ready_s, filesystem_of(Path(scratch)), data / "kubeconfig")
            if process.poll() is not None:
                raise BenchFailed(f"the API server exited during the measurement: {_last_line(log)}")
        finally:
            _stop(process)


def _wait_ready(
    process: subprocess.Popen[bytes], kubeconfig: Path, log: Path, *, began: float
) -> BenchTarget:
    while time.perf_counter() - began < START_S_MAX:
        if process.poll() is not None:
            raise BadTarget(f"`fathom serve api` exited with code {process.returncode}: {_last_line(log)}")
        # The kubeconfig is missing or incomplete, or the port is closed: not ready yet.
        with contextlib.suppress(BadTarget, BenchFailed):
            target = read_target(kubeconfig)
            if _is_ready(target):
                return target
        time.sleep(PROBE_EVERY_S)
    raise BadTarget(f"`fathom serve api` was not ready after {START_S_MAX:.0f} s: {_last_line(log)}")


def _is_ready(target: BenchTarget) -> bool:
    connection, parser = connect(target), AnswerParser()
    try:
        connection.send(READY % (target.prefix.encode(), target.host.encode()))
        deadline = time.perf_counter() + 1.0
        while time.perf_counter() < deadline:
            piece = connection.receive()
            if piece is None:
                time.sleep(0.001)
            elif not piece:
                return False
            elif (answer := parser.feed(piece)) is not None:
                return answer.status == 200
        return False
    finally:
        connection.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")


def family(pids: Iterable[int]) -> list[int]:
    """These processes and all that descend from them."""
    parents = {pid: int(fields[1]) for pid, fields in _stats() if fields}
    members = list(pids)
    for pid in members:  # Grows while it is walked.
        members += [child for child, parent in parents.items() if parent == pid and child not in members]
    return members


def rss_mb(pids: Iterable[int]) -> float:
    """Resident memory of these processes and their descendants, in millions of bytes."""
    pages = 0
    for pid in family(pids):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_s(pids: Iterable[int]) -> float:
    """CPU time these processes and their descendants have taken so far."""
    wanted = set(family(pids))
    ticks = sum(int(fields[11]) + int(fields[12]) for pid, fields in _stats() if pid in wanted)
    return ticks / os.sysconf("SC_CLK_TCK")


def own_cpu_s(pid: int) -> float:
    """CPU time that one process has taken so far. Its children's is not in it: it would be gone with them."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_cpu_s() -> float:
    """CPU time everything on this machine has taken so far: user, nice, system, irq, softirq."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return sum(int(fields[at]) for at in (1, 2, 3, 6, 7)) / os.sysconf("SC_CLK_TCK")


def _stats() -> Iterator[tuple[int, list[str]]]:
    """/proc/PID/stat after the command's name, which may itself hold spaces and brackets."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(entry.name), (entry / "stat").read_text().rpartition(")")[2].split()


def filesystem_of(path: Path) -> str:
    """The type of the filesystem a path lies on."""
    best = ("", "unknown")
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split(" ")
        inside = path.resolve().is_relative_to(mount)
        if inside and len(mount) >= len(best[0]):
            best = (mount, kind)
    return best[1]
