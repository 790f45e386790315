"""Tell stories under many seeds, on several cores, and collect what breaks.

random    latencies and faults from the seed
pct       random priorities instead of latencies: starves processes as badly as it can
lineage   take a good run, ask which messages its outcome rested on, and lose those one at a time
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from fathom.sim.faults import (
    AnyFault,
    CrashAtWrite,
    DropWatch,
    HoldWatch,
    LoseReply,
    LoseRequest,
    StaleServer,
)
from fathom.sim.scenario import Result, Scenario, Strategy, tell

Job = tuple[str, str, Strategy]  # scenario, seed, strategy
Progress = Callable[["Summary"], None]


class Summary(msgspec.Struct):
    runs: int = 0
    violations: list[Result] = msgspec.field(default_factory=list)
    sim_s: float = 0.0
    busy_s: float = 0.0  # Of all workers together.
    real_s: float = 0.0
    coverage: dict[str, int] = msgspec.field(default_factory=dict)
    hits: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, result: Result) -> None:
        self.runs += 1
        self.sim_s += result.sim_s
        self.busy_s += result.real_s
        for name, times in result.fired.items():
            self.coverage[name] = self.coverage.get(name, 0) + times
        for name, times in result.hits.items():
            self.hits[name] = self.hits.get(name, 0) + times
        if result.violation is not None:
            self.violations.append(result)

    @property
    def runs_per_s(self) -> float:
        return self.runs / self.real_s if self.real_s else 0.0

    @property
    def sim_ratio(self) -> float:
        """Simulated seconds per second of one core."""
        return self.sim_s / self.busy_s if self.busy_s else 0.0


def explore(
    scenarios: dict[str, Scenario],
    jobs: Iterable[Job],
    *,
    workers: int = 1,
    prepare: Callable[[], None] | None = None,
    stop_at_first: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """`prepare` runs in every worker before anything else: it loads a patch."""
    summary, started = Summary(), time.perf_counter()
    for result in _results(scenarios, jobs, workers, prepare):
        summary.add(result)
        summary.real_s = time.perf_counter() - started
        if progress is not None:
            progress(summary)
        if stop_at_first and summary.violations:
            break
    return summary


def _results(
    scenarios: dict[str, Scenario], jobs: Iterable[Job], workers: int, prepare: Callable[[], None] | None
) -> Iterator[Result]:
    if workers <= 1:
        if prepare is not None:
            prepare()
        for job in jobs:
            yield from run_job(scenarios, job)
        return
    context = multiprocessing.get_context("fork")
    with context.Pool(workers, initializer=_start, initargs=(scenarios, prepare)) as pool:
        for results in pool.imap_unordered(_run, jobs, chunksize=4):
            yield from results


_SCENARIOS: dict[str, Scenario] = {}  # Of a worker process; set once, when it starts.


def _start(scenarios: dict[str, Scenario], prepare: Callable[[], None] | None) -> None:
    _SCENARIOS.update(scenarios)
    if prepare is not None:
        prepare()


def _run(job: Job) -> list[Result]:
    return run_job(_SCENARIOS, job)


def run_job(scenarios: dict[str, Scenario], job: Job) -> list[Result]:
    name, seed, strategy = job
    scenario = scenarios[name]
    if strategy == "lineage":
        return list(_lineage(scenario, seed))
    return [tell(scenario, seed, strategy=strategy)]


def _lineage(scenario: Scenario, seed: str) -> Iterator[Result]:
    """One good run, then the faults that its own messages suggest, one run each; ends at the first that
    breaks."""
    scripted = tuple(scenario.scripted()) if scenario.scripted else ()
    good = tell(scenario, seed, faults=scripted, strategy="random")
    yield good
    if good.violation is not None:
        return
    for faults in suggestions(scenario, seed):
        result = tell(scenario, seed, faults=(*scripted, *faults), strategy="random")
        yield result
        if result.violation is not None:
            return


def suggestions(scenario: Scenario, seed: str) -> Iterator[Sequence[AnyFault]]:
    """What a write rests on: that its request arrives, its reply arrives, its writer lives on, its readers
    hear of it. Taken away one at a time, nearest to the write first, then in pairs."""
    from fathom.sim.lineage import writes_of  # noqa: PLC0415 - runs a world; not needed by the others

    writes = writes_of(scenario, seed)
    for write in writes:
        at_s = max(0.0, write.sent_s - 0.001)
        yield (LoseReply(at_s=at_s, target=write.process, match=write.site),)
        yield (CrashAtWrite(at_s=0, target=write.process, times=write.number, for_s=1.0),)
        yield (LoseRequest(at_s=at_s, target=write.process, match=write.site),)
        yield (HoldWatch(at_s=at_s, target=write.process, match=write.path, for_s=20.0),)
        yield (
            LoseReply(at_s=at_s, target=write.process, match=write.site),
            CrashAtWrite(at_s=0, target=write.process, times=write.number, for_s=1.0),
            HoldWatch(at_s=at_s, target=write.process, match=write.path, for_s=20.0),
        )
        yield (DropWatch(at_s=at_s, target=write.process, match=write.path),)
        yield (StaleServer(at_s=at_s, target=write.server, for_s=10.0),)


def as_json(summary: Summary, **more: Any) -> dict[str, Any]:
    return {
        "runs": summary.runs,
        "runs_per_s": round(summary.runs_per_s, 2),
        "sim_ratio": round(summary.sim_ratio, 1),
        "violations": [
            {
                "scenario": result.scenario,
                "seed": result.seed,
                "invariant": result.violation.invariant,
                "message": result.violation.message,
                "at_s": round(result.violation.at_s, 3),
                "faults": len(result.faults),
            }
            for result in summary.violations
            if result.violation is not None
        ],
        "coverage": dict(sorted(summary.coverage.items())),
        "sometimes": dict(sorted(summary.hits.items())),
        "seconds": round(summary.real_s, 2),
        **more,
    }
