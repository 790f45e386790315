"""The result of a measurement: one stable document (see docs/benchmarks.md), and a small table of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from fathom.bench.drive import Phase, percentile_ms
from fathom.bench.errors import BenchFailed

# A core's fifth: what a quiet machine's housekeeping stays well below.
DISTURBED_CORES = 0.2


class Machine(msgspec.Struct, frozen=True):
    cores: int
    cpu: str
    python: str
    kernel: str


class Server(msgspec.Struct, frozen=True):
    version: str
    own: bool  # Started for this measurement, alone, on an empty store.
    store: str | None = None
    filesystem: str | None = None


class Latency(msgspec.Struct, frozen=True):
    p50: float
    p99: float


class CoreUse(msgspec.Struct, frozen=True):
    """How many cores each side kept busy. A driver near 1 measured itself, not the server; others above
    nothing mean that the machine had something else to do meanwhile. None: the server's processes are not
    known."""

    driver: float
    server: float | None = None
    others: float | None = None


class ApiResult(msgspec.Struct, frozen=True, kw_only=True):
    bench: str = "api"
    create_per_s: float
    get_per_s: float
    update_per_s: float
    list_ms: float
    list_all_ms: float
    rss_mb: float | None = None
    ready_s: float | None = None
    latency_ms: dict[str, Latency]
    cores: dict[str, CoreUse]
    parameters: dict[str, int | float]
    machine: Machine
    server: Server


class WatchResult(msgspec.Struct, frozen=True, kw_only=True):
    bench: str = "watch"
    watch_events_per_s: float
    writes_per_s: float
    events: int
    elapsed_s: float
    rss_mb: float | None = None
    ready_s: float | None = None
    latency_ms: dict[str, Latency]
    cores: dict[str, CoreUse]
    parameters: dict[str, int | float]
    machine: Machine
    server: Server


Result = ApiResult | WatchResult


def latency_of(phase: Phase) -> Latency:
    """Raises BenchFailed."""
    if not phase.latencies_ns:
        raise BenchFailed("no request was answered in the time of a phase: give more with --seconds")
    p50, p99 = (round(percentile_ms(phase.latencies_ns, percent), 3) for percent in (50, 99))
    return Latency(p50, p99)


def this_machine() -> Machine:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        cpu=next(models, platform.machine()),
        python=platform.python_version(),
        kernel=f"{platform.system()} {platform.release()}",
    )


def as_json(result: Result) -> str:
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def as_table(result: Result) -> str:
    rows = _api_rows(result) if isinstance(result, ApiResult) else _watch_rows(result)
    rows += _optional("memory", result.rss_mb, "{:>9,.0f} MB".format)
    rows += _optional("start to ready", result.ready_s, "{:>9.2f} s".format)
    width = max(len(name) for name, _ in rows)
    title = f"{result.server.version} on {result.machine.cores} cores, Python {result.machine.python}"
    parameters = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in result.parameters.items())
    lines = [title, parameters, "", *(f"{name:<{width}}  {text}" for name, text in rows)]
    return "\n".join([*lines, *_disturbance(result)])


def _disturbance(result: Result) -> list[str]:
    most = max(cores.others or 0.0 for cores in result.cores.values())
    if most < DISTURBED_CORES:
        return []
    return [
        "",
        f"other programs kept up to {most:.2f} cores busy meanwhile: measure again on a quiet machine",
    ]


def _api_rows(result: ApiResult) -> list[tuple[str, str]]:
    rates = {"create": result.create_per_s, "get": result.get_per_s, "update": result.update_per_s}
    page = f"list, {min(1000, int(result.parameters['objects'])):,} objects"
    return [
        *((name, _rate(name, rate, result.latency_ms, result.cores)) for name, rate in rates.items()),
        (page, f"{result.list_ms:>9,.1f} ms"),
        ("list, all objects", f"{result.list_all_ms:>9,.1f} ms"),
    ]


def _watch_rows(result: WatchResult) -> list[tuple[str, str]]:
    cores = result.cores["watch"]
    return [
        ("events", f"{result.watch_events_per_s:>9,.0f}/s  {_busy(cores)}"),
        ("writes", f"{result.writes_per_s:>9,.0f}/s  {_spread(result.latency_ms['write'])}"),
        ("delivered", f"{result.events:>9,} events in {result.elapsed_s:.2f} s, each to every watcher"),
    ]


def _rate(name: str, rate: float, latency: Mapping[str, Latency], cores: Mapping[str, CoreUse]) -> str:
    return f"{rate:>9,.0f}/s  {_spread(latency[name])}  {_busy(cores[name])}"


def _spread(latency: Latency) -> str:
    return f"p50 {latency.p50:7.2f} ms  p99 {latency.p99:7.2f} ms"


def _busy(cores: CoreUse) -> str:
    server = "" if cores.server is None else f", server {cores.server:.2f}"
    return f"cores: driver {cores.driver:.2f}{server}"


def _optional(name: str, value: float | None, text: Callable[[float], str]) -> list[tuple[str, str]]:
    return [] if value is None else [(name, text(value))]
