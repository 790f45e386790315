"""`fathom record`: list tapes of the deciding processes; keep and export records around an object."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from fathom.cli.data_directory import checked
from fathom.cli.kubeconfig import DEFAULT_DATA, data_beside
from fathom.cli.object_reference import duration_s, object_reference
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say, say_json

Data = Annotated[
    Path | None, Parameter(help="Data directory. Default: the directory of the kubeconfig, or .fathom.")
]


Namespace = Annotated[str, Parameter(name=("--namespace", "-n"), help="Namespace of the object.")]


def make_app() -> App:
    app = App(
        name="record",
        help="List, keep and export recordings of the scheduler, controllers and agents.",
    )
    app.command(status)
    app.command(export)
    app.command(keep)
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

    data = checked(data or _default_data())
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
    _say_kept(data)
    return 0


def _say_kept(data: Path) -> None:
    from fathom.model.times import micro_timestamp  # noqa: PLC0415
    from fathom.record.kept_windows import declared, used_up_since  # noqa: PLC0415

    for window in declared(data):
        since, until = micro_timestamp(window.since_ns), micro_timestamp(window.until_ns)
        say(f"kept with full detail, around {window.object}: {since} to {until}")
    for process, time in used_up_since(data).items():
        say(f"note: {process} had no room left for kept records at {time}: older ones have lost detail")


def export(
    file: Annotated[Path | None, Parameter(help="File to write; `fathom replay` reads it.")] = None,
    /,
    *,
    data: Data = None,
    process: Annotated[
        str, Parameter(help="Process whose tape to export; needed if there are several.")
    ] = "",
    run: Annotated[int | None, Parameter(help="Number of the run. Default: the newest.")] = None,
    around: Annotated[
        str,
        Parameter(
            help="Export an incident: KIND/NAME of an object. The file has the tapes of all processes that "
            "decided about it, their journals, the audit log and the store's state."
        ),
    ] = "",
    namespace: Namespace = "default",
    window: Annotated[str, Parameter(help="With --around: how far back, for example 10m.")] = "15m",
    until: Annotated[
        str, Parameter(help="With --around: end of the window, as 2026-11-16T14:00:00Z. Default: now.")
    ] = "",
    out: Annotated[Path | None, Parameter(help="File to write, instead of FILE.")] = None,
) -> None:
    """Copy one run of a tape to FILE, or with --around all records of an incident. Works while the processes
    are being recorded."""
    file = file or out
    if around:
        _export_incident(file, checked(data or _default_data()), around, namespace, window, until)
        return
    if file is None:
        raise Problem("name the file to write: fathom record export FILE")
    from fathom.record.tape_list import export as export_tape  # noqa: PLC0415

    with _tape_errors_as_problems():
        done = export_tape(checked(data or _default_data()), file, process=process, run=run)
    say(f"exported run {done.run} of {done.process} to {file}: {_size(file.stat().st_size)}")


def _export_incident(  # noqa: PLR0917 - the options as they came
    file: Path | None, data: Path, around: str, namespace: str, window: str, until: str
) -> None:
    from fathom.model.times import SECOND_NS, moment_ns  # noqa: PLC0415
    from fathom.record.incident_export import WantedIncident, Window, export_incident  # noqa: PLC0415
    from fathom.seams.outside import SystemClock  # noqa: PLC0415

    reference, window_s = object_reference(around, namespace), duration_s(window, "--window")
    now_ns = SystemClock().now_ns()
    until_ns = moment_ns(until) if until else now_ns
    if until_ns is None:
        raise Problem(f"--until must be a time as 2026-11-16T14:00:00Z, not {until!r}")
    file = file or Path(f"{reference.kind}-{reference.name}.incident")
    wanted = WantedIncident(
        data=data,
        window=Window(until_ns - round(window_s * SECOND_NS), until_ns),
        text=str(reference),
        matches=reference.matches,
        name=reference.name,
        now_ns=now_ns,
    )
    with _tape_errors_as_problems():
        incident = export_incident(wanted, file)
    tapes = ", ".join(f"{tape.process} run {tape.run}" for tape in incident.tapes)
    decisions = sum(journal.decisions for journal in incident.journals)
    say(
        f"exported {incident.object} from {incident.since} to {incident.until} to {file}: "
        f"{_size(file.stat().st_size)}",
        f"  tapes: {tapes}",
        f"  {decisions:,} decisions, {incident.audit_entries:,} audit entries, "
        + (f"store at revision {incident.store.revision}" if incident.store else "no store"),
        *(f"  note: {note}" for note in incident.notes),
    )


def keep(
    *,
    around: Annotated[str, Parameter(help="The object that the incident is about, as KIND/NAME.")],
    for_: Annotated[str, Parameter(name="--for", help="How far back and how far ahead, for example 30m.")],
    namespace: Namespace = "default",
    data: Data = None,
) -> int:
    """Declare an incident: tapes and journals of this data directory keep full detail from D before now until
    D after now. They may use half of each budget for that. Exits with 1 if that was used up before."""
    from fathom.model.times import SECOND_NS, micro_timestamp  # noqa: PLC0415
    from fathom.record.kept_windows import KeptWindow, declare, used_up_since  # noqa: PLC0415
    from fathom.seams.outside import SystemClock  # noqa: PLC0415

    reference, around_s = object_reference(around, namespace), duration_s(for_, "--for")
    data = checked(data or _default_data())
    if not data.is_dir():
        raise Problem(f"{data} does not exist: --data names the data directory of a cluster")
    now_ns, around_ns = SystemClock().now_ns(), round(around_s * SECOND_NS)
    declare(data, KeptWindow(now_ns - around_ns, now_ns + around_ns, "incident", str(reference)))
    since, until = micro_timestamp(now_ns - around_ns), micro_timestamp(now_ns + around_ns)
    say(f"kept with full detail, around {reference}: {since} to {until}")
    lost = used_up_since(data)
    for process, time in lost.items():
        say(f"note: {process} had no room left for kept records at {time}: older ones have lost detail")
    return ANSWER_IS_NO if lost else 0


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


app = make_app()
