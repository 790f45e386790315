"""Run scenarios with many seeds, on several cores, and collect the violations.

random    latencies and faults from the seed
pct       random priorities instead of latencies: starves processes as badly as it can
lineage   take a good run, find what its outcome depended on, and add faults that remove it
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from types import FrameType
from typing import Any

import msgspec

from fathom.model.times import SECOND_NS
from fathom.seams.outside import SystemClock
from fathom.sim.report.kept_runs import KeptRun
from fathom.sim.search import lineage
from fathom.sim.search.cores import WorkerPool
from fathom.sim.search.lineage_sites import Support
from fathom.sim.world.faults import MAKERS
from fathom.sim.world.scenario import Result, RunPlan, Scenario, Strategy, plan_of, swept, tell

# How many plans of one search run before the search learns from their results. It does not depend on the
# number of cores, so that a search is the same on any machine.
BATCH = 4
SEARCH_MAX = 1000  # Runs of one search.
SEEDS_TOGETHER = 4  # Seeds of one search. Sixteen take about as long: more variety, less aim.


class Job(msgspec.Struct, frozen=True):
    scenario: str
    seed: str
    strategy: Strategy = "random"


def everyone(names: Sequence[str], seeds: range) -> list[tuple[str, str]]:
    return [(name, str(seed)) for seed in seeds for name in names]


def in_turn(names: Sequence[str], seeds: range) -> list[tuple[str, str]]:
    """Each seed for one scenario, in turn; every scenario and every seed at least once. So a thousand seeds
    are a thousand runs, however many scenarios there are."""
    count = max(len(names), len(seeds))
    return [(names[at % len(names)], str(seeds[at % len(seeds)])) for at in range(count)]


class ExploreSummary(msgspec.Struct):
    runs: int = 0
    violations: list[Result] = msgspec.field(default_factory=list)
    sim_s: float = 0.0
    busy_s: float = 0.0  # Of all workers together.
    real_s: float = 0.0
    coverage: dict[str, int] = msgspec.field(default_factory=dict)  # 'fault site' -> how often it fired
    hits: dict[str, int] = msgspec.field(default_factory=dict)  # `sometimes`
    interrupted: bool = False  # By Ctrl-C.

    def add(self, result: Result) -> None:
        self.runs += 1
        self.sim_s += result.sim_s
        self.busy_s += result.real_s
        _count(self.coverage, result.fired)
        _count(self.hits, result.hits)
        if result.violation is not None:
            self.violations.append(result)

    def merge(self, other: ExploreSummary) -> None:
        """Add the results of another exploration that ran after this one."""
        self.runs += other.runs
        self.violations += other.violations
        self.sim_s += other.sim_s
        self.busy_s += other.busy_s
        self.real_s += other.real_s
        _count(self.coverage, other.coverage)
        _count(self.hits, other.hits)

    @property
    def runs_per_s(self) -> float:
        return self.runs / self.real_s if self.real_s else 0.0

    @property
    def sim_ratio(self) -> float:
        """Simulated seconds per second of one core."""
        return self.sim_s / self.busy_s if self.busy_s else 0.0


def _count(into: dict[str, int], more: Mapping[str, int]) -> None:
    for name, times in more.items():
        into[name] = into.get(name, 0) + times


Progress = Callable[[ExploreSummary], None]


def explore(
    scenarios: Mapping[str, Scenario],
    jobs: Iterable[Job],
    *,
    workers: int = 1,
    stop_at_first: bool = False,
    runs_max: int | None = None,
    progress: Progress | None = None,
) -> ExploreSummary:
    """Results are taken in the order of the jobs, so that the same jobs give the same summary. Ctrl-C ends it
    early: then the summary has what was found so far."""
    clock = SystemClock()
    summary, started_ns = ExploreSummary(), clock.monotonic_ns()
    with WorkerPool(workers, scenarios) as cores, _noting_ctrl_c(summary):
        for result in _results(scenarios, jobs, cores):
            summary.add(result)
            summary.real_s = (clock.monotonic_ns() - started_ns) / SECOND_NS
            if progress is not None:
                progress(summary)
            if (stop_at_first and summary.violations) or summary.runs == runs_max or summary.interrupted:
                break
    return summary


@contextmanager
def _noting_ctrl_c(summary: ExploreSummary) -> Iterator[None]:
    """An exception inside the worker pool would leave it broken: the first Ctrl-C is only noted, and handled
    when a run has ended; the second one raises as usual."""

    def note(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        summary.interrupted = True

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _results(scenarios: Mapping[str, Scenario], jobs: Iterable[Job], cores: WorkerPool) -> Iterator[Result]:
    for searches, group in groupby(jobs, key=lambda job: job.strategy == "lineage"):
        if not searches:
            yield from cores.each(run_job, group)
            continue
        seeds: dict[str, list[str]] = {}
        for job in group:
            seeds.setdefault(job.scenario, []).append(job.seed)
        for start in range(0, max(map(len, seeds.values())), SEEDS_TOGETHER):
            block = {
                name: scenario_seeds[start : start + SEEDS_TOGETHER] for name, scenario_seeds in seeds.items()
            }
            block_searches = [lineage.Search(scenarios[name], some) for name, some in block.items() if some]
            yield from _search(block_searches, cores)


def run_job(scenarios: Mapping[str, Scenario], job: Job) -> Result:
    scenario = scenarios[job.scenario]
    with swept():
        return tell(scenario, plan_of(scenario, job.seed, job.strategy))


def _search(searches: Sequence[lineage.Search], cores: WorkerPool) -> Iterator[Result]:
    """A few runs of each search in turn. A search ends with its first violation, or when nothing is left to
    try."""
    runs_left = dict.fromkeys(range(len(searches)), SEARCH_MAX)
    while runs_left:
        for index in tuple(runs_left):
            plans = searches[index].next(BATCH)
            runs_left[index] -= len(plans)
            broken = not plans
            for result, supports in cores.each(_learn, plans):
                yield result
                if result.violation is not None:
                    broken = True
                    break
                searches[index].learn(result.plan, supports)
            if broken or runs_left[index] <= 0:
                del runs_left[index]


def _learn(scenarios: Mapping[str, Scenario], plan: RunPlan) -> tuple[Result, list[Support]]:
    with swept():
        return lineage.told(scenarios[plan.scenario], plan)


# Output as JSON and as text.


def as_json(summary: ExploreSummary, kept: Sequence[KeptRun] = ()) -> dict[str, Any]:
    return {
        "runs": summary.runs,
        "runs_per_s": round(summary.runs_per_s, 2),
        "sim_ratio": round(summary.sim_ratio, 1),
        "violations": [_violation(result) for result in summary.violations],
        "coverage": {
            "pairs": dict(sorted(summary.coverage.items())),
            "never": never_fired(summary),
            "sometimes": dict(sorted(summary.hits.items())),
        },
        "seconds": round(summary.real_s, 2),
        "interrupted": summary.interrupted,
        "artifacts": [str(kept_run.file) for kept_run in kept],
        "reruns": [kept_run.rerun for kept_run in kept],
        "not_kept": len(summary.violations) - len(kept),
    }


def never_fired(summary: ExploreSummary) -> list[str]:
    """Kinds of fault that never took effect: they are untested."""
    fired = {pair.partition(" ")[0] for pair in summary.coverage}
    return sorted({name for name, _ in MAKERS} - fired)


def _violation(result: Result) -> dict[str, Any]:
    violation, plan = result.violation, result.plan
    assert violation is not None
    return {
        "scenario": plan.scenario,
        "seed": plan.seed,
        "strategy": plan.strategy,
        "invariant": violation.invariant,
        "message": violation.message,
        "at_s": round(violation.at_s, 3),
        "faults": len(plan.faults),
    }


def as_lines(summary: ExploreSummary, kept: Sequence[KeptRun] = ()) -> list[str]:
    hits = ", ".join(f"{name} ×{times}" for name, times in sorted(summary.hits.items()))
    lines = [
        f"{summary.runs:,} runs{' (interrupted)' if summary.interrupted else ''}, "
        f"{summary.runs_per_s:,.1f}/s, {summary.sim_s:,.0f} s simulated, "
        f"{summary.sim_ratio:,.0f} × real time on a core",
        f"{len(summary.coverage)} pairs of fault and site fired; sometimes: {hits or 'nothing'}",
    ]
    if not summary.violations:
        return [*lines, "everything held"]
    lines += [f"{len(summary.violations)} violations:", *_by_invariant(summary.violations)]
    for kept_run in kept:
        lines += [f"replay:  {kept_run.replay}", *_rerun(kept_run)]
    not_kept = len(summary.violations) - len(kept)
    return [*lines, f"({not_kept} more of the same were not kept)"] if not_kept else lines


def _rerun(kept: KeptRun) -> list[str]:
    return [] if kept.rerun == kept.replay else [f"rerun:   {kept.rerun}"]


def _by_invariant(violations: Sequence[Result]) -> Iterator[str]:
    sorts: dict[tuple[str, str], list[str]] = {}
    for result in violations:
        assert result.violation is not None
        sorts.setdefault((result.plan.scenario, result.violation.invariant), []).append(result.plan.seed)
    for (name, invariant), seeds in sorts.items():
        shown = f"{', '.join(seeds[:8])}{' …' if len(seeds) > 8 else ''}"
        yield f"  {name}: {invariant}: ×{len(seeds)}, seeds {shown}"
