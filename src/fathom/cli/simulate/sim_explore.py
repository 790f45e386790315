"""`fathom sim explore`: many runs of scenarios; what broke is kept, and every result if a file is given."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from fathom.cli.output import AsJson, FileOutput, document_format, print_document
from fathom.cli.problem import ANSWER_IS_NO, INTERRUPTED, Problem
from fathom.cli.simulate.sim import Jobs, Out, Patch, Seeds, Strategy
from fathom.cli.simulate.simulated import apply, chosen
from fathom.cli.simulate.simulated import seeds as seeds_of
from fathom.cli.status_line import exploring
from fathom.sim import FAILURES
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.sim.search.explore import Job, Limits, Progress
    from fathom.sim.search.results_file import ResultsFile
    from fathom.sim.search.summary import ExploreSummary
    from fathom.sim.world.scenario import Scenario


def explore(
    scenario: Annotated[
        str,
        Parameter(
            help="Names of scenarios, A,B,…, or all: then each seed runs one scenario; scenarios that still"
            " reach new states get more of them."
        ),
    ] = "all",
    /,
    *,
    seeds: Seeds,
    jobs: Jobs = 1,
    strategy: Annotated[
        Strategy | None,
        Parameter(
            help="random: faults and latencies from the seed. pct: random priorities, no latencies. lineage:"
            " faults on the messages and writes that a good outcome depended on. Default: random and lineage"
            " in turn, and now and then wall clocks that are set, or one sort of write that fails for long."
        ),
    ] = None,
    every: Annotated[
        bool, Parameter(negative=(), help="With all: run every scenario with every seed.")
    ] = False,
    patch: Patch = None,
    first: Annotated[bool, Parameter(negative=(), help="Stop at the first violation.")] = False,
    runs: Annotated[int | None, Parameter(validator=Number(gte=1), help="Maximum number of runs.")] = None,
    results: Annotated[
        Path | None,
        Parameter(
            help="File to which each run's result is appended, as a line of JSON. Runs of the same code that"
            " it has are not run again, so the same command goes on where the last one ended."
        ),
    ] = None,
    out: Out = FAILURES,
    output: FileOutput = "",
    as_json: AsJson = False,
) -> int:
    """Run scenarios with many seeds, and keep the runs that violate an invariant.

    Exits with 0 if every invariant held, with 1 if not.

    Prints how many runs each scenario had and what they reached, and for each violation the command that
    repeats it. Ctrl-C ends it with what was found until then.

    fathom sim explore all --seeds 0..100 -j 2
    fathom sim explore all --seeds 0..5000 -j 2 --results results.jsonl
    fathom sim explore cluster --seeds 0..50 --strategy lineage --first
    """
    apply(patch)
    from fathom.sim.search.cores import freeze  # noqa: PLC0415  # After the patch.
    from fathom.sim.search.explore import ExplorationFailed, Limits  # noqa: PLC0415

    wanted = document_format(output, as_json=as_json)
    chosen_scenarios = {entry.name: entry for entry in chosen(scenario)}
    exploration = Exploration(
        chosen_scenarios,
        seeds_of(seeds),
        strategy=strategy,
        each_seed_once=scenario == "all" and not every,
    )
    freeze()
    failed = ""
    with (
        _results_file(results, chosen_scenarios, patch) as file,
        exploring(exploration.total, quiet=bool(wanted)) as show_progress,
    ):
        try:
            summary = exploration.run(file, Limits(first, runs), workers=jobs, progress=show_progress)
        except ExplorationFailed as error:
            failed, summary = str(error), error.summary
    _show(summary, chosen_scenarios, patch=patch, out=out, wanted=wanted, failed=failed)
    if failed:
        raise Problem(f"the exploration failed after {summary.runs:,} runs: {failed}{_go_on(results)}")
    if summary.interrupted:
        say(f"interrupted{_go_on(results)}", err=True)
        return INTERRUPTED
    return ANSWER_IS_NO if summary.violations else 0


def _go_on(results: Path | None) -> str:
    if results is None:
        return ""
    return f"; {results} has the results, and the same command goes on from there"


def _results_file(
    file: Path | None, scenarios: dict[str, Scenario], patch: Path | None
) -> AbstractContextManager[ResultsFile | None]:
    if file is None:
        return nullcontext()
    from fathom.sim.search.results_file import BadResults, ResultsFile, code_of  # noqa: PLC0415

    try:
        opened = ResultsFile(file, code=code_of(scenarios, patch))
    except BadResults as error:
        raise Problem(f"--results: {error}") from error
    if opened.of_other_code:
        say(f"note: {file} has {opened.of_other_code:,} runs of other code, which are not counted", err=True)
    return opened


class Exploration:
    """What to run. Random and pct follow a course of rounds; lineage alone searches until nothing is left."""

    def __init__(
        self,
        scenarios: dict[str, Scenario],
        seeds: range,
        *,
        strategy: Strategy | None,
        each_seed_once: bool,
    ) -> None:
        from fathom.sim.search.course import EveryPair, SteeredPairs  # noqa: PLC0415

        self._scenarios = scenarios
        self._seeds = seeds
        self._strategy = strategy
        self._each_seed_once = each_seed_once
        self._dealer = (SteeredPairs if each_seed_once else EveryPair)(list(scenarios), seeds)

    @property
    def total(self) -> int | None:
        """The number of runs, where it is known."""
        return None if self._strategy == "lineage" else self._dealer.total

    def run(
        self, file: ResultsFile | None, limits: Limits, *, workers: int, progress: Progress
    ) -> ExploreSummary:
        from fathom.sim.search.course import Course  # noqa: PLC0415
        from fathom.sim.search.explore import explore_course, explore_jobs  # noqa: PLC0415

        done = file.done if file is not None else ()
        save = file.add if file is not None else None
        if self._strategy == "lineage":
            return explore_jobs(
                self._scenarios,
                self._searches(),
                workers=workers,
                limits=limits,
                progress=progress,
                done=done,
                save=save,
            )
        strategies: tuple[Strategy, ...] = ("random", "lineage")
        if self._strategy is not None:
            strategies = (self._strategy,)
        course = Course(
            self._scenarios,
            self._dealer,
            self._seeds,
            strategies=strategies,
            single=self._strategy is None,
            done=done,
        )
        return explore_course(
            self._scenarios, course, workers=workers, limits=limits, progress=progress, save=save
        )

    def _searches(self) -> list[Job]:
        from fathom.sim.search.explore import Job  # noqa: PLC0415
        from fathom.sim.search.seeds import everyone, in_turn  # noqa: PLC0415

        pairs = (in_turn if self._each_seed_once else everyone)(list(self._scenarios), self._seeds)
        return [Job(name, seed, "lineage") for name, seed in pairs]


def _show(
    summary: ExploreSummary,
    scenarios: dict[str, Scenario],
    *,
    patch: Path | None,
    out: Path,
    wanted: str,
    failed: str,
) -> None:
    from fathom.sim.report.kept_runs import keep_some  # noqa: PLC0415
    from fathom.sim.search import summary as summaries  # noqa: PLC0415

    kept = keep_some(scenarios, summary.violations, patch=patch, out=out)
    if wanted == "name":
        say(*(str(run.file) for run in kept))
    elif wanted:
        print_document(summaries.as_json(summary, kept, failed=failed), wanted)
    else:
        say(*summaries.as_lines(summary, kept))
