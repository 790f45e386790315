"""`fathom sim`: stories in a deterministic world, under many seeds and every fault."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from fathom.cli.problem import ANSWER_IS_NO, Problem

if TYPE_CHECKING:
    from fathom.sim.artifact import Artifact
    from fathom.sim.explore import Job, Summary
    from fathom.sim.scenario import Plan, Result, Scenario
    from fathom.sim.zooing import Hunted

Strategy = Literal["random", "pct", "lineage"]

AsJson = Annotated[
    bool, Parameter(name="--json", negative=(), help="One JSON document (docs/simulation.md).")
]
Patch = Annotated[Path | None, Parameter(help="A Python file that changes code before the world starts.")]
Out = Annotated[Path, Parameter(help="Where failing runs are kept, a file each.")]
Seeds = Annotated[str, Parameter(help="A..B: from A up to and without B.")]
Jobs = Annotated[int, Parameter(name=["-j", "--jobs"], validator=Number(gte=1), help="Worker processes.")]
RUNS = Path(".fathom-runs")

# Of one invariant in one story: more of the same is counted, and not kept.
KEPT_MAX = 3


def make_app() -> App:
    app = App(name="sim", help="Tell stories in a deterministic world, where everything can go wrong.")
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
        _print_json([{"name": one.name, "about": one.about} for one in SCENARIOS.values()])
        return
    width = max(map(len, SCENARIOS))
    for one in SCENARIOS.values():
        print(f"{one.name:<{width}}  {one.about}")


def run(
    scenario: Annotated[str, Parameter(help="Its name, or FILE.py:NAME.")],
    /,
    *,
    seed: Annotated[str, Parameter(help="Everything that is left to chance follows from it.")],
    strategy: Strategy = "random",
    patch: Patch = None,
    out: Out = RUNS,
    as_json: AsJson = False,
) -> int:
    """Tell one story once, and what happened in it.

    Exits with 0 if everything held, with 1 if not.
    """
    _apply(patch)
    from fathom.sim.scenario import plan_of  # noqa: PLC0415  # After the patch.

    found = _find(scenario)
    return _tell(found, plan_of(found, seed, strategy), patch=patch, out=out, as_json=as_json)


def _tell(scenario: Scenario, plan: Plan, *, patch: Path | None, out: Path, as_json: bool) -> int:
    from fathom.sim import report as reports  # noqa: PLC0415

    report, telling = reports.report(scenario, plan, patch=str(patch or ""))
    broken = report.verdict == reports.BROKEN
    kept = str(_keep(report, telling, patch, out)) if broken else ""
    if as_json:
        _print_json(reports.as_json(report, artifact=kept))
    else:
        print("\n".join(reports.as_lines(report, artifact=kept)))
    return ANSWER_IS_NO if broken else 0


def _keep(report: Any, telling: Any, patch: Path | None, out: Path) -> Path:
    from fathom.sim.artifact import artifact_of, write  # noqa: PLC0415

    plan = report.result.plan
    name = plan.scenario.replace("/", "_").replace(":", "_")
    file = out / f"{name}-{plan.seed}-{plan.strategy}.json"
    write(artifact_of(report, telling, patch=patch), file)
    return file


def explore(
    scenario: Annotated[str, Parameter(help="A name, several with commas, or all.")] = "all",
    /,
    *,
    seeds: Seeds,
    jobs: Jobs = 1,
    strategy: Strategy = "random",
    patch: Patch = None,
    first: Annotated[bool, Parameter(negative=(), help="Stop at the first violation.")] = False,
    runs: Annotated[int | None, Parameter(validator=Number(gte=1), help="At most so many runs.")] = None,
    out: Out = RUNS,
    as_json: AsJson = False,
) -> int:
    """Tell stories under many seeds, and collect what breaks.

    Exits with 0 if everything held, with 1 if not.
    """
    _apply(patch)
    from fathom.sim import explore as exploring  # noqa: PLC0415  # After the patch.

    found = {one.name: one for one in _chosen(scenario)}
    todo = [exploring.Job(name, str(seed), strategy) for seed in _range(seeds) for name in found]
    exploring.freeze()
    with _progress(len(todo) if strategy != "lineage" else None, quiet=as_json) as shown:
        summary = exploring.explore(
            found, todo, workers=jobs, stop_at_first=first, runs_max=runs, progress=shown
        )
    kept, left = _keep_violations(found, summary.violations, patch, out)
    if as_json:
        _print_json(exploring.as_json(summary, artifacts=[str(file) for file in kept], not_kept=left))
    else:
        print("\n".join(_explored(summary, kept, left)))
    return ANSWER_IS_NO if summary.violations else 0


def _keep_violations(
    scenarios: dict[str, Scenario], violations: list[Result], patch: Path | None, out: Path
) -> tuple[list[Path], int]:
    """The first ones of each sort, told once more and written down."""
    from fathom.sim.report import report  # noqa: PLC0415

    kept: list[Path] = []
    counts: dict[tuple[str, str], int] = {}
    for result in violations:
        assert result.violation is not None
        sort = (result.plan.scenario, result.violation.invariant)
        counts[sort] = counts.get(sort, 0) + 1
        if counts[sort] <= KEPT_MAX:
            again, telling = report(scenarios[result.plan.scenario], result.plan)
            kept.append(_keep(again, telling, patch, out))
    return kept, len(violations) - len(kept)


def _explored(summary: Summary, kept: list[Path], left: int) -> list[str]:
    hits = ", ".join(f"{name} ×{times}" for name, times in sorted(summary.hits.items()))
    lines = [
        f"{summary.runs:,} runs, {summary.runs_per_s:,.1f}/s, {summary.sim_s:,.0f} s simulated, "
        f"{summary.sim_ratio:,.0f} × real time on a core",
        f"{len(summary.coverage)} pairs of fault and site fired; sometimes: {hits or 'nothing'}",
    ]
    if not summary.violations:
        return [*lines, "everything held"]
    lines.append(f"{len(summary.violations)} violations:")
    sorts: dict[tuple[str, str], list[Result]] = {}
    for result in summary.violations:
        assert result.violation is not None
        sorts.setdefault((result.plan.scenario, result.violation.invariant), []).append(result)
    for (name, invariant), results in sorts.items():
        seeds = ", ".join(result.plan.seed for result in results[:8])
        lines.append(
            f"  {name}: {invariant}: ×{len(results)}, seeds {seeds}{' …' if len(results) > 8 else ''}"
        )
    lines += [f"replay:  fathom replay {file}" for file in kept]
    return [*lines, f"({left} more of the same were not kept)"] if left else lines


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
    from fathom.sim import twins  # noqa: PLC0415
    from fathom.sim.explore import Job  # noqa: PLC0415

    names = [one.name for one in _chosen(scenario)]
    jobs = [
        Job(names[index % len(names)], str(seed), strategy or ("random", "pct")[index // len(names) % 2])
        for index, seed in enumerate(_range(seeds))
    ]
    with _counting(len(jobs), quiet=as_json) as shown:
        found = twins.check(jobs, patch=str(patch or ""), progress=lambda so_far: shown(so_far.runs))
    if as_json:
        _print_json(
            {
                "seeds": len(jobs),
                "runs": 2 * found.runs,
                "inputs": found.inputs,
                "scenarios": names,
                "mismatches": len(found.mismatches),
                "first": [_mismatch(one.job, one.one, one.other) for one in found.mismatches[:5]],
            }
        )
    else:
        for one in found.mismatches[:5]:
            print(f"{one.job.scenario}, seed {one.job.seed}, {one.job.strategy}: {one.one}; {one.other}")
        count = len(found.mismatches)
        print(f"{len(jobs):,} seeds, each told twice, {found.inputs:,} inputs: {count} mismatches")
    return ANSWER_IS_NO if found.mismatches else 0


def _mismatch(job: Job, one: str, other: str) -> dict[str, str]:
    return {"scenario": job.scenario, "seed": job.seed, "strategy": job.strategy, "one": one, "other": other}


def shrink(
    file: Annotated[Path, Parameter(help="A failing run that was kept.")],
    /,
    *,
    patch: Patch = None,
    out: Annotated[Path | None, Parameter(help="Where to write it; by default beside FILE.")] = None,
    as_json: AsJson = False,
) -> int:
    """Find the smallest run that breaks the same invariant.

    Exits with 0, or with 1 if FILE's run is not broken here.
    """
    patched = _apply_recorded(file, patch)
    from fathom.sim import report as reports  # noqa: PLC0415  # After the patch.
    from fathom.sim.artifact import artifact_of, write  # noqa: PLC0415
    from fathom.sim.scenario import sweep, tell  # noqa: PLC0415
    from fathom.sim.shrink import shrink as shrunken  # noqa: PLC0415

    artifact = _read(file)
    scenario = _find(artifact.plan.scenario)
    first = tell(scenario, artifact.plan)
    if first.violation is None:
        print(f"{file}: nothing is broken in this run any more")
        return ANSWER_IS_NO

    def retell(plan: Plan) -> Result:
        sweep()
        return tell(scenario, plan)

    found = shrunken(first, retell)
    report, telling = reports.report(scenario, found.result.plan, patch=str(patched or ""))
    target = out or file.with_suffix(".shrunk.json")
    write(artifact_of(report, telling, patch=patched), target)
    if as_json:
        more = {"runs": found.runs, "proven": found.proven, "faults_before": len(artifact.plan.faults)}
        _print_json({**reports.as_json(report, artifact=str(target)), **more})
        return 0
    print("\n".join(reports.as_lines(report, artifact=str(target))))
    proof = "each proven necessary" if found.proven else "the search was cut off"
    before, after = len(artifact.plan.faults), len(found.result.plan.faults)
    print(f"{before} faults became {after}, {proof}, in {found.runs} runs")
    return 0


def zoo(
    *,
    folder: Annotated[Path | None, Parameter(help="Another folder of patches.")] = None,
    only: Annotated[tuple[str, ...], Parameter(negative=(), help="Only these bugs.")] = (),
    runs: Annotated[int, Parameter(validator=Number(gte=1), help="At most so many runs a strategy.")] = 300,
    jobs: Jobs = 1,
    as_json: AsJson = False,
) -> int:
    """Put known bugs back, one at a time, and see how soon each is found.

    Exits with 0 if all are found, with 1 if not.
    """
    from fathom.sim import zoo as here  # noqa: PLC0415
    from fathom.sim.patches import BadPatch, bugs  # noqa: PLC0415
    from fathom.sim.zooing import hunt  # noqa: PLC0415

    try:
        there = bugs(folder or Path(here.__file__).parent)
    except BadPatch as error:
        raise Problem(str(error)) from error
    wanted = [bug for bug in there if not only or bug.name in only]
    with _telling(quiet=as_json) as told:
        hunted = [hunt(bug, runs_max=runs, workers=jobs, told=told) for bug in wanted]
    if as_json:
        _print_json(
            {"bugs": hunted, "found": sum(one.found for one in hunted), "of": len(hunted), "runs_max": runs}
        )
    else:
        print("\n".join(_zoo_lines(hunted)))
    return 0 if all(one.found for one in hunted) else ANSWER_IS_NO


def _zoo_lines(hunted: list[Hunted]) -> Iterator[str]:
    if not hunted:
        yield "the zoo is empty"
        return
    width = max(len(one.name) for one in hunted)
    yield f"{'bug':<{width}}  found  random   pct  lineage  faults  seconds  invariant"
    for one in hunted:
        counts = [one.runs_to_find[strategy] for strategy in ("random", "pct", "lineage")]
        random, pct, lineage = ("-" if count is None else str(count) for count in counts)
        faults = "-" if one.shrunk_faults is None else str(one.shrunk_faults)
        yield (
            f"{one.name:<{width}}  {'yes' if one.found else 'NO':<5}  {random:>6}  {pct:>4}  {lineage:>7}  "
            f"{faults:>6}  {one.seconds:>7.1f}  {one.invariant or f'(expected: {one.expected})'}"
        )


# Shared by the commands, and by `fathom replay`.


def replay_run(file: Path, *, patch: Path | None, as_json: bool) -> int:
    """See a kept run again: the same inputs, and the same outcome?"""
    patched = _apply_recorded(file, patch)
    from fathom.sim import report as reports  # noqa: PLC0415  # After the patch.
    from fathom.sim.artifact import replay  # noqa: PLC0415

    artifact = _read(file)
    scenario = _find(artifact.plan.scenario)
    replayed, result = replay(artifact, scenario)
    if as_json:
        _print_json(
            {
                "reproduced": replayed.reproduced,
                "violation": replayed.violation,
                "inputs": replayed.inputs,
                "divergence": replayed.divergence,
                "warnings": replayed.warnings,
                "scenario": artifact.plan.scenario,
                "seed": artifact.plan.seed,
                "trace": {"recorded": artifact.trace, "replayed": result.trace},
            }
        )
        return 0 if replayed.reproduced else ANSWER_IS_NO
    for warning in replayed.warnings:
        print(f"note: {warning}")
    if not replayed.reproduced:
        print(f"NOT reproduced: {replayed.divergence}")
        return ANSWER_IS_NO
    report, _ = reports.report(scenario, artifact.plan, patch=str(patched or ""))
    print("\n".join(["reproduced, input for input", *reports.as_lines(report)]))
    return 0


def _read(file: Path) -> Artifact:
    from fathom.sim.artifact import read  # noqa: PLC0415
    from fathom.sim.kept import NotAnArtifact  # noqa: PLC0415

    try:
        return read(file)
    except NotAnArtifact as error:
        raise Problem(str(error)) from error


def _apply(patch: Path | None) -> None:
    if patch is None:
        return
    from fathom.sim.patches import BadPatch, load  # noqa: PLC0415

    try:
        load(patch)
    except BadPatch as error:
        raise Problem(str(error)) from error


def _apply_recorded(kept: Path, given: Path | None) -> Path | None:
    """The patch that was in force then: given again, or found where it was. A file's text is never run."""
    from fathom.sim.kept import NotAnArtifact, head_of, patch_of  # noqa: PLC0415

    try:
        recorded = head_of(kept).patch
    except NotAnArtifact as error:
        raise Problem(str(error)) from error
    if given is None and recorded is None:
        return None
    file = given or Path(recorded.file if recorded is not None else "")
    if not file.is_file():
        raise Problem(f"this run was recorded with the patch {file}: give it with --patch")
    if recorded is None or patch_of(file).sha256 != recorded.sha256:
        if given is None:
            raise Problem(f"{file} is not the patch that this run was recorded with: give that with --patch")
        print(f"note: {file} is not the patch that this run was recorded with", file=sys.stderr)
    _apply(file)
    return file


def _find(name: str) -> Scenario:
    from fathom.sim.scenarios import NoScenario, find  # noqa: PLC0415

    try:
        return find(name)
    except NoScenario as error:
        raise Problem(str(error)) from error


def _chosen(names: str) -> list[Scenario]:
    from fathom.sim.scenarios import SCENARIOS  # noqa: PLC0415

    return list(SCENARIOS.values()) if names == "all" else [_find(name) for name in names.split(",")]


def _range(text: str) -> range:
    low, dots, high = text.partition("..")
    if not low.isdigit() or (dots and not high.isdigit()):
        raise Problem(f"--seeds {text}: expected A..B, for example 0..500")
    found = range(int(low), int(high)) if dots else range(int(low), int(low) + 1)
    if not found:
        raise Problem(f"--seeds {text}: there is no seed in it")
    return found


def _print_json(document: object) -> None:
    import msgspec  # noqa: PLC0415

    print(msgspec.json.format(msgspec.json.encode(document, enc_hook=str), indent=2).decode())


# A line that is written over, where somebody watches.


@contextmanager
def _telling(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    shown = not quiet and sys.stderr.isatty()

    def tell(line: str) -> None:
        if shown:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def _progress(total: int | None, *, quiet: bool) -> Iterator[Callable[[Summary], None]]:
    with _telling(quiet=quiet) as tell:

        def show(summary: Summary) -> None:
            of = f"/{total:,}" if total is not None else ""
            pace = f"{summary.runs:,}{of} runs  {summary.runs_per_s:,.1f}/s"
            reach = f"{len(summary.coverage)} fault × site  {len(summary.hits)} sometimes"
            tell(f"{pace}  {len(summary.violations)} violations  {reach}")

        yield show


@contextmanager
def _counting(total: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    with _telling(quiet=quiet) as tell:
        yield lambda done: tell(f"{done:,}/{total:,} seeds")
