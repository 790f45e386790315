"""`fathom sim`: run scenarios in a deterministic simulated cluster, with many seeds and every fault."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from fathom.cli.output import AsJson, FileOutput, Output, document_format, output_parameter, print_document
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.simulate.simulated import apply, apply_recorded, chosen, find, read
from fathom.cli.simulate.simulated import seeds as seeds_of
from fathom.cli.status_line import counting, waiting
from fathom.cli.tables import natural, say_table
from fathom.sim import FAILURES
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.sim.search.determinism_check import TwinComparison
    from fathom.sim.search.explore import Job
    from fathom.sim.world.scenario import Result, RunPlan, Scenario

Strategy = Literal["random", "pct", "lineage"]

Patch = Annotated[Path | None, Parameter(help="Python file that is loaded first and may change any code.")]
Out = Annotated[Path, Parameter(help="Directory in which failing runs are kept, one file each.")]
Seeds = Annotated[str, Parameter(help="A..B: the seeds from A to B-1. A: one seed.")]
Jobs = Annotated[
    int, Parameter(name=["-j", "--jobs"], validator=Number(gte=1), help="Number of worker processes.")
]

HELP = """Run the control plane in a simulator that injects faults. A seed repeats a run exactly.

fathom sim list
fathom sim explore all --seeds 0..100 -j 2
"""


def make_app() -> App:
    app = App(
        name="sim",
        help=HELP,
    )
    app.command(list_, name="list")
    app.command(run)
    app.command("fathom.cli.simulate.sim_explore:explore", name="explore")
    app.command(check_determinism)
    app.command(shrink)
    app.command("fathom.cli.simulate.sim_zoo:zoo", name="zoo")
    return app


def list_(
    *,
    output: Annotated[
        str,
        output_parameter(
            "wide", "json", "yaml", "name", help="wide: also servers and faults. json, yaml: a list."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the scenarios.

    Prints a line for each: its name, and what happens in it.

    fathom sim list
    fathom sim list -o name
    """
    from fathom.sim.scenarios import SCENARIOS  # noqa: PLC0415  # See the package's docstring.

    listed = sorted(SCENARIOS.values(), key=lambda scenario: natural(scenario.name))
    wanted = document_format(output, as_json=as_json)
    if wanted == "name":
        say(*(scenario.name for scenario in listed))
    elif wanted == "wide":
        head = ("SCENARIO", "SERVERS", "FAULTS", "ABOUT")
        say_table([head, *((each.name, str(each.servers), _faults(each), each.about) for each in listed)])
    elif wanted:
        print_document([{"name": scenario.name, "about": scenario.about} for scenario in listed], wanted)
    else:
        say_table([("SCENARIO", "ABOUT"), *((scenario.name, scenario.about) for scenario in listed)])


def _faults(scenario: Scenario) -> str:
    if scenario.scripted:
        return "its own"
    return f"at most {scenario.menu.most}" if scenario.faults_of is None else "each in turn"


def run(
    scenario: Annotated[str, Parameter(help="Name of the scenario, or FILE.py:NAME.")],
    /,
    *,
    seed: Annotated[str, Parameter(help="Seed of everything random in the run.")],
    strategy: Annotated[
        Literal["random", "pct"],
        Parameter(help="random: faults and latencies from the seed. pct: random priorities, no latencies."),
    ] = "random",
    patch: Patch = None,
    out: Out = FAILURES,
    output: FileOutput = "",
    as_json: AsJson = False,
) -> int:
    """Run one scenario with one seed, and show what happened.

    Exits with 0 if every invariant held, with 1 if not.

    Prints the faults, the course of events and the verdict; of a violation, the file in which it is kept.

    fathom sim run duplicate-reservation --seed 82219
    fathom sim run cluster --seed 7 --strategy pct --json
    """
    apply(patch)
    from fathom.sim.world.scenario import plan_of  # noqa: PLC0415  # After the patch.

    chosen_scenario = find(scenario)
    return _run_once(
        chosen_scenario,
        plan_of(chosen_scenario, seed, strategy),
        patch=patch,
        out=out,
        wanted=document_format(output, as_json=as_json),
    )


def _run_once(scenario: Scenario, plan: RunPlan, *, patch: Path | None, out: Path, wanted: str) -> int:
    from fathom.sim.report import run_report  # noqa: PLC0415
    from fathom.sim.report.kept_runs import keep  # noqa: PLC0415

    report, telling = run_report.report(scenario, plan, patch=str(patch or ""))
    broken = report.verdict == run_report.BROKEN
    kept = str(keep(report, telling, patch=patch, out=out).file) if broken else ""
    if wanted == "name":
        say(*([kept] if kept else []))
    elif wanted:
        print_document(run_report.as_json(report, artifact=kept), wanted)
    else:
        say(*run_report.as_lines(report, artifact=kept))
    return ANSWER_IS_NO if broken else 0


def check_determinism(
    scenario: Annotated[
        str, Parameter(help="Names of scenarios, A,B,…, or all; they take turns from seed to seed.")
    ] = "all",
    /,
    *,
    seeds: Seeds,
    strategy: Annotated[Strategy | None, Parameter(help="Default: random and pct in turn.")] = None,
    patch: Patch = None,
    output: Output = "",
    as_json: AsJson = False,
) -> int:
    """Run each seed twice, in two processes with different hash seeds and heaps, and compare the traces.

    If PYTHONHASHSEED is a number, both processes have that hash seed.

    Exits with 0 if all traces are the same, with 1 if not.

    Prints the number of mismatches, and the first five.

    fathom sim check-determinism --seeds 0..20
    fathom sim check-determinism cluster --seeds 0..20 --strategy pct
    """
    apply(patch)  # Only to check that it applies; both worker processes apply it themselves.
    from fathom.sim.search import determinism_check  # noqa: PLC0415
    from fathom.sim.search.explore import Job  # noqa: PLC0415

    wanted = document_format(output, as_json=as_json)
    names = [entry.name for entry in chosen(scenario)]
    jobs = [
        Job(names[index % len(names)], str(seed), strategy or ("random", "pct")[index // len(names) % 2])
        for index, seed in enumerate(seeds_of(seeds))
    ]
    with counting(len(jobs), "seeds", quiet=bool(wanted)) as show_progress:
        comparison = determinism_check.check(
            jobs, patch=str(patch or ""), progress=lambda so_far: show_progress(so_far.runs)
        )
    if wanted:
        print_document(_comparison_json(names, jobs, comparison), wanted)
    else:
        for mismatch in comparison.mismatches[:5]:
            say(
                f"{mismatch.job.scenario}, seed {mismatch.job.seed}, {mismatch.job.strategy}: "
                f"{mismatch.one}; {mismatch.other}"
            )
        count = len(comparison.mismatches)
        say(f"{len(jobs):,} seeds, each run twice, {comparison.inputs:,} inputs: {count} mismatches")
    return ANSWER_IS_NO if comparison.mismatches else 0


def _comparison_json(names: list[str], jobs: list[Job], comparison: TwinComparison) -> dict[str, object]:
    return {
        "seeds": len(jobs),
        "runs": 2 * comparison.runs,
        "inputs": comparison.inputs,
        "scenarios": names,
        "mismatches": len(comparison.mismatches),
        "first": [
            {
                "scenario": mismatch.job.scenario,
                "seed": mismatch.job.seed,
                "strategy": mismatch.job.strategy,
                "one": mismatch.one,
                "other": mismatch.other,
            }
            for mismatch in comparison.mismatches[:5]
        ],
    }


def shrink(
    file: Annotated[Path, Parameter(help="File of a failing run.")],
    /,
    *,
    patch: Patch = None,
    trust: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            help="Code that may be run because FILE names it: 'patch' (the recorded patch) or 'scenario' (the"
            " file of the scenario). May be repeated.",
        ),
    ] = (),
    out: Annotated[
        Path | None, Parameter(help="File to write. Default: beside FILE, named *.shrunk.json.")
    ] = None,
    seconds: Annotated[
        float, Parameter(validator=Number(gt=0), help="Time limit of the search, in seconds.")
    ] = 55.0,
    output: FileOutput = "",
    as_json: AsJson = False,
) -> int:
    """Find the smallest run that violates the same invariant.

    Exits with 0, or with 1 if the run of FILE violates no invariant here.

    Prints the shrunk run, and how many faults are left; writes it to a file.

    fathom sim shrink .fathom-failures/cluster-17.json
    fathom sim shrink run.json --seconds 300 --out small.json
    """
    patched = apply_recorded(file, patch, trust=trust)
    import msgspec  # noqa: PLC0415

    from fathom.sim.report import run_report  # noqa: PLC0415  # After the patch.
    from fathom.sim.report.artifact import artifact_of, write  # noqa: PLC0415
    from fathom.sim.search.shrink import shrink as shrink_run  # noqa: PLC0415
    from fathom.sim.world.scenario import sweep, tell  # noqa: PLC0415

    wanted = document_format(output, as_json=as_json)
    artifact = read(file)
    scenario = find(artifact.plan.scenario)
    original = tell(scenario, artifact.plan)
    if original.violation is None:
        raise Problem(f"{file}: this run violates no invariant any more", exit_code=ANSWER_IS_NO)

    def retell(plan: RunPlan) -> Result:
        sweep()
        return tell(scenario, plan)

    with waiting(f"shrinking {file}, at most {seconds:g} s", quiet=bool(wanted)):
        shrunk = shrink_run(original, retell, seconds_max=seconds)
    report, telling = run_report.report(scenario, shrunk.result.plan, patch=str(patched or ""))
    target = out or file.with_suffix(".shrunk.json")
    kept = artifact_of(report, telling, patch=patched)
    write(msgspec.structs.replace(kept, patch=artifact.patch if patch is None else kept.patch), target)
    if wanted == "name":
        say(str(target))
        return 0
    if wanted:
        before = len(artifact.plan.faults)
        search = {
            "runs": shrunk.runs,
            "seconds": shrunk.seconds,
            "proven": shrunk.proven,
            "faults_before": before,
        }
        print_document({**run_report.as_json(report, artifact=str(target)), **search}, wanted)
        return 0
    say(*run_report.as_lines(report, artifact=str(target)))
    proof = "each proven necessary" if shrunk.proven else "not all proven necessary within the time limit"
    before, after = len(artifact.plan.faults), len(shrunk.result.plan.faults)
    say(f"{before} faults became {after}, {proof}, in {shrunk.runs} runs and {shrunk.seconds:.1f} s")
    return 0


app = make_app()
