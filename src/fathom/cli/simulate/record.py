"""`fathom record`: list tapes of the deciding processes; keep and export records around an object."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from fathom.cli.data_directory import checked
from fathom.cli.object_reference import duration_s, object_reference
from fathom.cli.output import DOCUMENTS, AsJson, document_format, output_parameter, print_document
from fathom.cli.places import Data, found_data, is_data_directory
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.status_line import waiting
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.record.tape_list import RunSummary, TapeSummary

Namespace = Annotated[str, Parameter(name=("--namespace", "-n"), help="Namespace of the object.")]

HELP = """List, keep and export recordings of the scheduler, controllers and agents. Works where the data
directory of the cluster is.

fathom record status
fathom record export web.incident --around deployment/web --window 10m
"""


def make_app() -> App:
    app = App(
        name="record",
        help=HELP,
    )
    app.command(status)
    app.command(export)
    app.command(keep)
    return app


def _data_of(data: Path | None) -> Path:
    """Raises Problem: recordings are files of the machine that records, and no server hands them out."""
    path = found_data(data)
    if is_data_directory(path):
        return checked(path)
    state = "has no cluster" if path.is_dir() else "does not exist"
    raise Problem(
        f"{path} {state}, and recordings are read where the data directory is: run `fathom record` on the"
        " machine of the cluster, with --data DIR"
    )


def status(
    *,
    data: Data = None,
    output: Annotated[
        str,
        output_parameter(
            "wide",
            "json",
            "yaml",
            "name",
            help="wide: with times and entry points. json, yaml: one document, docs/recording.md lists its"
            " fields. name: the processes.",
        ),
    ] = "",
    as_json: AsJson = False,
) -> int:
    """List the recorded processes, with begin and end of each run. Exits with 1 if there are none.

    Prints a row for each run of each process, and the windows that are kept with full detail.

    fathom record status
    fathom record status --data /var/lib/fathom -o json
    """
    from fathom.record.tape_list import shelf_of  # noqa: PLC0415  # See the package's docstring.

    # A directory that is named and empty has no tapes: that is an answer.
    data = checked(data) if data is not None and data.is_dir() else _data_of(data)
    output = document_format(output, as_json=as_json)
    tapes = shelf_of(data)
    if output in DOCUMENTS:
        print_document(tapes, output)
    elif output == "name":
        say(*(tape.process for tape in tapes))
    elif not tapes:
        say(f"there are no tapes in {data}: --data names the data directory of a cluster")
    else:
        _say_tapes(tapes, wide=output == "wide")
        _say_kept(data)
    return 0 if tapes else ANSWER_IS_NO


COLUMNS = ("PROCESS", "RUN", "STATE", "BEGAN", "LASTED", "SIZE")


def _say_tapes(tapes: Iterable[TapeSummary], *, wide: bool) -> None:
    from fathom.cli.tables import say_table  # noqa: PLC0415
    from fathom.seams.outside import SystemClock  # noqa: PLC0415

    now_ns = SystemClock().now_ns()
    rows = [_tape_row(tape, run, now_ns, wide=wide) for tape in tapes for run in tape.runs]
    say_table([(*COLUMNS, *(("FROM", "TO", "ENTRY") if wide else ())), *rows])


def _tape_row(tape: TapeSummary, run: RunSummary, now_ns: int, *, wide: bool) -> tuple[str, ...]:
    """Only the newest run may go on."""
    from fathom.cli.tables import age  # noqa: PLC0415
    from fathom.model.times import moment_ns  # noqa: PLC0415

    since_ns, until_ns = moment_ns(run.since) or now_ns, moment_ns(run.until) or now_ns
    goes_on = tape.recording and run == tape.runs[-1]
    return (
        tape.process,
        str(run.run),
        "recording" if goes_on else "ended",
        f"{age(since_ns, now_ns)} ago",
        age(since_ns, until_ns),
        _size(run.stored_bytes),
        *((run.since, run.until, run.entry) if wide else ()),
    )


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
    are being recorded.

    Prints what the file has: its size, tapes, decisions and audit entries.

    fathom record export web.incident --around deployment/web --window 10m
    fathom record export scheduler.tape --process scheduler --run 3
    """
    file = file or out
    if around:
        _export_incident(file, _data_of(data), around, namespace, window, until)
        return
    if file is None:
        raise Problem("name the file to write: fathom record export FILE")
    from fathom.record.tape_list import export as export_tape  # noqa: PLC0415

    with _tape_errors_as_problems(), waiting("exporting the tape"):
        done = export_tape(_data_of(data), file, process=process, run=run)
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
    with _tape_errors_as_problems(), waiting(f"exporting {reference}"):
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
    """Declare an incident: tapes and journals of this data directory keep full detail from D before now
    until D after now. They may use half of each budget for that. Exits with 1 if that was used up before.

    Prints the window.

    fathom record keep --around deployment/web --for 30m
    fathom record keep --around pod/web-1 -n shop --for 1h
    """
    from fathom.model.times import SECOND_NS, micro_timestamp  # noqa: PLC0415
    from fathom.record.kept_windows import KeptWindow, declare, used_up_since  # noqa: PLC0415
    from fathom.seams.outside import SystemClock  # noqa: PLC0415

    reference, around_s = object_reference(around, namespace), duration_s(for_, "--for")
    data = _data_of(data)
    now_ns, around_ns = SystemClock().now_ns(), round(around_s * SECOND_NS)
    declare(data, KeptWindow(now_ns - around_ns, now_ns + around_ns, "incident", str(reference)))
    since, until = micro_timestamp(now_ns - around_ns), micro_timestamp(now_ns + around_ns)
    say(f"kept with full detail, around {reference}: {since} to {until}")
    lost = used_up_since(data)
    for process, time in lost.items():
        say(f"note: {process} had no room left for kept records at {time}: older ones have lost detail")
    return ANSWER_IS_NO if lost else 0


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
