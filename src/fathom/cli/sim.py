"""`fathom sim`: run scenarios in a deterministic simulated cluster, with many seeds and every fault."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from fathom.cli.problem import ANSWER_IS_NO, INTERRUPTED, Problem
from fathom.cli.simulated import apply, apply_recorded, chosen, find, print_json, read
from fathom.cli.simulated import seeds as seeds_of
from fathom.cli.status_line import counting, exploring, live_line
from fathom.sim import FAILURES
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.sim.search.determinism_check import TwinComparison
    from fathom.sim.search.explore import Job
    from fathom.sim.search.patches import Bug
    from fathom.sim.search.zoo_run import Hunted
    from fathom.sim.world.scenario import Result, RunPlan, Scenario

Strategy = Literal["random", "pct", "lineage"]

AsJson = Annotated[
    bool, Parameter(name="--json", negative=(), help="One JSON document (docs/simulation.md).")
]
Patch = Annotated[Path | None, Parameter(help="A Python file that changes code before the world starts.")]
Out = Annotated[Path, Parameter(help="Where failing runs are kept, a file each.")]
Seeds = Annotated[str, Parameter(help="A..B: from A up to and without B.")]
Jobs = Annotated[int, Parameter(name=["-j", "--jobs"], validator=Number(gte=1), help="Worker processes.")]
RUNS, RUNS_EVERYWHERE = 100, 600  # Per strategy, for one bug of the zoo.


def make_app() -> App:
    app = App(
        name="sim", help="Simulate the control plane under faults, with seeds that repeat a run exactly."
    )
    app.command(list_, name="list")
    app.command(run)
    app.command(explore)
    app.command(check_determinism)
    app.command(shrink)
    app.command(zoo)
    return app


def list_(*, as_json: AsJson = False) -> None:
    """Which scenarios there are."""
    from fathom.sim.scenarios import SCENARIOS  # noqa: PLC0415  # See the room's docstring.

    if as_json:
        print_json([{"name": one.name, "about": one.about} for one in SCENARIOS.values()])
        return
    width = max(map(len, SCENARIOS))
    for one in SCENARIOS.values():
        say(f"{one.name:<{width}}  {one.about}")


def run(
    scenario: Annotated[str, Parameter(help="Its name, or FILE.py:NAME.")],
    /,
    *,
    seed: Annotated[str, Parameter(help="Everything that is left to chance follows from it.")],
    strategy: Literal["random", "pct"] = "random",
    patch: Patch = None,
    out: Out = FAILURES,
    as_json: AsJson = False,
) -> int:
    """Tell one story once, and what happened in it.

    Exits with 0 if everything held, with 1 if not.
    """
    apply(patch)
    from fathom.sim.world.scenario import plan_of  # noqa: PLC0415  # After the patch.

    found = find(scenario)
    return _tell(found, plan_of(found, seed, strategy), patch=patch, out=out, as_json=as_json)


def _tell(scenario: Scenario, plan: RunPlan, *, patch: Path | None, out: Path, as_json: bool) -> int:
    from fathom.sim.report import run_report  # noqa: PLC0415
    from fathom.sim.report.kept_runs import keep  # noqa: PLC0415

    report, telling = run_report.report(scenario, plan, patch=str(patch or ""))
    broken = report.verdict == run_report.BROKEN
    kept = str(keep(report, telling, patch=patch, out=out).file) if broken else ""
    if as_json:
        print_json(run_report.as_json(report, artifact=kept))
    else:
        say(*run_report.as_lines(report, artifact=kept))
    return ANSWER_IS_NO if broken else 0


def explore(
    scenario: Annotated[
        str, Parameter(help="A name, several with commas, or all: then each seed is for one, in turn.")
    ] = "all",
    /,
    *,
    seeds: Seeds,
    jobs: Jobs = 1,
    strategy: Strategy = "random",
    every: Annotated[bool, Parameter(negative=(), help="Of all, every story under every seed.")] = False,
    patch: Patch = None,
    first: Annotated[bool, Parameter(negative=(), help="Stop at the first violation.")] = False,
    runs: Annotated[int | None, Parameter(validator=Number(gte=1), help="At most so many runs.")] = None,
    out: Out = FAILURES,
    as_json: AsJson = False,
) -> int:
    """Tell stories under many seeds, and collect what breaks.

    Exits with 0 if everything held, with 1 if not.
    """
    apply(patch)
    from fathom.sim.report.kept_runs import keep_some  # noqa: PLC0415
    from fathom.sim.search import explore as explorer  # noqa: PLC0415  # After the patch.
    from fathom.sim.search.cores import WorkerDied, freeze  # noqa: PLC0415

    found = {one.name: one for one in chosen(scenario)}
    told = explorer.in_turn if scenario == "all" and not every else explorer.everyone
    todo = [explorer.Job(name, seed, strategy) for name, seed in told(list(found), seeds_of(seeds))]
    freeze()
    with exploring(len(todo) if strategy != "lineage" else None, quiet=as_json) as shown:
        try:
            summary = explorer.explore(
                found, todo, workers=jobs, stop_at_first=first, runs_max=runs, progress=shown
            )
        except WorkerDied as error:
            raise Problem(str(error)) from error
    kept = keep_some(found, summary.violations, patch=patch, out=out)
    if as_json:
        print_json(explorer.as_json(summary, kept))
    else:
        say(*explorer.as_lines(summary, kept))
    return INTERRUPTED if summary.interrupted else ANSWER_IS_NO if summary.violations else 0


def check_determinism(
    scenario: Annotated[str, Parameter(help="A name, several with commas, or all in turn.")] = "all",
    /,
    *,
    seeds: Seeds,
    strategy: Annotated[Strategy | None, Parameter(help="By default random and pct in turn.")] = None,
    patch: Patch = None,
    as_json: AsJson = False,
) -> int:
    """Tell each seed twice, in two processes that differ in hash seed and heap, and compare their traces.

    Exits with 0 if all are the same, with 1 if not.
    """
    apply(patch)  # Only to check that it applies; both worker processes apply it themselves.
    from fathom.sim.search import determinism_check  # noqa: PLC0415
    from fathom.sim.search.explore import Job  # noqa: PLC0415

    names = [one.name for one in chosen(scenario)]
    jobs = [
        Job(names[index % len(names)], str(seed), strategy or ("random", "pct")[index // len(names) % 2])
        for index, seed in enumerate(seeds_of(seeds))
    ]
    with counting(len(jobs), "seeds", quiet=as_json) as shown:
        found = determinism_check.check(
            jobs, patch=str(patch or ""), progress=lambda so_far: shown(so_far.runs)
        )
    if as_json:
        print_json(_compared(names, jobs, found))
    else:
        for one in found.mismatches[:5]:
            say(f"{one.job.scenario}, seed {one.job.seed}, {one.job.strategy}: {one.one}; {one.other}")
        count = len(found.mismatches)
        say(f"{len(jobs):,} seeds, each told twice, {found.inputs:,} inputs: {count} mismatches")
    return ANSWER_IS_NO if found.mismatches else 0


def _compared(names: list[str], jobs: list[Job], found: TwinComparison) -> dict[str, object]:
    return {
        "seeds": len(jobs),
        "runs": 2 * found.runs,
        "inputs": found.inputs,
        "scenarios": names,
        "mismatches": len(found.mismatches),
        "first": [
            {
                "scenario": one.job.scenario,
                "seed": one.job.seed,
                "strategy": one.job.strategy,
                "one": one.one,
                "other": one.other,
            }
            for one in found.mismatches[:5]
        ],
    }


def shrink(
    file: Annotated[Path, Parameter(help="A failing run that was kept.")],
    /,
    *,
    patch: Patch = None,
    trust: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            help="'patch': run the patch that FILE was recorded with; 'scenario': the file its story is in.",
        ),
    ] = (),
    out: Annotated[Path | None, Parameter(help="Where to write it; by default beside FILE.")] = None,
    seconds: Annotated[float, Parameter(validator=Number(gt=0), help="It takes at most so long.")] = 55.0,
    as_json: AsJson = False,
) -> int:
    """Find the smallest run that breaks the same invariant.

    Exits with 0, or with 1 if FILE's run is not broken here.
    """
    patched = apply_recorded(file, patch, trust=trust)
    import msgspec  # noqa: PLC0415

    from fathom.sim.report import run_report  # noqa: PLC0415  # After the patch.
    from fathom.sim.report.artifact import artifact_of, write  # noqa: PLC0415
    from fathom.sim.search.shrink import shrink as shrunken  # noqa: PLC0415
    from fathom.sim.world.scenario import sweep, tell  # noqa: PLC0415

    artifact = read(file)
    scenario = find(artifact.plan.scenario)
    first = tell(scenario, artifact.plan)
    if first.violation is None:
        raise Problem(f"{file}: nothing is broken in this run any more", exit_code=ANSWER_IS_NO)

    def retell(plan: RunPlan) -> Result:
        sweep()
        return tell(scenario, plan)

    found = shrunken(first, retell, seconds_max=seconds)
    report, telling = run_report.report(scenario, found.result.plan, patch=str(patched or ""))
    target = out or file.with_suffix(".shrunk.json")
    kept = artifact_of(report, telling, patch=patched)
    write(msgspec.structs.replace(kept, patch=artifact.patch if patch is None else kept.patch), target)
    if as_json:
        before = len(artifact.plan.faults)
        more = {"runs": found.runs, "seconds": found.seconds, "proven": found.proven, "faults_before": before}
        print_json({**run_report.as_json(report, artifact=str(target)), **more})
        return 0
    say(*run_report.as_lines(report, artifact=str(target)))
    proof = "each proven necessary" if found.proven else "the search was cut off"
    before, after = len(artifact.plan.faults), len(found.result.plan.faults)
    say(f"{before} faults became {after}, {proof}, in {found.runs} runs and {found.seconds:.1f} s")
    return 0


def zoo(
    *,
    folder: Annotated[Path | None, Parameter(help="Another folder of patches.")] = None,
    patch: Annotated[
        Path | None, Parameter(help="One patch instead; in all scenarios, where it does not name its own.")
    ] = None,
    only: Annotated[tuple[str, ...], Parameter(negative=(), help="Only these bugs.")] = (),
    strategy: Annotated[tuple[Strategy, ...], Parameter(negative=(), help="Only these; else all.")] = (),
    runs: Annotated[
        int | None,
        Parameter(validator=Number(gte=1), help="At most so many a strategy: 100; or 600 in all scenarios."),
    ] = None,
    repeats: Annotated[
        int, Parameter(validator=Number(gte=1), help="Sets of seeds to hunt with; the median counts.")
    ] = 1,
    control: Annotated[bool, Parameter(help="Tell the same stories without any bug, as often.")] = True,
    jobs: Annotated[
        int | None, Parameter(name=["-j", "--jobs"], validator=Number(gte=1), help="By default, all cores.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Put known bugs back, one at a time, and see how soon each is found.

    Every strategy stops when it has found the bug. Exits with 0 if all are found and nothing is found without
    them, with 1 if not; Ctrl-C ends it with what there is.
    """
    from fathom.sim.report import zoo_report  # noqa: PLC0415
    from fathom.sim.search import zoo_run  # noqa: PLC0415

    wanted = _wanted(folder, patch, only)
    everywhere = any(not bug.scenarios for bug in wanted)
    effort = zoo_run.Effort(
        runs_max=runs or (RUNS_EVERYWHERE if everywhere else RUNS),
        strategies=tuple(one for one in zoo_run.STRATEGIES if not strategy or one in strategy),
        repeats=repeats,
        workers=jobs or os.cpu_count() or 1,
        control=control,
    )
    table = _Table(wanted, quiet=as_json)
    with live_line(quiet=False) as told:
        try:
            made = zoo_run.visit(wanted, effort, shown=table.row, told=told)
        except zoo_run.NotHunted as error:  # The message of `fathom sim explore`.
            raise Problem(str(error).removeprefix("fathom: error: ")) from error
    document = zoo_report.as_json(made, wanted, effort)
    if as_json:
        print_json(document)
    else:
        say(*zoo_report.as_lines(document))
    good = document["found"] == document["of"] and not (made.control and made.control.violations)
    return INTERRUPTED if made.interrupted else 0 if good else ANSWER_IS_NO


def _wanted(folder: Path | None, patch: Path | None, only: tuple[str, ...]) -> list[Bug]:
    from fathom.sim import zoo as here  # noqa: PLC0415
    from fathom.sim.search.patches import BadPatch, bugs, described  # noqa: PLC0415

    try:
        there = [described(patch)] if patch is not None else bugs(folder or Path(here.__file__).parent)
    except BadPatch as error:
        raise Problem(str(error)) from error
    if missing := sorted(set(only) - {bug.name for bug in there}):
        raise Problem(f"there is no bug {missing[0]!r}: there are {', '.join(bug.name for bug in there)}")
    return [bug for bug in there if not only or bug.name in only]


class _Table:
    """Prints rows as they arrive."""

    def __init__(self, bugs: Sequence[Bug], *, quiet: bool) -> None:
        self._width = max((len(bug.name) for bug in bugs), default=3)
        self._quiet = quiet
        self._begun = False

    def row(self, one: Hunted) -> None:
        if self._quiet:
            return
        if not self._begun:
            say(f"{'bug':<{self._width}}  found  random   pct  lineage  faults  seconds  invariant")
        self._begun = True
        random, pct, lineage = (
            "-" if (count := one.runs_to_find.get(strategy)) is None else str(count)
            for strategy in ("random", "pct", "lineage")
        )
        faults = "-" if one.shrunk_faults is None else str(one.shrunk_faults)
        found = "yes" if one.found else "NO"
        say(
            f"{one.name:<{self._width}}  {found:<5}  {random:>6}  {pct:>4}  {lineage:>7}  "
            f"{faults:>6}  {one.seconds:>7.1f}  {one.invariant or f'(expected: {one.expected})'}",
        )
