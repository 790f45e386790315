"""CPU, memory and files of this process, under the names that every Prometheus client library uses."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from pathlib import Path

from fathom.metrics.families import Family, counter, gauge
from fathom.metrics.registry import Collect

SELF = Path("/proc/self")
# Fields of /proc/self/stat, counted after the command's name (which may have blanks): see proc(5).
UTIME, STIME, STARTED, VIRTUAL, RESIDENT = 11, 12, 19, 20, 21


def process_metrics(*, restarts: int = 0, version: str = "") -> Collect:
    """`restarts`: how often a supervisor had to start this part again."""

    def collect() -> Iterable[Family]:
        yield gauge("fathom_build_info", "Version of fathom, as a label; always 1.", 1, {"version": version})
        yield counter(
            "fathom_process_restarts_total", "Restarts of this process by its supervisor.", restarts
        )
        yield from _kernel()

    return collect


def _kernel() -> Iterable[Family]:
    try:
        stat = (SELF / "stat").read_text().rpartition(") ")[2].split()
        open_files = len(os.listdir(SELF / "fd"))
        booted_s = _booted_s()
    except (OSError, ValueError):  # Not Linux, or no file can be opened just now.
        return
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    cpu_s = (int(stat[UTIME]) + int(stat[STIME])) / tick
    yield counter("process_cpu_seconds_total", "User and system CPU time spent.", cpu_s)
    yield gauge("process_resident_memory_bytes", "Resident memory.", int(stat[RESIDENT]) * page)
    yield gauge("process_virtual_memory_bytes", "Virtual memory.", int(stat[VIRTUAL]))
    started_s = booted_s + int(stat[STARTED]) / tick
    yield gauge("process_start_time_seconds", "Start time, in seconds since the Unix epoch.", started_s)
    yield gauge("process_open_fds", "Open file descriptors.", open_files)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield gauge("process_max_fds", "Maximum number of open file descriptors.", limit)


def _booted_s() -> int:
    lines = Path("/proc/stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("btime "))
