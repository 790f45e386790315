"""`fathom record`: list tapes of the deciding processes, and export them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from fathom.cli.kubeconfig import DEFAULT_DATA, data_beside
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say, say_json

Data = Annotated[
    Path | None, Parameter(help="Data directory. Default: the directory of the kubeconfig, or .fathom.")
]


def make_app() -> App:
    app = App(
        name="record", help="List and export tapes: recordings of the scheduler, controllers and agents."
    )
    app.command(status)
    app.command(export)
    return app


def status(
    *,
    data: Data = None,
    as_json: Annotated[
        bool,
        Parameter(
            name="--json", negative=(), help="Print one JSON document; docs/recording.md lists its fields."
        ),
    ] = False,
) -> int:
    """List the recorded processes, with begin and end of each run. Exits with 1 if there are none."""
    import msgspec  # noqa: PLC0415  # See the package's docstring.

    from fathom.record.tape_list import shelf_of  # noqa: PLC0415

    data = data or _default_data()
    tapes = shelf_of(data)
    if as_json:
        say_json(msgspec.json.format(msgspec.json.encode(tapes)).decode())
        return 0 if tapes else ANSWER_IS_NO
    if not tapes:
        say(f"there are no tapes in {data}")
        return ANSWER_IS_NO
    for tape in tapes:
        state = "recording" if tape.recording else "not recording"
        say(f"{tape.process}: {state}, {len(tape.runs)} runs, {_size(tape.stored_bytes)}")
        for run in tape.runs:
            say(f"  run {run.run}: {run.since} to {run.until}, {_size(run.stored_bytes)}, {run.entry}")
    return 0


def export(
    file: Annotated[Path, Parameter(help="File to write; `fathom replay` reads it.")],
    /,
    *,
    data: Data = None,
    process: Annotated[
        str, Parameter(help="Process whose tape to export; needed if there are several.")
    ] = "",
    run: Annotated[int | None, Parameter(help="Number of the run. Default: the newest.")] = None,
) -> None:
    """Copy one run of a tape to FILE, compressed. Works while the process is being recorded."""
    from fathom.record.tape_list import export as export_tape  # noqa: PLC0415

    with _tape_errors_as_problems():
        done = export_tape(data or _default_data(), file, process=process, run=run)
    say(f"exported run {done.run} of {done.process} to {file}: {_size(file.stat().st_size)}")


def _default_data() -> Path:
    """The data directory of KUBECONFIG if it has tapes; else the default, as its cluster may not be
    fathom's."""
    from fathom.record.tape_list import shelf_of  # noqa: PLC0415

    beside = data_beside()
    return beside if shelf_of(beside) else DEFAULT_DATA


@contextlib.contextmanager
def _tape_errors_as_problems() -> Iterator[None]:
    from fathom.record.segment import NotASegment  # noqa: PLC0415
    from fathom.record.tape import BadTape  # noqa: PLC0415

    try:
        yield
    except BadTape as error:
        raise Problem(str(error)) from error
    except NotASegment as error:
        raise Problem(f"the tape is {error}") from error


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
