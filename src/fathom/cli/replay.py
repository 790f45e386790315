"""`fathom replay`: feed recorded inputs to the code again and compare its requests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.seams.recorded_code import id_of
from fathom.terminal import say_json, say_text, visible

if TYPE_CHECKING:
    from fathom.record.replay import Divergence, ReplayResult
    from fathom.record.tape import Reel, TapedRequest

OWN = "fathom"


def replay(
    file: Annotated[
        Path, Parameter(help="Exported tape, directory of a tape, or failing run kept by `fathom sim`.")
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
        Path | None, Parameter(help="For a run of `fathom sim`: the patch file that it was recorded with.")
    ] = None,
    as_json: Annotated[
        bool,
        Parameter(
            name="--json",
            negative=(),
            help="Print one JSON document; docs/recording.md and docs/simulation.md list its fields.",
        ),
    ] = False,
) -> int:
    """Replay a tape, or a failing run of `fathom sim`, and compare every request.

    Exits with 0 if everything on the tape was reproduced, with 1 if not, with 2 if the replay could not run.
    """
    import msgspec  # noqa: PLC0415  # See the package's docstring.

    if _is_simulated(file):
        from fathom.cli.simulated import replay_run  # noqa: PLC0415

        return replay_run(file, patch=patch, trust=trust, as_json=as_json)
    if patch is not None:
        raise Problem("--patch is only for runs of `fathom sim`: a tape is replayed with the installed code")

    from fathom.record.replay import replay as replay_tape  # noqa: PLC0415
    from fathom.record.segment import NotASegment  # noqa: PLC0415
    from fathom.record.tape import BadTape  # noqa: PLC0415
    from fathom.seams.process import NoEntry  # noqa: PLC0415

    reel = _choose_reel(file, run)
    try:
        _check_trusted(reel.birth().code, trust)
        result = replay_tape(reel.records())
    except (BadTape, NoEntry) as error:
        raise Problem(str(error)) from error
    except NotASegment as error:
        raise Problem(f"{file} is {error}") from error
    if as_json:
        say_json(msgspec.json.format(msgspec.json.encode(result)).decode())
    else:
        say_text(told(result))
    return 0 if result.matched else ANSWER_IS_NO


def _is_simulated(file: Path) -> bool:
    from fathom.sim.report.artifact_head import is_artifact  # noqa: PLC0415

    return is_artifact(file)


def _choose_reel(path: Path, run: int | None) -> Reel:
    from fathom.record.tape import BadTape, reels  # noqa: PLC0415

    try:
        chosen = [reel for reel in reels(path) if run in {None, reel.run}]
    except BadTape as error:
        raise Problem(str(error)) from error
    if not chosen:
        raise Problem(f"there is no {'tape' if run is None else f'run {run}'} in {path}")
    return chosen[-1]


def _check_trusted(code: tuple[str, ...], trusted: tuple[str, ...]) -> None:
    """A tape is untrusted data. fathom's own processes and controllers have ids; the user must agree to run
    any other code that it names."""
    unknown = [name for name in code if not id_of(name)]
    modules = sorted({name.partition(":")[0] for name in unknown})
    agreed = (OWN, *trusted)
    foreign = [module for module in modules if not any(_is_within(module, package) for package in agreed)]
    if foreign:
        options = " ".join(f"--trust {module}" for module in foreign)
        raise Problem(f"this tape runs code that is not part of fathom: to allow that, add {options}")
    for name in unknown:
        module = name.partition(":")[0]
        if not any(_is_within(module, package) for package in trusted):
            raise Problem(f"{name} cannot be loaded: fathom has no such process or controller")
    if trusted:
        sys.path.insert(0, "")  # The user's code is in the current directory, as with `python -m`.


def _is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def told(result: ReplayResult) -> str:
    counts = (
        f"{result.inputs:,} inputs, {result.asks:,} requests ({result.writes:,} writes) "
        f"in {result.seconds:,.1f} s of {result.birth.entry}"
    )
    end = f", up to input {result.up_to.input:,} at {result.up_to.time}, where the tape ends"
    counts += end if result.matched and not result.complete else ""
    lines = [f"reproduced: {counts}" if result.matched else f"NOT reproduced after {counts}"]
    if result.first_divergence is not None:
        lines += _difference(result.first_divergence)
    if result.unrecorded:
        lines.append(f"note: the recording ends before the last {result.unrecorded} requests")
    lines += [f"note: {note}" for note in result.notes]
    if result.matched and not result.complete:
        lines.append(
            "note: the tape ends before its process: that kept running, was killed, or the tape was cut"
        )
    return "\n".join(map(visible, lines))


def _difference(divergence: Divergence) -> list[str]:
    after = divergence.after
    detail = f" ({after.what})" if after.what else ""
    return [
        f"request {divergence.ask}: {divergence.why}" if divergence.ask else divergence.why,
        *_request("  live:   ", divergence.live),
        *_request("  replay: ", divergence.replayed),
        f"  after input {after.index}, {after.kind}{detail}, at {after.time}",
    ]


def _request(label: str, request: TapedRequest | None) -> list[str]:
    if request is None:
        return [f"{label}nothing"]
    line = (
        f"{label}{request.method} {request.target}, {request.body_bytes} bytes, checksum {request.checksum}"
    )
    details = [*(request.headers or ()), *([request.body] if request.body else [])]
    return [line, *(f"            {detail}" for detail in details)]
