"""What recording costs a scheduler: the same load without and with it, in turn, several times.

Which of the two comes first changes from pair to pair, so that a machine that gets slower or faster favours
neither. The CPU time of scheduler and API server is compared too: other programs disturb it less.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import msgspec

from fathom.bench.result import Machine, Server
from fathom.bench.schedule import JOURNAL, NOTHING, Recording, ScheduleLoad, ScheduleResult, run_schedule
from fathom.bench.session import Against


class MedianRange(msgspec.Struct, frozen=True):
    median: float
    min: float
    max: float


class RecordingCost(msgspec.Struct, frozen=True, kw_only=True):
    """`slower_percent`: how many fewer pods were bound a second with recording than without, in each pair;
    below 0, more were."""

    bench: str = "schedule-recording"
    workload: str
    recorded: str  # 'journal', or 'journal and tape'
    slower_percent: MedianRange
    slower_percent_by_pair: list[float]
    slower_percent_mean: float
    slower_percent_error: float  # The standard error of that mean: how far it may be off, for so few pairs.
    # The fastest quarter of the runs without it against the fastest quarter with it: those that nothing else
    # on the machine has disturbed.
    slower_percent_undisturbed: float
    more_cpu_percent: MedianRange  # Of scheduler and API server together, by pod.
    pods_per_s_without: list[float]
    pods_per_s_with: list[float]
    cpu_us_without: list[float]  # CPU time of scheduler and API server together, by pod.
    cpu_us_with: list[float]
    scheduler_us_without: list[float]  # Of the scheduler alone.
    scheduler_us_with: list[float]
    recording: Recording | None  # Of the last run.
    others_cores: MedianRange  # The scheduler is one of the others here.
    parameters: dict[str, int | str]
    machine: Machine
    server: Server


def run_pairs(
    against: Against, load: ScheduleLoad, pairs: int, run: Callable[..., ScheduleResult] = run_schedule
) -> RecordingCost:
    """`load.recording`: what the second of each pair records."""
    without: list[ScheduleResult] = []
    recorded: list[ScheduleResult] = []
    plain = msgspec.structs.replace(load, recording=NOTHING)
    for pair in range(pairs):
        both = [(plain, without), (load, recorded)]
        for chosen, results in both if pair % 2 == 0 else reversed(both):
            results.append(run(against, chosen))
    return _compared(load, without, recorded)


def _compared(
    load: ScheduleLoad, without: Sequence[ScheduleResult], recorded: Sequence[ScheduleResult]
) -> RecordingCost:
    slower = [
        round(100 * (1 - second.pods_per_s / first.pods_per_s), 2)
        for first, second in zip(without, recorded, strict=True)
    ]
    cpu_without, cpu_with = ([_cpu_us(result) for result in results] for results in (without, recorded))
    more_cpu = [
        round(100 * (second / first - 1), 2) for first, second in zip(cpu_without, cpu_with, strict=True)
    ]
    return RecordingCost(
        workload=load.workload,
        recorded="journal" if load.recording == JOURNAL else "journal and tape",
        slower_percent=_median_range(slower),
        slower_percent_by_pair=slower,
        slower_percent_mean=round(statistics.mean(slower), 2),
        slower_percent_error=round(statistics.stdev(slower) / len(slower) ** 0.5, 2)
        if len(slower) > 1
        else 0.0,
        slower_percent_undisturbed=round(100 * (1 - _fastest(recorded) / _fastest(without)), 2),
        more_cpu_percent=_median_range(more_cpu),
        pods_per_s_without=[result.pods_per_s for result in without],
        pods_per_s_with=[result.pods_per_s for result in recorded],
        cpu_us_without=cpu_without,
        cpu_us_with=cpu_with,
        scheduler_us_without=[result.scheduler_us_per_pod or 0.0 for result in without],
        scheduler_us_with=[result.scheduler_us_per_pod or 0.0 for result in recorded],
        recording=recorded[-1].recording,
        others_cores=_median_range([result.cores.others or 0.0 for result in (*without, *recorded)]),
        parameters={**msgspec.to_builtins(load), "pairs": len(without)},
        machine=recorded[-1].machine,
        server=recorded[-1].server,
    )


def _fastest(results: Sequence[ScheduleResult]) -> float:
    """The mean rate of the fastest quarter of the runs, at least of one."""
    rates = sorted((result.pods_per_s for result in results), reverse=True)
    return statistics.mean(rates[: max(1, len(rates) // 4)])


def _cpu_us(result: ScheduleResult) -> float:
    return round((result.scheduler_us_per_pod or 0.0) + (result.server_us_per_pod or 0.0), 1)


def _median_range(values: Sequence[float]) -> MedianRange:
    return MedianRange(round(statistics.median(values), 2), min(values), max(values))


def as_json(result: RecordingCost) -> str:
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def as_table(result: RecordingCost) -> str:
    load = result.parameters
    title = f"{result.workload}: {load['nodes']} nodes, {load['pods']} pods, {load['pairs']} pairs of runs"
    rows = [
        ("without recording", _listed(result.pods_per_s_without), "pods a second"),
        (f"with {result.recorded}", _listed(result.pods_per_s_with), "pods a second"),
        ("slower by", _percent(result.slower_percent), "the same pairs"),
        ("mean", f"{result.slower_percent_mean:.1f} ± {result.slower_percent_error:.1f} %", "standard error"),
        ("undisturbed runs", f"{result.slower_percent_undisturbed:.1f} %", "the fastest quarter of each"),
        ("CPU of both servers", _percent(result.more_cpu_percent), "more, by pod"),
    ]
    if result.recording is not None:
        rows.append(("a decision", f"{result.recording.bytes_per_decision:,.0f} bytes", "before packing"))
    return "\n".join([title, "", *(f"{name:<22} {value}  {note}" for name, value, note in rows)])


def _listed(rates: Sequence[float]) -> str:
    return f"median {statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


def _percent(values: MedianRange) -> str:
    return f"{values.median:.1f} % ({values.min:.1f} to {values.max:.1f})"
