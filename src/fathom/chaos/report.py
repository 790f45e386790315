"""The report of `fathom chaos`, as text and JSON: verdict, timeline, faults, and the command to run it again.

In the form of a simulated run's report (`sim.report.run_report`), for somebody who knows their operator and
not fathom."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from fathom.chaos.happened import Happened
from fathom.chaos.run import RunResult
from fathom.chaos.schedule import OPERATOR, SERVER, Schedule
from fathom.explain.timeline.lines import Line, as_text, clock
from fathom.sim.report.run_report import BROKEN, CAUSES_MAX, HOLDS, ReportedCause
from fathom.sim.world.faults import AnyFault, sentence
from fathom.sim.world.violation import Violation

FORMAT = "fathom-chaos/1"
LINES_MAX = 60  # A reader does not want more than a page; the newest are kept.

REPLAYS = (
    "The schedule of faults follows from the seed, and replays. The program's own timing does not: another "
    "run may meet the faults elsewhere."
)
HOW_TO_READ = (
    "How to read this: times are minutes and seconds since the faults began. Lines with !! are failures that",
    f"were made on purpose. {OPERATOR} is your program, {OPERATOR}#2 is it after its second start; {SERVER}",
    "is the API server; you are who applies and deletes the manifests. See docs/chaos.md.",
)


class Asked(msgspec.Struct, frozen=True):
    """What the person asked for: enough to ask again."""

    command: tuple[str, ...]  # The program and its arguments.
    manifests: tuple[str, ...] = ()  # Files of --manifest.
    during: tuple[str, ...] = ()  # Files of --during.
    flags: tuple[str, ...] = ()  # Others that change a run: '--faults', 'lose-reply'.


class OneRun(msgspec.Struct, frozen=True, kw_only=True):
    """A line about a run that is over."""

    seed: int | None  # None: the one without faults.
    verdict: str
    faults: int  # How many took effect.
    requests: int  # Of the program.
    starts: int  # Of the program.
    seconds: float


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    seed: int | None
    schedule: Schedule  # What was planned; --replay runs it again.
    violation: Violation
    others: tuple[Violation, ...]  # What else was wrong in the same run.
    timeline: tuple[Line, ...]
    causes: tuple[ReportedCause, ...]
    fired: dict[str, int]  # Which faults took effect where -> how often.
    program_output: tuple[str, ...]  # The last lines.
    output_file: str = ""  # The file that has all of it.


class ChaosReport(msgspec.Struct, frozen=True, kw_only=True):
    format: str = FORMAT  # Raised when a reader of old reports would misread a new one.
    verdict: str
    asked: Asked
    runs: tuple[OneRun, ...]
    ready_s: float  # How long the API server took to start, on average.
    failure: Failure | None = None  # The first run in which something broke; it was the last one.
    replays: str = REPLAYS  # What of a run is the same when it is run again.
    rerun: str = ""  # The command that runs the schedule of the failure again.


def one_run(seed: int | None, result: RunResult) -> OneRun:
    return OneRun(
        seed=seed,
        verdict=BROKEN if result.violations else HOLDS,
        faults=sum(event.sort == "fault" for event in result.events),
        requests=result.requests,
        starts=result.starts,
        seconds=round(result.seconds, 3),
    )


def failure_of(seed: int | None, result: RunResult) -> Failure | None:
    if not result.violations:
        return None
    violation, *others = result.violations
    lines = lines_of(result.events, violation)
    causes = [
        ReportedCause(number, line.culprit, line.who, line.what)
        for number, line in enumerate(lines, 1)
        if line.culprit
    ]
    return Failure(
        seed=seed,
        schedule=result.schedule,
        violation=violation,
        others=tuple(others),
        timeline=lines,
        causes=tuple(causes),
        fired=result.fired,
        program_output=result.last_lines,
    )


def lines_of(events: Sequence[Happened], violation: Violation) -> tuple[Line, ...]:
    """What happened to the objects of the violation and to their owners, every fault, and the verdict."""
    about = set(violation.objects)
    about |= {
        owner
        for event in events
        if event.objects[:1] and event.objects[0] in about
        for owner in event.objects
    }
    shown = [event for event in events if event.sort != "write" or not about or event.objects[0] in about]
    shown = [event for event in shown if event.at_s <= violation.at_s][-LINES_MAX:]
    numbers = {event.revision: number for number, event in enumerate(shown, 1) if event.sort == "write"}
    lines = [
        Line(
            at_s=round(event.at_s, 3),
            who=event.who,
            what=event.what,
            because=_because(event, numbers),
            fault=event.sort == "fault",
            culprit=event.culprit,
        )
        for event in shown
    ]
    text = f"{violation.invariant}: {violation.message}".partition("\n")[0]
    return (*lines, Line(at_s=round(violation.at_s, 3), who="BROKEN", what=text))


def _because(event: Happened, numbers: dict[int, int]) -> tuple[int, ...]:
    """The write that a fault has met."""
    met = numbers.get(event.revision) if event.sort == "fault" and event.revision else None
    return () if met is None else (met,)


def rerun(asked: Asked, seed: int | None) -> str:
    """The command that runs the same schedule again."""
    words = ["fathom", "chaos", "--seed", str(seed or 0), "--runs", "1", *asked.flags]
    words += [word for file in asked.manifests for word in ("--manifest", file)]
    words += [word for file in asked.during for word in ("--during", file)]
    return shlex.join([*words, "--", *asked.command])


def replay_command(asked: Asked, file: str) -> str:
    return shlex.join(["fathom", "chaos", "--replay", file, "--", *asked.command])


def as_lines(report: ChaosReport, *, file: str = "") -> list[str]:
    counted = [run for run in report.runs if run.seed is not None]
    faults, seconds = sum(run.faults for run in counted), sum(run.seconds for run in report.runs)
    counts = (
        f"{_count(len(counted), 'run')} with faults and one without, {_count(faults, 'fault')} took effect, "
        f"{seconds:,.0f} s; the API server was ready after {report.ready_s:.2f} s"
    )
    if report.failure is None:
        return [f"{shlex.join(report.asked.command)}: everything holds", counts, REPLAYS]
    return [
        *_head(report.failure, shlex.join(report.asked.command)),
        "",
        *HOW_TO_READ,
        "",
        *as_text(report.failure.timeline),
        "",
        *_causes(report.failure.causes),
        *_faults(report.failure),
        *_output(report.failure),
        counts,
        REPLAYS,
        f"rerun:   {report.rerun}",
        *([f"replay:  {replay_command(report.asked, file)}"] if file else []),
    ]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _head(failure: Failure, command: str) -> list[str]:
    violation = failure.violation
    run = f"seed {failure.seed}" if failure.seed is not None else "without any fault"
    about = f"  about {', '.join(violation.objects)}"
    also = [f"  also broken: {other.invariant}: {_first_line(other.message)}" for other in failure.others]
    return [
        f"{command}, {run}: BROKEN at {clock(violation.at_s)}",
        f"  {violation.invariant}",
        *(f"  {line}" for line in violation.message.splitlines()),
        *([about] if violation.objects else []),
        *also,
    ]


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _causes(causes: Sequence[ReportedCause]) -> list[str]:
    if not causes:
        return []
    shown = [f"  {cause.kind}, line {cause.line}: {cause.who} {cause.what}" for cause in causes[-CAUSES_MAX:]]
    return ["possible causes:", *shown, ""]


def _faults(failure: Failure) -> list[str]:
    schedule = failure.schedule
    if not schedule.faults:
        return ["no faults", ""]
    lines = _planned("faults planned, while objects were applied:", schedule.while_applying)
    lines += _planned("faults planned, while they were deleted:", schedule.while_deleting)
    hits = [
        f"  {site}" + (f"  ×{times}" if times > 1 else "") for site, times in sorted(failure.fired.items())
    ]
    return [*lines, *(["faults that fired:", *hits] if hits else ["none of them took effect"]), ""]


def _planned(title: str, faults: Sequence[AnyFault]) -> list[str]:
    return [title, *(f"  {clock(fault.at_s)}  {sentence(fault)}" for fault in faults)] if faults else []


def _output(failure: Failure) -> list[str]:
    if not failure.program_output:
        return []
    where = f" (all of it: {failure.output_file})" if failure.output_file else ""
    return [f"the program's last lines{where}:", *(f"  | {line}" for line in failure.program_output), ""]


def as_json(report: ChaosReport) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(report)
    return document


class NotAReport(Exception):
    """One line: the file is no report of `fathom chaos`, or of one in which nothing broke."""


def decoded(content: bytes, file: str) -> ChaosReport:
    """Raises NotAReport."""
    try:
        report = msgspec.json.decode(content, type=ChaosReport)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAReport(f"{file} is not a report of fathom chaos: {error}") from error
    if report.format != FORMAT:
        raise NotAReport(f"{file} has the format {report.format!r}, this version of fathom reads {FORMAT!r}")
    if report.failure is None:
        raise NotAReport(f"nothing broke in {file}: there is no schedule to run again; use --seed")
    return report
