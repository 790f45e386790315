"""`fathom bench`: the same load on fathom or on any Kubernetes API server."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import App, Parameter
from cyclopts.validators import Number
from msgspec import to_builtins

from fathom.cli.output import AsJson, document_format, output_parameter, print_document
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.status_line import waiting
from fathom.terminal import say_document, say_json

if TYPE_CHECKING:
    from fathom.bench.result import Result
    from fathom.bench.schedule import ScheduleLoad
    from fathom.bench.session import Against

R = TypeVar("R")

AT_LEAST_ONE = Number(gte=1)
Connections = Annotated[
    int, Parameter(validator=AT_LEAST_ONE, help="Number of connections; each has one request in flight.")
]
ObjectBytes = Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Size of each object as JSON, in bytes.")]
DOCUMENT = "One document; docs/benchmarks.md lists its fields."
Output = Annotated[str, output_parameter("json", "yaml", help=DOCUMENT)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Where:
    """Which server to measure; by default a new `fathom up`, stopped afterwards."""

    kubeconfig: Annotated[
        Path | None, Parameter(help="Measure the API server of this kubeconfig instead of starting one.")
    ] = None
    pid: Annotated[
        tuple[int, ...],
        Parameter(
            negative=(),
            help="With --kubeconfig: id of a server process, for its memory and CPU; may be repeated.",
        ),
    ] = ()
    store: Annotated[
        str | None, Parameter(help="Store of the started server, as for `fathom up --store`.")
    ] = None
    data: Annotated[
        Path | None, Parameter(help="Directory for the temporary data of the started server.")
    ] = None

    def against(self) -> Against:
        from fathom.bench.session import Against  # noqa: PLC0415  # See the package's docstring.

        if self.kubeconfig and (self.store or self.data):
            raise Problem(
                "--store and --data apply only to a server that the benchmark starts: leave out --kubeconfig"
            )
        if self.pid and not self.kubeconfig:
            raise Problem("--pid needs --kubeconfig: the processes of a started server are known")
        return Against(kubeconfig=self.kubeconfig, pids=self.pid, store=self.store, parent=self.data)


NEW_SERVER = Where()


def _each_at_least_one(type_: object, counts: tuple[int, ...]) -> None:
    if min(counts, default=0) < 1:
        raise ValueError("a cluster needs at least one node")


HELP = """Benchmarks of API servers, schedulers, caches, recording, simulated and whole clusters.

fathom bench api
fathom bench schedule --json
"""


def make_app() -> App:
    app = App(
        name="bench",
        help=HELP,
    )
    app.command(api)
    app.command(watch)
    app.command(record)
    app.command(cache)
    app.command(schedule)
    app.command(why)
    app.command(sim)
    app.command(fork)
    app.command(cluster)
    return app


def api(
    *,
    connections: Connections = 32,
    objects: Annotated[
        int, Parameter(validator=AT_LEAST_ONE, help="Number of ConfigMaps to create.")
    ] = 20_000,
    object_bytes: ObjectBytes = 1024,
    seconds: Annotated[
        float,
        Parameter(
            validator=Number(gt=0), help="Duration of the GET phase, and of the PUT phase, in seconds."
        ),
    ] = 5.0,
    where: Where = NEW_SERVER,
    output: Output = "",
    as_json: AsJson = False,
) -> None:
    """Measure creates, gets, updates and lists of an API server, and its memory.

    Prints the figures and the machine; with -o, one document.

    fathom bench api
    fathom bench api --kubeconfig cluster.yaml --json
    """
    from fathom.bench.api import ApiLoad, run_api  # noqa: PLC0415

    load = ApiLoad(connections, objects, object_bytes, seconds)
    _report(lambda: run_api(where.against(), load), wanted=document_format(output, as_json=as_json))


def watch(
    *,
    watchers: Annotated[
        int, Parameter(validator=AT_LEAST_ONE, help="Number of watches on one namespace.")
    ] = 400,
    writes: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Number of ConfigMaps to create.")] = 1000,
    object_bytes: ObjectBytes = 512,
    connections: Connections = 32,
    where: Where = NEW_SERVER,
    output: Output = "",
    as_json: AsJson = False,
) -> None:
    """Measure how fast every watcher receives every write.

    Prints the figures and the machine; with -o, one document.

    fathom bench watch
    fathom bench watch --watchers 100 --writes 1000
    """
    from fathom.bench.watch import WatchLoad, run_watch  # noqa: PLC0415

    load = WatchLoad(watchers, writes, object_bytes, connections)
    _report(lambda: run_watch(where.against(), load), wanted=document_format(output, as_json=as_json))


def record(
    *,
    inputs: Annotated[
        int, Parameter(validator=Number(gte=1000), help="Number of inputs to record.")
    ] = 50_000,
    data: Annotated[Path | None, Parameter(help="Directory for the temporary tape.")] = None,
    output: Output = "",
    as_json: AsJson = False,
) -> None:
    """Measure what recording and replaying an input costs, in time and bytes. Starts no server.

    Prints the figures and the machine; with -o, one document.

    fathom bench record
    fathom bench record --json
    """
    from fathom.bench import record as bench_record  # noqa: PLC0415

    result = _measured(lambda: bench_record.run_record(bench_record.RecordLoad(inputs, data)))
    _show(bench_record, result, wanted=document_format(output, as_json=as_json))


def cache(
    *,
    objects: Annotated[
        int, Parameter(validator=Number(gte=1000), help="Number of pods in the cache.")
    ] = 100_000,
    events: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Number of changes to apply.")] = 50_000,
    http_objects: Annotated[
        int,
        Parameter(validator=Number(gte=0), help="Number of pods to sync from a server; 0: start no server."),
    ] = 10_000,
    kopf_objects: Annotated[
        int,
        Parameter(
            validator=Number(gte=0), help="Number of pods for a comparison with kopf; 0: no comparison."
        ),
    ] = 0,
    connections: Connections = 32,
    where: Where = NEW_SERVER,
    output: Output = "",
    as_json: AsJson = False,
) -> None:
    """Measure fathom's client caches: event rate, memory, first sync, snapshots; compare with kopf.

    Prints the figures and the machine; with -o, one document.

    fathom bench cache
    fathom bench cache --json
    """
    from fathom.bench import cache as bench_cache  # noqa: PLC0415

    load = bench_cache.CacheLoad(objects, events, http_objects, connections, kopf_objects)
    result = _measured(lambda: bench_cache.run_cache(load, where.against()))
    _show(bench_cache, result, wanted=document_format(output, as_json=as_json))


def sim(
    *,
    nodes: Annotated[
        tuple[int, ...],
        Parameter(
            negative=(),
            validator=_each_at_least_one,
            help="Number of nodes of a cluster; repeat it for several clusters.",
        ),
    ] = (10, 100, 1000),
    seconds: Annotated[float, Parameter(validator=Number(gte=100), help="Simulated seconds.")] = 900.0,
    seed: Annotated[str, Parameter(help="Seed of everything random in the run.")] = "1",
    codec: Annotated[
        bool, Parameter(negative=(), help="Send objects as bytes: slower, with the same trace.")
    ] = False,
    output: Output = "",
    as_json: AsJson = False,
) -> None:
    """Measure how much faster than real time simulated clusters run. Starts no server.

    Prints the figures and the machine; with -o, one document.

    fathom bench sim
    fathom bench sim --json
    """
    from fathom.bench.result import this_machine  # noqa: PLC0415
    from fathom.sim.search import bench as sim_bench  # noqa: PLC0415

    sizes = [sim_bench.Size(count, seconds) for count in nodes]
    machine = to_builtins(this_machine())
    result = _measured(lambda: sim_bench.run_sim(sizes, seed=seed, codec=codec, machine=machine))
    _show(sim_bench, result, wanted=document_format(output, as_json=as_json))


def fork(
    *,
    nodes: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Number of nodes.")] = 100,
    pods: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Number of pods that run.")] = 1000,
    minutes: Annotated[float, Parameter(validator=Number(gt=0), help="Virtual minutes.")] = 10.0,
    seed: Annotated[str, Parameter(help="Seed of everything random in the fork.")] = "1",
    output: Output = "",
    as_json: AsJson = False,
) -> None:
    """Measure a fork of a settled cluster, as previews run it: time, and what it writes. Starts no server.

    Prints the figures and the machine; with -o, one document.

    fathom bench fork
    fathom bench fork --json
    """
    from fathom.bench.result import this_machine  # noqa: PLC0415
    from fathom.sim.fork import ForkFailed  # noqa: PLC0415
    from fathom.sim.search import fork_bench  # noqa: PLC0415

    if pods > nodes * fork_bench.PODS_PER_NODE:
        room = f"{nodes} nodes have room for {nodes * fork_bench.PODS_PER_NODE:,} pods"
        raise Problem(f"{room}: use more --nodes, or fewer --pods")
    machine = to_builtins(this_machine())
    try:
        result = _measured(
            lambda: fork_bench.run_fork(nodes, pods, minutes=minutes, seed=seed, machine=machine)
        )
    except ForkFailed as error:
        raise Problem(f"the benchmark failed: {error}", exit_code=ANSWER_IS_NO) from error
    _show(fork_bench, result, wanted=document_format(output, as_json=as_json))


def cluster(
    *,
    nodes: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Number of nodes of the cluster.")] = 3,
    driver: Annotated[
        Literal["process", "simulated"],
        Parameter(help="process: containers are real processes. simulated: containers only follow a script."),
    ] = "process",
    replicas: Annotated[
        int, Parameter(validator=AT_LEAST_ONE, help="Replicas of the Deployment to create.")
    ] = 3,
    idle_seconds: Annotated[
        float, Parameter(validator=Number(gt=0), help="How long to measure the idle cluster.")
    ] = 20.0,
    lost: Annotated[
        bool,
        Parameter(help="Also kill a node's agent, and wait about six minutes until its pods are replaced."),
    ] = True,
    output: Output = "",
    as_json: AsJson = False,
) -> None:
    """Start a cluster; measure its idle cost, and how soon new and lost pods are ready.

    Prints the figures and the machine; with -o, one document.

    fathom bench cluster
    fathom bench cluster --json
    """
    from fathom.bench import cluster as bench_cluster  # noqa: PLC0415

    load = bench_cluster.ClusterLoad(nodes, driver, replicas, idle_seconds, lost)
    result = _measured(lambda: bench_cluster.run_cluster(load))
    _show(bench_cluster, result, wanted=document_format(output, as_json=as_json))


def schedule(
    *,
    workload: Annotated[
        str,
        Parameter(
            help="Workload: basic, spread, antiaffinity, affinity, preemption, unschedulable or churn."
        ),
    ] = "basic",
    nodes: Annotated[
        int, Parameter(validator=AT_LEAST_ONE, help="Number of nodes, each with 4 CPU, 32 GiB, 110 pods.")
    ] = 5000,
    init_pods: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=0),
            help="Number of pods that are bound before measuring. Default: that of scheduler_perf.",
        ),
    ] = None,
    pods: Annotated[
        int | None,
        Parameter(
            validator=AT_LEAST_ONE, help="Number of pods to create and bind. Default: that of scheduler_perf."
        ),
    ] = None,
    connections: Connections = 64,
    schedulers: Annotated[
        int,
        Parameter(
            validator=AT_LEAST_ONE, help="Number of schedulers; several take the same pods and collide."
        ),
    ] = 1,
    decide_only: Annotated[
        bool,
        Parameter(
            negative=(), help="Start no server; measure only the decisions, with nodes and pods in memory."
        ),
    ] = False,
    growth: Annotated[
        bool, Parameter(negative=(), help="As --decide-only: time and memory while the cluster fills up.")
    ] = False,
    compare: Annotated[
        Literal["", "recording"],
        Parameter(
            help="recording: measure alternately without and with the journal, and compare each pair of runs."
        ),
    ] = "",
    pairs: Annotated[
        int, Parameter(validator=AT_LEAST_ONE, help="With --compare: number of pairs of runs.")
    ] = 5,
    record: Annotated[
        bool, Parameter(negative=(), help="The scheduler records a tape too, for `fathom replay`.")
    ] = False,
    where: Where = NEW_SERVER,
    output: Output = "",
    as_json: AsJson = False,
) -> None:
    """Measure how fast the scheduler binds new pods; with --kubeconfig, the scheduler of that cluster.

    Prints the figures and the machine; with -o, one document.

    fathom bench schedule
    fathom bench schedule --nodes 1000 --pods 5000
    """
    from fathom.bench import schedule as bench_schedule  # noqa: PLC0415

    if (compare or record) and where.kubeconfig:
        raise Problem("--compare and --record apply only to a scheduler that the benchmark starts")
    init_pods, pods = bench_schedule.sized(workload, init_pods, pods)
    if decide_only or growth:
        _decide(
            workload, nodes, init_pods, pods, growth=growth, wanted=document_format(output, as_json=as_json)
        )
        return
    recording = bench_schedule.TAPE if record else bench_schedule.JOURNAL
    load = bench_schedule.ScheduleLoad(workload, nodes, init_pods, pods, connections, schedulers, recording)
    if compare:
        _compare(load, where.against(), pairs, wanted=document_format(output, as_json=as_json))
        return
    result = _measured(lambda: bench_schedule.run_schedule(where.against(), load))
    _show(bench_schedule, result, wanted=document_format(output, as_json=as_json))


def _compare(load: ScheduleLoad, against: Against, pairs: int, *, wanted: str) -> None:
    from fathom.bench import recording_cost  # noqa: PLC0415

    result = _measured(lambda: recording_cost.run_pairs(against, load, pairs))
    _show(recording_cost, result, wanted=wanted)


def why(
    *,
    decisions: Annotated[
        int, Parameter(validator=AT_LEAST_ONE, help="Number of decisions on record.")
    ] = 1_000_000,
    writes: Annotated[
        int, Parameter(validator=AT_LEAST_ONE, help="Number of writes in the audit log.")
    ] = 1_000_000,
    nodes: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Number of nodes.")] = 1000,
    pods: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Number of pods.")] = 10_000,
    waiting: Annotated[
        int, Parameter(validator=Number(gte=0), help="Number of these pods that no node takes.")
    ] = 100,
    questions: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="Number of questions.")] = 100,
    seed: Annotated[int, Parameter(help="Seed of the pods that are asked about.")] = 1,
    data: Annotated[Path | None, Parameter(help="Directory for the temporary data of the servers.")] = None,
    output: Output = "",
    as_json: AsJson = False,
) -> None:
    """Measure `fathom why` over a long history: time, and CPU of the client and of each server.

    Prints the figures and the machine; with -o, one document.

    fathom bench why
    fathom bench why --json
    """
    from fathom.bench import asked_cluster  # noqa: PLC0415
    from fathom.bench import why as bench_why  # noqa: PLC0415

    load = asked_cluster.WhyLoad(nodes, pods, waiting, decisions, writes, questions, seed)
    result = _measured(lambda: bench_why.run_why(load, data))
    _show(bench_why, result, wanted=document_format(output, as_json=as_json))


def _decide(workload: str, nodes: int, init_pods: int, pods: int, *, growth: bool, wanted: str) -> None:
    from fathom.bench import decide as bench_decide  # noqa: PLC0415

    def measure() -> bench_decide.DecideResult | bench_decide.ScaleResult:
        if growth:
            return bench_decide.run_scale(bench_decide.ScaleLoad(nodes, pods))
        return bench_decide.run_decide(bench_decide.DecideLoad(nodes, init_pods, pods, (workload,)))

    result = _measured(measure)
    _show(bench_decide, result, wanted=wanted)


def _report(measure: Callable[[], Result], *, wanted: str) -> None:
    from fathom.bench.result import as_json as result_as_json  # noqa: PLC0415
    from fathom.bench.result import as_table  # noqa: PLC0415

    result = _measured(measure)
    if wanted:
        _print(result_as_json(result), wanted)
    else:
        say_document(as_table(result))


def _show(kind: Any, result: Any, *, wanted: str) -> None:
    """`kind`: the benchmark's module, which formats its result."""
    if wanted:
        _print(kind.as_json(result), wanted)
    else:
        say_document(kind.as_table(result))


def _print(document: str, wanted: str) -> None:
    """A benchmark writes its own JSON: with the order and the digits of its page."""
    if wanted == "json":
        say_json(document)
    else:
        print_document(json.loads(document), wanted)


def _measured(measure: Callable[[], R]) -> R:
    """The benchmark's result. Raises Problem with one line if it failed."""
    from fathom.bench.errors import BadTarget, BenchFailed  # noqa: PLC0415

    try:
        with waiting("measuring"):
            return measure()
    except BenchFailed as error:
        raise Problem(f"the benchmark failed: {error}", exit_code=ANSWER_IS_NO) from error
    except BadTarget as error:
        raise Problem(str(error)) from error


app = make_app()
