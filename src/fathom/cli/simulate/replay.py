"""`fathom replay`: feed recorded inputs to the code again and compare its requests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fathom.cli.object_reference import duration_s
from fathom.cli.output import AsJson, document_format, output_parameter
from fathom.cli.problem import Problem


def replay(
    file: Annotated[
        Path,
        Parameter(
            help="Exported tape or incident, directory of a tape, or failing run kept by `fathom sim`."
        ),
    ],
    /,
    *,
    run: Annotated[
        int | None, Parameter(help="Number of the run in a directory. Default: the newest.")
    ] = None,
    trust: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            help="Code that may be run because FILE names it: a Python module of yours; for a run of "
            "`fathom sim`, 'scenario' (the file of the scenario) or 'patch' (the recorded patch). May be "
            "repeated.",
        ),
    ] = (),
    patch: Annotated[
        Path | None,
        Parameter(
            help="For a tape or an incident: a Python file that changes the code, to see which decision "
            "changes first. For a run of `fathom sim`: the patch file that it was recorded with."
        ),
    ] = None,
    continue_: Annotated[
        str,
        Parameter(
            name="--continue",
            help="After the replay of a tape or an incident: go on from its end in a simulated copy of the "
            "cluster, for so much virtual time, for example 10m.",
        ),
    ] = "",
    seed: Annotated[str, Parameter(help="With --continue: seed of the simulation.")] = "0",
    decisions: Annotated[
        Path | None, Parameter(help="Write the decisions of the replay to this file, as lines of JSON.")
    ] = None,
    output: Annotated[
        str,
        output_parameter(
            "json", "yaml", help="One document; docs/recording.md and docs/simulation.md list its fields."
        ),
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Replay a tape, an incident, or a failing run of `fathom sim`, and compare every request.

    Exits with 0 if everything on the tape was reproduced, with 1 if not, with 2 if the replay could not run.

    Prints for each tape how many requests and decisions were the same, and the first that differs.

    fathom replay web.incident
    fathom replay .fathom-failures/cluster-17.json --patch fix.py  with changed code
    """
    output = document_format(output, as_json=as_json)
    if not file.exists():
        writers = "name a file of `fathom record export`, or a failing run of `fathom sim`"
        raise Problem(f"{file} does not exist: {writers}")
    if _is_simulated(file):
        from fathom.cli.simulate.simulated import replay_run  # noqa: PLC0415

        if continue_ or decisions:
            raise Problem("--continue and --decisions are for tapes and incidents")
        return replay_run(file, patch=patch, trust=trust, output=output)

    from fathom.cli.simulate.replay_tapes import TapeOptions, replay_tapes  # noqa: PLC0415

    if patch is not None and continue_:
        raise Problem("--continue goes on with the installed code: it cannot be combined with --patch")
    seconds = duration_s(continue_, "--continue") if continue_ else None
    options = TapeOptions(
        file=file,
        run=run,
        trust=trust,
        patch=patch,
        seconds=seconds,
        seed=seed,
        decisions=decisions,
        output=output,
    )
    return replay_tapes(options)


def _is_simulated(file: Path) -> bool:
    from fathom.sim.report.artifact_head import is_artifact  # noqa: PLC0415

    return is_artifact(file)
