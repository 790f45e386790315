"""Sample CPU time and memory of containers' processes, for `kubectl top` and the autoscaler.

A rate needs two samples: until there are two, a container is not listed, as with metrics-server.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from fathom.agent.host.records import Records, is_alive
from fathom.agent.usage import ContainerUsage, NodeUsage, PodUsage
from fathom.model.objects import key_of, uid_of
from fathom.model.times import SECOND_NS

SAMPLE_S = 10.0
_TICK_NS = SECOND_NS // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class UsageSample(msgspec.Struct, frozen=True):
    at_ns: int
    cpu_ns: int  # Since its start.
    memory_bytes: int


class Sampler:
    """Samples one node. One scan of /proc serves all its containers."""

    def __init__(self, node: str, records: Records) -> None:
        self._node = node
        self._records = records
        self._before: dict[str, UsageSample] = {}  # By run id.
        self._at_ns = 0  # The time of `_before`.
        self.usage = NodeUsage(node, time.time_ns(), 0, 0, 0)

    def sample(self) -> None:
        now_ns, before = time.time_ns(), self._before
        table = process_table()
        samples: dict[str, UsageSample] = {}
        pods = []
        for record in self._records.pods():
            key = key_of(record.pod)
            containers = []
            for run in self._records.runs(uid_of(record.pod)):
                run_record = self._records.run_record(run.uid, run.container, run.attempt)
                if (
                    run.exit is not None
                    or run_record is None
                    or not is_alive(run_record.shim, run_record.shim_started)
                ):
                    continue
                sample = samples[run.id] = usage_of(run_record.shim, table, now_ns)
                if run.id in before:
                    containers.append(rated(run.container, before[run.id], sample))
            if containers:
                pods.append(PodUsage(key.namespace, key.name, uid_of(record.pod), tuple(containers)))
        window_ns = now_ns - self._at_ns if self._at_ns else 0
        self._before, self._at_ns = samples, now_ns
        every = [container for pod in pods for container in pod.containers]
        self.usage = NodeUsage(
            self._node, now_ns, window_ns, sum(container.cpu_nano for container in every),
            sum(container.memory_bytes for container in every), tuple(pods),
        )  # fmt: skip


def rated(name: str, before: UsageSample, now: UsageSample) -> ContainerUsage:
    elapsed_ns = max(1, now.at_ns - before.at_ns)
    used_ns = max(0, now.cpu_ns - before.cpu_ns)
    return ContainerUsage(name, used_ns * SECOND_NS // elapsed_ns, now.memory_bytes)


class UsageEntry(msgspec.Struct, frozen=True):
    parent: int
    own_ns: int  # User and system time.
    children_ns: int  # Of children that ended and were waited for.
    memory_bytes: int


def process_table(proc: Path = Path("/proc")) -> dict[int, UsageEntry]:
    table = {}
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            fields = (proc / name / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        own_ticks, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
        table[int(name)] = UsageEntry(
            int(fields[1]), own_ticks * _TICK_NS, children * _TICK_NS, int(fields[21]) * _PAGE
        )
    return table


def usage_of(shim: int, table: dict[int, UsageEntry], now_ns: int) -> UsageSample:
    """Usage of all descendants of the shim, and of those it has reaped; not of the shim itself."""
    children: dict[int, list[int]] = {}
    for pid, entry in table.items():
        children.setdefault(entry.parent, []).append(pid)
    family = list(_descendants(shim, children))
    buried = table[shim].children_ns if shim in table else 0
    cpu_ns = buried + sum(table[pid].own_ns + table[pid].children_ns for pid in family)
    return UsageSample(now_ns, cpu_ns, sum(table[pid].memory_bytes for pid in family))


def _descendants(top: int, children: dict[int, list[int]]) -> Iterable[int]:
    todo = list(children.get(top, ()))
    while todo:
        pid = todo.pop()
        yield pid
        todo += children.get(pid, ())
