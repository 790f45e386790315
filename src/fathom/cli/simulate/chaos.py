"""`fathom chaos`: any program against a real API server over HTTPS, while things go wrong."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from fathom.cli.object_reference import duration_s
from fathom.cli.output import AsJson, Output, document_format, print_document
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.sim import FAILURES
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.chaos.report import Asked, ChaosReport, OneRun
    from fathom.chaos.run import RunSettings
    from fathom.chaos.schedule import Schedule

Schedules = Iterator[tuple[int, "Schedule"]]
Files = tuple[Path, ...]


def chaos(
    *command: Annotated[
        str,
        Parameter(
            name="COMMAND",
            help="The program and its arguments, after --. KUBECONFIG names a file with its cluster.",
        ),
    ],
    seed: Annotated[
        int, Parameter(validator=Number(gte=0), help="The first seed; each run has the next.")
    ] = 0,
    for_: Annotated[str, Parameter(name="--for", help="No run begins later than this: 5m, 30m.")] = "1m",
    runs: Annotated[
        int | None, Parameter(validator=Number(gte=1), help="So many runs with faults, instead of --for.")
    ] = None,
    seeds: Annotated[str, Parameter(help="A..B: a run for each seed from A to B-1, instead of --for.")] = "",
    manifest: Annotated[
        Files,
        Parameter(
            negative=(),
            help="File of objects. Those of kinds that the files define are applied while things go wrong,"
            " and deleted later; all others before the program starts (docs/chaos.md). May be repeated.",
        ),
    ] = (),
    during: Annotated[
        Files,
        Parameter(
            negative=(),
            help="File of objects of any kind to apply while things go wrong, and to delete later. May be"
            " repeated.",
        ),
    ] = (),
    faults: Annotated[str, Parameter(help="Only these kinds of fault: lose-reply,crash-at-write.")] = "",
    window: Annotated[
        str,
        Parameter(
            help="How long things go wrong in a run while objects are applied; half as long while they are"
            " deleted."
        ),
    ] = "12s",
    quiet: Annotated[str, Parameter(help="The cluster is at rest when nothing changed for so long.")] = "5s",
    patience: Annotated[
        str, Parameter(help="How long after the last fault something may still be wrong.")
    ] = "90s",
    replay: Annotated[
        Path | None, Parameter(help="Run the schedule of the failure in this report again, once.")
    ] = None,
    report: Annotated[Path | None, Parameter(help="Write the report to this file, as JSON.")] = None,
    out: Annotated[Path, Parameter(help="Directory in which failures are kept.")] = FAILURES,
    output: Output = "",
    as_json: AsJson = False,
) -> int:
    """Run a program that talks to Kubernetes, in any language, while its API server fails it on purpose.

    Starts an API server, gives the program a kubeconfig, and injects faults over HTTPS: lost replies, held
    and dropped watches, 410, conflicts, 429, 503, slow answers, stale reads, restarts of the server, kills of
    the program. Then all faults stop, and what must hold for any operator is checked. A first run has no
    faults: it shows what the program means to make. The faults follow from the seed; the program's own timing
    does not.

    Exits with 0 if everything held, with 1 if not, with 2 if the program could not be started.

    Prints a line for each run; of a violation, what happened, and the command that runs the same faults
    again.

    fathom chaos --manifest crd.yaml --manifest hello.yaml -- ./my-operator
    fathom chaos --for 30m --report chaos.json --manifest crd.yaml --manifest hello.yaml -- ./my-operator -v
    fathom chaos --seed 7 --runs 1 --faults lose-reply --manifest crd.yaml -- python3 operator.py
    """
    from fathom.chaos.report import as_json as document_of  # noqa: PLC0415  # Only this command pays for it.
    from fathom.chaos.report import as_lines  # noqa: PLC0415
    from fathom.chaos.schedule import schedule  # noqa: PLC0415

    wanted = document_format(output, as_json=as_json)
    quiet_s, patience_s = duration_s(quiet, "--quiet"), duration_s(patience, "--patience")
    for_s = None if runs is not None or seeds or replay is not None else duration_s(for_, "--for")
    _check_command(command)
    asked = _asked(command, manifest, during, replay, _flags(faults, window, quiet, patience))
    settings = _settings(asked, quiet_s=quiet_s, patience_s=patience_s)
    documents = len(settings.manifests.during)
    planned = partial(
        schedule, documents=documents, only=_kinds(faults), window_s=duration_s(window, "--window")
    )
    schedules: Schedules = ((number, planned(number)) for number in _seeds(seed, runs, seeds))
    if replay is not None:
        schedules = _replayed(replay, documents)
    outcome = _run(settings, asked, schedules, for_s=for_s, out=out, quiet=bool(wanted))
    kept = _keep(outcome, report, out)
    if wanted:
        print_document(document_of(outcome), wanted)
    else:
        say(*as_lines(outcome, file=kept))
    return 0 if outcome.failure is None else ANSWER_IS_NO


def _check_command(command: tuple[str, ...]) -> None:
    if not command:
        raise Problem("name a program after --: fathom chaos --manifest crd.yaml -- ./my-operator")
    if shutil.which(command[0]) is None:
        there = Path(command[0]).exists()
        why = "is not executable" if there and not os.access(command[0], os.X_OK) else "is not a program"
        raise Problem(f"{command[0]} {why}: name an executable file after --")


def _kinds(faults: str) -> tuple[str, ...]:
    from fathom.chaos.schedule import FAULTS  # noqa: PLC0415

    names = tuple(name.strip() for name in faults.split(",") if name.strip())
    for name in names:
        if name not in FAULTS:
            raise Problem(f"--faults: {name!r} is none of {', '.join(FAULTS)}")
    return names or FAULTS


def _flags(faults: str, window: str, quiet: str, patience: str) -> tuple[str, ...]:
    """Those that the command to run again must repeat."""
    given = (
        ("--faults", faults, ""),
        ("--window", window, "12s"),
        ("--quiet", quiet, "5s"),
        ("--patience", patience, "90s"),
    )
    return tuple(word for flag, value, usual in given if value != usual for word in (flag, value))


def _asked(
    command: tuple[str, ...], manifest: Files, during: Files, replay: Path | None, flags: tuple[str, ...]
) -> Asked:
    from fathom.chaos.report import Asked  # noqa: PLC0415

    if replay is not None and not manifest and not during:
        recorded = _read(replay).asked
        return Asked(command, recorded.manifests, recorded.during, flags)
    return Asked(command, tuple(map(str, manifest)), tuple(map(str, during)), flags)


def _settings(asked: Asked, *, quiet_s: float, patience_s: float) -> RunSettings:
    from fathom.chaos.manifests import BadManifest, read_manifests  # noqa: PLC0415
    from fathom.chaos.run import RunSettings  # noqa: PLC0415

    try:
        manifests = read_manifests(map(Path, asked.manifests), map(Path, asked.during))
    except BadManifest as error:
        raise Problem(f"--manifest: {error}") from error
    return RunSettings(asked.command, manifests, quiet_s, patience_s)


def _seeds(seed: int, runs: int | None, seeds: str) -> Iterator[int]:
    from fathom.cli.simulate.simulated import seeds as seeds_of  # noqa: PLC0415

    if seeds and runs is not None:
        raise Problem("--seeds says how many runs there are: leave out --runs")
    chosen = seeds_of(seeds) if seeds else itertools.count(seed)
    return itertools.islice(chosen, runs)


def _replayed(file: Path, documents: int) -> Schedules:
    failure = _read(file).failure
    assert failure is not None
    needed = max((step.document + 1 for step in failure.schedule.steps), default=0)
    if needed > documents:
        raise Problem(f"{file} was made with {needed} objects to apply: give the same --manifest files")
    return iter([(failure.seed or 0, failure.schedule)])


def _read(file: Path) -> ChaosReport:
    from fathom.chaos.report import NotAReport, decoded  # noqa: PLC0415

    try:
        return decoded(file.read_bytes(), str(file))
    except OSError as error:
        raise Problem(f"--replay: {file}: {error.strerror}") from error
    except NotAReport as error:
        raise Problem(f"--replay: {error}") from error


def _run(
    settings: RunSettings, asked: Asked, schedules: Schedules, *, for_s: float | None, out: Path, quiet: bool
) -> ChaosReport:
    from fathom.chaos.person import Refused  # noqa: PLC0415
    from fathom.chaos.program import ProgramNotStarted  # noqa: PLC0415
    from fathom.chaos.server import ServerNotStarted  # noqa: PLC0415
    from fathom.chaos.session import Session  # noqa: PLC0415
    from fathom.seams.outside import live  # noqa: PLC0415

    session = Session(settings, asked, clock=live().clock, keep=out, tell=lambda run: _tell(run, quiet=quiet))
    try:
        return asyncio.run(session.run(schedules, for_s=for_s))
    except asyncio.CancelledError:  # By SIGTERM; everything that was started has ended.
        raise KeyboardInterrupt from None
    except ProgramNotStarted as error:
        say(*(f"  | {line}" for line in error.last_lines), err=True)
        raise Problem(str(error)) from error
    except ServerNotStarted as error:
        raise Problem(f"the API server did not start: {error}") from error
    except Refused as error:
        raise Problem(f"--manifest: {error}") from error


def _tell(run: OneRun, *, quiet: bool) -> None:
    """A line for each run, on stderr: a build's log shows that something goes on."""
    if quiet:
        return
    name = "without faults" if run.seed is None else f"seed {run.seed}: {run.faults} faults took effect"
    started = f", the program was started {run.starts} times" if run.starts > 1 else ""
    say(f"{name}, {run.requests} requests, {run.seconds:.0f} s{started}: {run.verdict}", err=True)


def _keep(outcome: ChaosReport, report: Path | None, out: Path) -> str:
    """Write the report where it was asked for; a failure is kept in any case. Returns the file."""
    import msgspec  # noqa: PLC0415

    from fathom import private_files  # noqa: PLC0415
    from fathom.chaos.report import as_json as document_of  # noqa: PLC0415

    file = report
    if file is None and outcome.failure is not None:
        seed = outcome.failure.seed
        file = out / f"chaos-{'calm' if seed is None else seed}.json"
    if file is None:
        return ""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_files.write(file, msgspec.json.format(msgspec.json.encode(document_of(outcome)), indent=1))
    except OSError as error:
        raise Problem(f"cannot write the report to {file}: {error.strerror}") from error
    return str(file)
