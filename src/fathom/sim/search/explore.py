"""Run scenarios with many seeds, on several cores, and collect the violations.

random    latencies and faults from the seed
pct       random priorities instead of latencies: starves processes as badly as it can
lineage   take a good run, find what its outcome depended on, and add faults that remove it

`explore_jobs` does a list of jobs, `explore_course` what a `course.Course` decides from the results.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from types import FrameType

import msgspec

from fathom.model.times import SECOND_NS
from fathom.seams.outside import SystemClock
from fathom.sim.search import lineage
from fathom.sim.search.cores import WorkerDied, WorkerPool
from fathom.sim.search.course import SEEDS_TOGETHER, Course
from fathom.sim.search.lineage_sites import Support
from fathom.sim.search.summary import ExploreSummary, ScenarioRuns
from fathom.sim.world.scenario import Result, RunPlan, Scenario, Strategy, plan_of, swept, tell

# How many plans of one search run before the search learns from their results. It does not depend on the
# number of cores, so that a search is the same on any machine.
BATCH = 4
SEARCH_MAX = 1000  # Runs of one search.


class Job(msgspec.Struct, frozen=True):
    scenario: str
    seed: str
    strategy: Strategy = "random"


class Outcome(msgspec.Struct, frozen=True):
    result: Result
    resumed: bool = False  # From the file of results.


class ExplorationFailed(Exception):
    """Something other than a run failed. `summary` has the results until then; the message is one line."""

    def __init__(self, message: str, summary: ExploreSummary) -> None:
        super().__init__(message)
        self.summary = summary


Progress = Callable[[ExploreSummary], None]


class Limits(msgspec.Struct, frozen=True):
    """When an exploration ends, besides when nothing is left to do."""

    stop_at_first: bool = False
    runs_max: int | None = None

    def reached(self, summary: ExploreSummary) -> bool:
        if self.stop_at_first and summary.violations:
            return True
        return summary.interrupted or (self.runs_max is not None and summary.runs >= self.runs_max)


NO_LIMITS = Limits()


def explore(
    scenarios: Mapping[str, Scenario],
    jobs: Iterable[Job],
    *,
    workers: int = 1,
    stop_at_first: bool = False,
    runs_max: int | None = None,
) -> ExploreSummary:
    """`explore_jobs` as tests and the pytest plugin need it."""
    return explore_jobs(scenarios, jobs, workers=workers, limits=Limits(stop_at_first, runs_max))


def explore_jobs(
    scenarios: Mapping[str, Scenario],
    jobs: Iterable[Job],
    *,
    workers: int = 1,
    limits: Limits = NO_LIMITS,
    progress: Progress | None = None,
    done: Sequence[Result] = (),
    save: Callable[[Result], None] | None = None,
) -> ExploreSummary:
    """Results are taken in the order of the jobs, so that the same jobs give the same summary. Ctrl-C ends it
    early: then the summary has what was found so far. `done`: lineage runs of an earlier call, which are not
    run again; `save` gets each new result."""
    return _explore(
        scenarios,
        lambda cores: _outcomes(scenarios, jobs, cores, done),
        workers=workers,
        limits=limits,
        progress=progress,
        save=save,
    )


def explore_course(
    scenarios: Mapping[str, Scenario],
    course: Course,
    *,
    workers: int = 1,
    limits: Limits = NO_LIMITS,
    progress: Progress | None = None,
    save: Callable[[Result], None] | None = None,
) -> ExploreSummary:
    return _explore(
        scenarios,
        lambda cores: _rounds(course, cores),
        workers=workers,
        limits=limits,
        progress=progress,
        save=save,
    )


def _explore(
    scenarios: Mapping[str, Scenario],
    outcomes: Callable[[WorkerPool], Iterator[Outcome]],
    *,
    workers: int,
    limits: Limits,
    progress: Progress | None,
    save: Callable[[Result], None] | None,
) -> ExploreSummary:
    clock = SystemClock()
    summary = ExploreSummary(scenarios={name: ScenarioRuns() for name in scenarios})
    started_ns = clock.monotonic_ns()
    try:
        with WorkerPool(workers, scenarios) as cores, _noting_signals(summary):
            for outcome in outcomes(cores):
                if save is not None and not outcome.resumed:
                    save(outcome.result)  # First: whatever comes next, this run is not lost.
                summary.add(outcome.result, resumed=outcome.resumed)
                summary.real_s = (clock.monotonic_ns() - started_ns) / SECOND_NS
                if progress is not None:
                    progress(summary)
                if limits.reached(summary):
                    break
    except Exception as error:
        # A signal to the whole group ends the workers too.
        if not (isinstance(error, WorkerDied) and summary.interrupted):
            raise ExplorationFailed(_in_a_line(error), summary) from error
    return summary


def _in_a_line(error: Exception) -> str:
    if isinstance(error, WorkerDied):
        return str(error)
    return f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")


@contextmanager
def _noting_signals(summary: ExploreSummary) -> Iterator[None]:
    """An exception inside the worker pool would leave it broken: the first Ctrl-C, or request to end as of
    `timeout`, is only noted, and handled when a run has ended; the second one acts as usual."""

    def note(number: int, frame: FrameType | None) -> None:
        signal.signal(number, before[signal.Signals(number)])
        summary.interrupted = True

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# The runs of a course.


def _rounds(course: Course, cores: WorkerPool) -> Iterator[Outcome]:
    while runs := course.next():
        results = cores.each(_carry_out, [run.plan for run in runs if run.result is None])
        for run in runs:
            result, supports = (run.result, ()) if run.result is not None else next(results)
            course.add(run, result, supports)
            if run.counted:
                yield Outcome(result, resumed=run.result is not None)


def _carry_out(scenarios: Mapping[str, Scenario], plan: RunPlan) -> tuple[Result, Sequence[Support]]:
    scenario = scenarios[plan.scenario]
    with swept():
        return lineage.told(scenario, plan) if plan.strategy == "lineage" else (tell(scenario, plan), ())


# The runs of a list of jobs.


def _outcomes(
    scenarios: Mapping[str, Scenario], jobs: Iterable[Job], cores: WorkerPool, done: Sequence[Result]
) -> Iterator[Outcome]:
    for searches, group in groupby(jobs, key=lambda job: job.strategy == "lineage"):
        if not searches:
            yield from map(Outcome, cores.each(run_job, group))
            continue
        seeds: dict[str, list[str]] = {}
        for job in group:
            seeds.setdefault(job.scenario, []).append(job.seed)
        for start in range(0, max(map(len, seeds.values())), SEEDS_TOGETHER):
            block = {
                name: scenario_seeds[start : start + SEEDS_TOGETHER] for name, scenario_seeds in seeds.items()
            }
            searches_of = {
                name: lineage.Search(scenarios[name], some) for name, some in block.items() if some
            }
            resumed = [
                result
                for result in done
                if (result.plan.seed in block.get(result.plan.scenario, ()))
                and result.plan.strategy == "lineage"
            ]
            yield from _search(searches_of, cores, resumed)


def run_job(scenarios: Mapping[str, Scenario], job: Job) -> Result:
    scenario = scenarios[job.scenario]
    with swept():
        return tell(scenario, plan_of(scenario, job.seed, job.strategy))


def _search(
    searches: Mapping[str, lineage.Search], cores: WorkerPool, done: Sequence[Result]
) -> Iterator[Outcome]:
    """A few runs of each search in turn. A search ends with its first violation, or when nothing is left to
    try."""
    runs_left = dict.fromkeys(searches, SEARCH_MAX)
    for result in done:
        yield Outcome(result, resumed=True)
        name = result.plan.scenario
        searches[name].had(result.plan)
        if name in runs_left:
            runs_left[name] = 0 if result.violation is not None else runs_left[name] - 1
    runs_left = {name: left for name, left in runs_left.items() if left > 0}
    repeated = [plan for name in runs_left if (plan := searches[name].forgotten()) is not None]
    for result, supports in cores.each(_carry_out, repeated):
        searches[result.plan.scenario].learn(result.plan, supports)
    while runs_left:
        for name in tuple(runs_left):
            plans = searches[name].next(BATCH)
            runs_left[name] -= len(plans)
            broken = not plans
            for result, supports in cores.each(_carry_out, plans):
                yield Outcome(result)
                if result.violation is not None:
                    broken = True
                    break
                searches[name].learn(result.plan, supports)
            if broken or runs_left[name] <= 0:
                del runs_left[name]
