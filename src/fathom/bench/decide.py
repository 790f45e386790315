"""How fast the scheduler decides: nodes and pods in memory, no server, no journal, nothing sent.

Two questions. `run_decide`: decisions a second for scheduler_perf's workloads. `run_scale`: how time and
memory grow while a very large cluster fills up, shape after shape. Every pod must be placed, and no node may
end up with more than it has: otherwise nothing is reported.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from fathom.bench.errors import BenchFailed
from fathom.bench.result import Machine, this_machine
from fathom.bench.workloads import WORKLOADS, Obj, Workload, plain, pod, zoned
from fathom.model.objects import with_metadata
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.place import Decider
from fathom.schedule.decide.pods import PodView, ShapeReader

BATCH = 256  # As many as the scheduler takes at once.
# Workload -> pods that are there first, pods that are measured: scheduler_perf's, at 5,000 nodes.
DECIDED = {
    "basic": (1000, 10_000),
    "spread": (5000, 5000),
    "antiaffinity": (1000, 2000),
    "affinity": (5000, 1000),
    "replicas": (1000, 5000),
}


def _replica(number: int) -> Obj:
    """A pod of a ReplicaSet, which prefers other hosts and zones than its siblings'."""
    owner = {"kind": "ReplicaSet", "name": "web", "controller": True}
    return with_metadata(pod(f"web-{number:06d}", labels={"app": "web"}), ownerReferences=[owner])


# Pods of scheduler_perf have no owner; most real pods have one.
MEASURED = {**WORKLOADS, "replicas": Workload(zoned(3), plain("init"), _replica)}


class DecideLoad(msgspec.Struct, frozen=True):
    nodes: int = 5000
    init_pods: int | None = None  # None: as many as scheduler_perf has of them.
    pods: int | None = None
    workloads: tuple[str, ...] = tuple(DECIDED)

    def sizes(self, workload: str) -> tuple[int, int]:
        init_pods, pods = DECIDED.get(workload, DECIDED["basic"])
        return (
            init_pods if self.init_pods is None else self.init_pods,
            pods if self.pods is None else self.pods,
        )


class DecideRate(msgspec.Struct, frozen=True):
    workload: str
    nodes: int
    init_pods: int
    pods: int
    decisions_per_s: float  # By the wall clock, the first pass over the nodes included.
    decisions_per_cpu_s: float  # By CPU time: what a quiet machine would show.
    first_ms: float  # The first decision, which looks at every node.


class DecideResult(msgspec.Struct, frozen=True, kw_only=True):
    bench: str = "decide"
    rates: tuple[DecideRate, ...]
    machine: Machine


class ScaleLoad(msgspec.Struct, frozen=True):
    nodes: int = 100_000
    pods: int = 1_000_000
    shapes: int = 20  # Different pods, in turn, a batch of each.
    points: int = 10


class Point(msgspec.Struct, frozen=True):
    pods: int
    seconds: float  # Deciding, since the first pod.
    decisions_per_s: float  # Since the point before.
    rss_mb: float


class ScaleResult(msgspec.Struct, frozen=True, kw_only=True):
    bench: str = "decide-scale"
    nodes: int
    pods: int
    shapes: int
    table_s: float  # Putting all nodes into the table.
    table_rss_mb: float
    reading_s: float  # Of pods, from JSON objects to shapes: not in the decisions' time.
    seconds: float
    decisions_per_s: float
    curve: tuple[Point, ...]
    machine: Machine


def run_decide(load: DecideLoad) -> DecideResult:
    unknown = [name for name in load.workloads if name not in MEASURED]
    if unknown:
        raise BenchFailed(f"unknown workload {unknown[0]!r}: choose one of {', '.join(MEASURED)}")
    return DecideResult(rates=tuple(_rate(name, load) for name in load.workloads), machine=this_machine())


def _rate(name: str, load: DecideLoad) -> DecideRate:
    workload, (init_pods, pods) = MEASURED[name], load.sizes(name)
    table, reader = NodeTable(), ShapeReader()
    for number in range(load.nodes):
        table.put_node(workload.node(number))
    decider = Decider(table)
    init_views = [_view(reader, workload.init_pod(number), f"init-{number}") for number in range(init_pods)]
    _decide(decider, init_views)
    views = [_view(reader, workload.pod(number), f"pod-{number}") for number in range(pods)]
    gc.collect()
    began, cpu = time.perf_counter(), time.process_time()
    decider.place(views[0], PlacementContext())
    first_s = time.perf_counter() - began
    _decide(decider, views)
    elapsed, cpu = time.perf_counter() - began, time.process_time() - cpu
    _check(table, init_pods + pods)
    return DecideRate(
        name,
        load.nodes,
        init_pods,
        pods,
        round(pods / elapsed, 1),
        round(pods / max(cpu, 1e-9), 1),
        round(1000 * first_s, 2),
    )


def run_scale(load: ScaleLoad) -> ScaleResult:
    table, reader = NodeTable(), ShapeReader()
    make = zoned(3)
    began = time.perf_counter()
    for number in range(load.nodes):
        table.put_node(make(number))
    table_s, table_rss = time.perf_counter() - began, _rss_mb()
    decider, curve = Decider(table), []
    decided = reading_s = 0.0
    done, last = 0, (0, 0.0)
    for batch in _batches(load):
        began = time.perf_counter()
        views = [_view(reader, obj, f"pod-{done + at}") for at, obj in enumerate(batch)]
        read = time.perf_counter()
        _decide(decider, views)
        reading_s += read - began
        decided += time.perf_counter() - read
        done += len(views)
        if done * load.points // load.pods > last[0] * load.points // load.pods:
            rate = (done - last[0]) / max(decided - last[1], 1e-9)
            curve.append(Point(done, round(decided, 2), round(rate, 1), _rss_mb()))
            last = (done, decided)
    _check(table, load.pods)
    return ScaleResult(
        nodes=load.nodes,
        pods=load.pods,
        shapes=load.shapes,
        table_s=round(table_s, 2),
        table_rss_mb=table_rss,
        reading_s=round(reading_s, 2),
        seconds=round(decided, 2),
        decisions_per_s=round(load.pods / max(decided, 1e-9), 1),
        curve=tuple(curve),
        machine=this_machine(),
    )


def _batches(load: ScaleLoad) -> Iterator[list[Obj]]:
    """A batch of one shape, then of the next."""
    yielded = 0
    while yielded < load.pods:
        shape = yielded // BATCH % load.shapes
        count = min(BATCH, load.pods - yielded)
        cpu, labels = f"{50 + 5 * shape}m", {"app": f"app-{shape}"}
        yield [pod(f"pod-{yielded + at}", cpu=cpu, memory="250Mi", labels=labels) for at in range(count)]
        yielded += count


def _view(reader: ShapeReader, obj: Obj, uid: str) -> PodView:
    return reader.view(with_metadata(obj, uid=uid, namespace="default"), tenant="default")


def _decide(decider: Decider, views: Sequence[PodView]) -> None:
    for start in range(0, len(views), BATCH):
        placements = decider.place_batch(views[start : start + BATCH], PlacementContext())
        for view, placement in zip(views[start:], placements, strict=False):
            if placement.node is None:
                raise BenchFailed(f"{view.key.name} found no node: {placement.message}")


def _check(table: NodeTable, pods: int) -> None:
    rows = table.height
    if len(table.placed) != pods:
        raise BenchFailed(f"{len(table.placed)} of {pods} pods got a node")
    if (table.tally.requested[:rows] > table.allocatable[:rows]).any():
        over = int(np.flatnonzero((table.tally.requested[:rows] > table.allocatable[:rows]).any(axis=1))[0])
        raise BenchFailed(f"{table.names[over]} has more pods than its capacity allows")


def _rss_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) * 1024 / 1e6, 1)
    return 0.0


def as_json(result: DecideResult | ScaleResult) -> str:
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def as_table(result: DecideResult | ScaleResult) -> str:
    if isinstance(result, DecideResult):
        rows = [
            f"{rate.workload:14} {rate.nodes:>8} nodes {rate.init_pods:>7} + {rate.pods:<7} pods "
            f"{rate.decisions_per_s:>10,.0f}/s {rate.decisions_per_cpu_s:>10,.0f}/CPU s, "
            f"1st {rate.first_ms} ms"
            for rate in result.rates
        ]
        return "\n".join(rows)
    head = (
        f"{result.nodes:,} nodes into the table: {result.table_s} s, {result.table_rss_mb:,.0f} MB\n"
        f"{result.pods:,} pods of {result.shapes} shapes: {result.seconds} s, {result.decisions_per_s:,.0f}/s"
    )
    rows = [
        f"{point.pods:>10,} pods {point.seconds:>8} s {point.decisions_per_s:>10,.0f}/s "
        f"{point.rss_mb:>8,.0f} MB"
        for point in result.curve
    ]
    return "\n".join([head, *rows])
