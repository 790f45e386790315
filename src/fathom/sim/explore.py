"""Tell stories under many seeds, on several cores, and collect what breaks.

random    latencies and faults from the seed
pct       random priorities instead of latencies: starves processes as badly as it can
lineage   take a good run, ask what its outcome rested on, and take that away
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from fathom.seams.outside import SystemClock
from fathom.sim import lineage
from fathom.sim.inforce import SECOND_NS
from fathom.sim.scenario import Result, Scenario, Strategy, plan_of, sweep, tell


class Job(msgspec.Struct, frozen=True):
    scenario: str
    seed: str
    strategy: Strategy = "random"


class Summary(msgspec.Struct):
    runs: int = 0
    violations: list[Result] = msgspec.field(default_factory=list)
    sim_s: float = 0.0
    busy_s: float = 0.0  # Of all workers together.
    real_s: float = 0.0
    coverage: dict[str, int] = msgspec.field(default_factory=dict)  # 'fault site' -> how often it fired
    hits: dict[str, int] = msgspec.field(default_factory=dict)  # `sometimes`

    def add(self, result: Result) -> None:
        self.runs += 1
        self.sim_s += result.sim_s
        self.busy_s += result.real_s
        _count(self.coverage, result.fired)
        _count(self.hits, result.hits)
        if result.violation is not None:
            self.violations.append(result)

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


Progress = Callable[[Summary], None]


def explore(
    scenarios: Mapping[str, Scenario],
    jobs: Iterable[Job],
    *,
    workers: int = 1,
    stop_at_first: bool = False,
    runs_max: int | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Results are taken in the order of the jobs, so that the same jobs give the same summary."""
    clock = SystemClock()
    summary, started_ns = Summary(), clock.monotonic_ns()
    for result in _results(scenarios, jobs, workers):
        summary.add(result)
        summary.real_s = (clock.monotonic_ns() - started_ns) / SECOND_NS
        if progress is not None:
            progress(summary)
        if (stop_at_first and summary.violations) or summary.runs == runs_max:
            break
    return summary


def _results(scenarios: Mapping[str, Scenario], jobs: Iterable[Job], workers: int) -> Iterator[Result]:
    if workers <= 1:
        for job in jobs:
            yield from run_job(scenarios, job)
        return
    # Forked, so that a patch that was loaded here is in force there too.
    context = multiprocessing.get_context("fork")
    with context.Pool(workers, initializer=_start, initargs=(scenarios,)) as pool:
        for results in pool.imap(_run, jobs, chunksize=4):
            yield from results


_SCENARIOS: dict[str, Scenario] = {}  # Of a worker process; set once, when it starts.


def _start(scenarios: Mapping[str, Scenario]) -> None:
    _SCENARIOS.update(scenarios)
    freeze()


def _run(job: Job) -> list[Result]:
    return list(run_job(_SCENARIOS, job))


def freeze() -> None:
    """What is loaded now stays: sweeping between runs need not look at it again."""
    gc.collect()
    gc.freeze()


def run_job(scenarios: Mapping[str, Scenario], job: Job) -> Iterator[Result]:
    scenario = scenarios[job.scenario]
    if job.strategy != "lineage":
        yield tell(scenario, plan_of(scenario, job.seed, job.strategy))
        sweep()
        return
    for result in lineage.search(scenario, job.seed):
        yield result
        sweep()


def as_json(summary: Summary, **more: Any) -> dict[str, Any]:
    return {
        "runs": summary.runs,
        "runs_per_s": round(summary.runs_per_s, 2),
        "sim_ratio": round(summary.sim_ratio, 1),
        "violations": [_violation(result) for result in summary.violations],
        "coverage": dict(sorted(summary.coverage.items())),
        "sometimes": dict(sorted(summary.hits.items())),
        "seconds": round(summary.real_s, 2),
        **more,
    }


def _violation(result: Result) -> dict[str, Any]:
    found, plan = result.violation, result.plan
    assert found is not None
    return {
        "scenario": plan.scenario,
        "seed": plan.seed,
        "strategy": plan.strategy,
        "invariant": found.invariant,
        "message": found.message,
        "at_s": round(found.at_s, 3),
        "faults": len(plan.faults),
    }
