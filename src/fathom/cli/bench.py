"""`fathom bench`: the same load on fathom or on any Kubernetes API server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import App, Parameter
from cyclopts.validators import Number
from msgspec import to_builtins

from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say_json, say_text

if TYPE_CHECKING:
    from fathom.bench.result import Result
    from fathom.bench.session import Against

R = TypeVar("R")

AT_LEAST_ONE = Number(gte=1)
Connections = Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Requests in flight at once.")]
ObjectBytes = Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Size of an object, as JSON.")]
AsJson = Annotated[
    bool, Parameter(name="--json", negative=(), help="One JSON document (docs/benchmarks.md).")
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Where:
    """Which server to measure; by default a new `fathom up`, stopped afterwards."""

    kubeconfig: Annotated[Path | None, Parameter(help="Measure this server instead of a new one.")] = None
    pid: Annotated[
        tuple[int, ...],
        Parameter(negative=(), help="With --kubeconfig: processes whose memory and CPU to count."),
    ] = ()
    store: Annotated[str | None, Parameter(help="The new server's store (`fathom up --store`).")] = None
    data: Annotated[Path | None, Parameter(help="Where the new server's data goes for a while.")] = None

    def against(self) -> Against:
        from fathom.bench.session import Against  # noqa: PLC0415  # See the room's docstring.

        if self.kubeconfig and (self.store or self.data):
            raise Problem("--store and --data are for a new server: they do not go with --kubeconfig")
        if self.pid and not self.kubeconfig:
            raise Problem("--pid goes with --kubeconfig: a new server's processes are known")
        return Against(kubeconfig=self.kubeconfig, pids=self.pid, store=self.store, parent=self.data)


NEW_SERVER = Where()


def _each_at_least_one(type_: object, counts: tuple[int, ...]) -> None:
    if min(counts, default=0) < 1:
        raise ValueError("a cluster has at least one node")


def make_app() -> App:
    app = App(name="bench", help="Measure an API server over TLS, from another process than its own.")
    app.command(api)
    app.command(watch)
    app.command(record)
    app.command(cache)
    app.command(schedule)
    app.command(sim)
    app.command(cluster)
    return app


def api(
    *,
    connections: Connections = 32,
    objects: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="ConfigMaps to create.")] = 20_000,
    object_bytes: ObjectBytes = 1024,
    seconds: Annotated[float, Parameter(validator=Number(gt=0), help="For GET and for PUT, each.")] = 5.0,
    where: Where = NEW_SERVER,
    as_json: AsJson = False,
) -> None:
    """Create, get, update and list objects; then how much memory they take."""
    from fathom.bench.api import ApiLoad, run_api  # noqa: PLC0415

    load = ApiLoad(connections, objects, object_bytes, seconds)
    _report(lambda: run_api(where.against(), load), as_json=as_json)


def watch(
    *,
    watchers: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Watches of one namespace.")] = 400,
    writes: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="ConfigMaps to create.")] = 1000,
    object_bytes: ObjectBytes = 512,
    connections: Connections = 32,
    where: Where = NEW_SERVER,
    as_json: AsJson = False,
) -> None:
    """Write, and see how fast every watcher hears of every write."""
    from fathom.bench.watch import WatchLoad, run_watch  # noqa: PLC0415

    load = WatchLoad(watchers, writes, object_bytes, connections)
    _report(lambda: run_watch(where.against(), load), as_json=as_json)


def record(
    *,
    inputs: Annotated[int, Parameter(validator=Number(gte=1000), help="How many to record.")] = 50_000,
    data: Annotated[Path | None, Parameter(help="Where the tape goes for a while.")] = None,
    as_json: AsJson = False,
) -> None:
    """Record, cross the seam, replay: what an input costs in time and bytes. Needs no server."""
    from fathom.bench import record as bench_record  # noqa: PLC0415

    result = bench_record.run_record(bench_record.RecordLoad(inputs, data))
    _show(bench_record, result, as_json=as_json)


def cache(
    *,
    objects: Annotated[int, Parameter(validator=Number(gte=1000), help="Pods in the cache.")] = 100_000,
    events: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Changes to apply.")] = 50_000,
    http_objects: Annotated[
        int, Parameter(validator=Number(gte=0), help="Pods to sync from a server; 0 for none.")
    ] = 10_000,
    kopf_objects: Annotated[
        int, Parameter(validator=Number(gte=0), help="Pods to follow beside kopf; 0 for not at all.")
    ] = 0,
    connections: Connections = 32,
    where: Where = NEW_SERVER,
    as_json: AsJson = False,
) -> None:
    """Follow pods with fathom's caches: rate, memory, first sync, snapshots; if asked to, beside kopf."""
    from fathom.bench import cache as bench_cache  # noqa: PLC0415

    load = bench_cache.CacheLoad(objects, events, http_objects, connections, kopf_objects)
    result = _measured(lambda: bench_cache.run_cache(load, where.against()))
    _show(bench_cache, result, as_json=as_json)


def sim(
    *,
    nodes: Annotated[
        tuple[int, ...],
        Parameter(negative=(), validator=_each_at_least_one, help="Clusters of so many nodes."),
    ] = (10, 100, 1000),
    seconds: Annotated[float, Parameter(validator=Number(gte=100), help="Of the cluster's life.")] = 900.0,
    seed: Annotated[str, Parameter(help="All that is random follows from it.")] = "1",
    codec: Annotated[
        bool, Parameter(negative=(), help="Let bytes travel, not objects: slower, with the same trace.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run simulated clusters, and see how much faster than real time. Needs no server."""
    from fathom.bench.result import this_machine  # noqa: PLC0415
    from fathom.sim.search import bench as sim_bench  # noqa: PLC0415

    sizes = [sim_bench.Size(count, seconds) for count in nodes]
    result = sim_bench.run_sim(sizes, seed=seed, codec=codec, machine=to_builtins(this_machine()))
    _show(sim_bench, result, as_json=as_json)


def cluster(
    *,
    nodes: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Of `fathom up`.")] = 3,
    driver: Annotated[
        Literal["process", "simulated"], Parameter(help="Real processes, or pretended ones.")
    ] = "process",
    replicas: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Of the Deployment to apply.")] = 3,
    idle_seconds: Annotated[float, Parameter(validator=Number(gt=0), help="How long to do nothing.")] = 20.0,
    lost: Annotated[
        bool, Parameter(help="Kill a node's agent, and wait until its pods are replaced.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Start a whole cluster: what it costs idle, how soon work runs, how soon a lost node is replaced."""
    from fathom.bench import cluster as bench_cluster  # noqa: PLC0415

    load = bench_cluster.ClusterLoad(nodes, driver, replicas, idle_seconds, lost)
    result = _measured(lambda: bench_cluster.run_cluster(load))
    _show(bench_cluster, result, as_json=as_json)


def schedule(
    *,
    workload: Annotated[
        str,
        Parameter(help="basic, spread, antiaffinity, affinity, preemption, unschedulable or churn."),
    ] = "basic",
    nodes: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Of 4 CPU, 32 GiB, 110 pods.")] = 5000,
    init_pods: Annotated[
        int | None,
        Parameter(validator=Number(gte=0), help="Bound before measuring. Default: as scheduler_perf has it."),
    ] = None,
    pods: Annotated[
        int | None,
        Parameter(validator=AT_LEAST_ONE, help="To create and bind. Default: as scheduler_perf has it."),
    ] = None,
    connections: Connections = 64,
    schedulers: Annotated[
        int, Parameter(validator=AT_LEAST_ONE, help="Several take the same pods at once, and collide.")
    ] = 1,
    decide_only: Annotated[
        bool, Parameter(negative=(), help="No server: nodes and pods in memory, only the deciding.")
    ] = False,
    growth: Annotated[
        bool, Parameter(negative=(), help="With --decide-only: time and memory as the cluster fills up.")
    ] = False,
    where: Where = NEW_SERVER,
    as_json: AsJson = False,
) -> None:
    """Create pods and see how fast the scheduler binds them; with --kubeconfig, that cluster's own."""
    from fathom.bench import schedule as bench_schedule  # noqa: PLC0415

    init_pods, pods = bench_schedule.sized(workload, init_pods, pods)
    if decide_only or growth:
        _decide(workload, nodes, init_pods, pods, growth=growth, as_json=as_json)
        return
    load = bench_schedule.ScheduleLoad(workload, nodes, init_pods, pods, connections, schedulers)
    result = _measured(lambda: bench_schedule.run_schedule(where.against(), load))
    _show(bench_schedule, result, as_json=as_json)


def _decide(workload: str, nodes: int, init_pods: int, pods: int, *, growth: bool, as_json: bool) -> None:
    from fathom.bench import decide as bench_decide  # noqa: PLC0415

    def measure() -> bench_decide.DecideResult | bench_decide.ScaleResult:
        if growth:
            return bench_decide.run_scale(bench_decide.ScaleLoad(nodes, pods))
        return bench_decide.run_decide(bench_decide.DecideLoad(nodes, init_pods, pods, (workload,)))

    result = _measured(measure)
    _show(bench_decide, result, as_json=as_json)


def _report(measure: Callable[[], Result], *, as_json: bool) -> None:
    from fathom.bench.result import as_json as result_as_json  # noqa: PLC0415
    from fathom.bench.result import as_table  # noqa: PLC0415

    result = _measured(measure)
    if as_json:
        say_json(result_as_json(result))
    else:
        say_text(as_table(result))


def _show(kind: Any, result: Any, *, as_json: bool) -> None:
    """`kind`: the benchmark's module, which formats its result."""
    if as_json:
        say_json(kind.as_json(result))
    else:
        say_text(kind.as_table(result))


def _measured(measure: Callable[[], R]) -> R:
    """The benchmark's result. Raises Problem with one line if it failed."""
    from fathom.bench.errors import BadTarget, BenchFailed  # noqa: PLC0415

    try:
        return measure()
    except BenchFailed as error:
        raise Problem(f"not measured: {error}", exit_code=ANSWER_IS_NO) from error
    except BadTarget as error:
        raise Problem(str(error)) from error
