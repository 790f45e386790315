"""Replays the tapes of a file: one tape, or those of an incident; with a patch; and goes on in a fork.

Nothing here is imported that imports deciding code: a patch must be loaded before that.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fathom.cli.output import print_document
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.simulate.replay_text import continuation_text, patched_text, told
from fathom.cli.status_line import waiting
from fathom.model.decision import Decision
from fathom.model.times import moment_ns
from fathom.record.decision_comparison import NOT_KNOWN, LiveDecisions
from fathom.record.incident_file import is_incident, open_incident
from fathom.record.live_decisions import read_process
from fathom.record.replay import ProcessEnd, ReplayResult, replay
from fathom.record.segment import NotASegment
from fathom.record.tape import BadTape, Record, Reel, reels
from fathom.record.tape_list import ALONE, FOLDER
from fathom.seams.process import NoEntry
from fathom.seams.recorded_code import id_of
from fathom.store.contents import StoreContents
from fathom.terminal import say_text

if TYPE_CHECKING:
    from fathom.sim.continuation import Continuation
    from fathom.sim.fork_state import ClusterState
    from fathom.sim.tape_state import MetricsOnTape, ObjectsAtEnd

OWN = "fathom"
# Names that a patch changes, in the text.
NAMES_SHOWN = 5


class TapeOptions(msgspec.Struct, frozen=True, kw_only=True):
    file: Path
    run: int | None
    trust: tuple[str, ...]
    patch: Path | None
    seconds: float | None  # Of --continue.
    seed: str
    decisions: Path | None
    output: str  # Of -o; '' for lines.


class Tape(msgspec.Struct, frozen=True):
    """A tape to replay. `process` is empty for a file or directory with a single tape."""

    process: str
    reel: Reel
    live: LiveDecisions  # From the journal, where there is one.


class StoredState(msgspec.Struct, frozen=True):
    contents: StoreContents
    time_ns: int


class Source(msgspec.Struct, frozen=True):
    tapes: tuple[Tape, ...]
    state: StoredState | None = None  # The store at the end of an incident.
    incident: bool = False


class ReplayedTape(msgspec.Struct, frozen=True):
    process: str
    run: int
    result: ReplayResult


class ProcessDecision(msgspec.Struct, frozen=True):
    """A line of `--decisions`."""

    process: str
    run: int
    decision: Decision


def replay_tapes(options: TapeOptions) -> int:
    with _errors_as_problems(options.file), _opened(options) as source:
        for tape in source.tapes:
            _check_trusted(tape.reel.birth().code, options.trust)
        if options.patch is not None:
            return _with_patch(source, options)
        ends, continuation = _Ends(), None
        with waiting(f"replaying {options.file}", quiet=bool(options.output)):
            replayed = _replay_all(source, options, ends if options.seconds is not None else None)
            matched = all(tape.result.matched for tape in replayed)
            if options.seconds is not None and matched:
                continuation = _continued(source, options, ends)
        _print(source, options, replayed, continuation)
    return 0 if matched else ANSWER_IS_NO


class _Ends:
    """The cluster where the tapes end, for `--continue`."""

    def __init__(self) -> None:
        self.objects: list[ObjectsAtEnd] = []
        self.metrics: list[MetricsOnTape] = []

    def through(self, records: Iterable[Record]) -> Iterable[Record]:
        from fathom.sim.tape_state import MetricsOnTape  # noqa: PLC0415  # See the docstring.

        self.metrics.append(MetricsOnTape())
        return self.metrics[-1].through(records)

    def add(self, process_end: ProcessEnd) -> None:
        from fathom.sim.tape_state import objects_at_end  # noqa: PLC0415

        known = objects_at_end(process_end)
        self.objects += [known] if known is not None else []


def _replay_all(source: Source, options: TapeOptions, ends: _Ends | None = None) -> list[ReplayedTape]:
    replayed = []
    with _decision_file(options.decisions) as journal:
        for tape in source.tapes:
            journal.begin(tape)
            records: Iterable[Record] = tape.reel.records()
            if ends is None:
                result = replay(records, journal=journal, live=tape.live)
            else:
                result = replay(ends.through(records), journal=journal, live=tape.live, at_end=ends.add)
            replayed.append(ReplayedTape(tape.process, tape.reel.run, result))
    return replayed


# What is replayed.


@contextlib.contextmanager
def _opened(options: TapeOptions) -> Iterator[Source]:
    if not is_incident(options.file):
        # The journal is read after the tape, or it would lack what a running process decides meanwhile.
        reel = _choose_reel(options.file, options.run).as_it_is()
        yield Source((Tape("", reel, _journal_beside(options.file, reel)),))
        return
    with open_incident(options.file) as opened:
        incident = opened.incident
        members = [tape for tape in incident.tapes if options.run in {None, tape.run}]
        if not members:
            raise Problem(
                f"there is no {'tape' if options.run is None else f'run {options.run}'} in {options.file}"
            )
        tapes = tuple(
            Tape(member.process, opened.reel(member), opened.decisions(member.process)) for member in members
        )
        contents = opened.contents() if options.seconds is not None else None
        state = None
        if contents is not None and incident.store is not None:
            state = StoredState(contents, moment_ns(incident.store.time) or 0)
        yield Source(tapes, state, incident=True)


def _choose_reel(path: Path, run: int | None) -> Reel:
    chosen = [reel for reel in reels(path) if run in {None, reel.run}]
    if not chosen:
        raise _no_tape(path, run)
    return chosen[-1]


def _no_tape(path: Path, run: int | None) -> Problem:
    return Problem(f"there is no {'tape' if run is None else f'run {run}'} in {path}")


def _journal_beside(path: Path, reel: Reel) -> LiveDecisions:
    """The live decisions, where the tape is still in its data directory, beside the journal."""
    path = path.absolute()
    if not path.is_dir() or (path.parent.name != FOLDER and path.name != ALONE):
        return NOT_KNOWN
    data = path.parent if path.name == ALONE else path.parent.parent
    return read_process(data, path.name, since_ns=reel.birth().epoch_ns).live


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


# With a patch.


def _with_patch(source: Source, options: TapeOptions) -> int:
    """Compare a replay with the patch with one without it. The second runs in a process of its own: a patch
    cannot be undone."""
    assert options.patch is not None
    changed_names = _applied(options.patch)
    with waiting(f"replaying {options.file} without the patch", quiet=bool(options.output)):
        without = _decisions_without(options)
    compared = Source(
        tuple(msgspec.structs.replace(tape, live=_made_without(without, tape)) for tape in source.tapes),
        incident=source.incident,
    )
    replayed = _replay_all(compared, msgspec.structs.replace(options, decisions=None))
    if options.output:
        tapes = {"patch": str(options.patch), "changes": changed_names, "tapes": replayed}
        print_document(tapes, options.output)
    else:
        shown = ", ".join(changed_names[:NAMES_SHOWN])
        more = f" and {len(changed_names) - NAMES_SHOWN} more" if len(changed_names) > NAMES_SHOWN else ""
        say_text(f"{options.patch} changes {shown}{more}")
        for tape in replayed:
            say_text(f"{_label(tape)}{patched_text(tape.result, str(options.patch))}")
    return 0 if all(tape.result.matched for tape in replayed) else ANSWER_IS_NO


def _applied(patch: Path) -> list[str]:
    """Load the patch. Returns the names that it changes. Raises Problem for one that changes none: its answer
    would be that nothing changes, and that would be believed."""
    from fathom.cli.simulate.patched_names import noted_names  # noqa: PLC0415
    from fathom.cli.simulate.simulated import apply  # noqa: PLC0415

    with noted_names() as names:
        apply(patch)
        changed = names.changed()
    if not changed:
        raise Problem(
            f"{patch} changes nothing: a patch imports a module of fathom and assigns to a name in it, "
            "as in docs/incidents.md"
        )
    return changed


def _made_without(without: dict[tuple[str, int], list[Decision]], tape: Tape) -> LiveDecisions:
    return LiveDecisions(tuple(without.get((tape.process, tape.reel.run), ())), whole=True)


def _decisions_without(options: TapeOptions) -> dict[tuple[str, int], list[Decision]]:
    with tempfile.TemporaryDirectory(prefix="fathom-replay-") as folder:
        written = Path(folder) / "decisions"
        command = [
            sys.executable,
            "-m",
            "fathom.cli",
            "replay",
            str(options.file),
            "--decisions",
            str(written),
        ]
        command += [] if options.run is None else ["--run", str(options.run)]
        command += [part for module in options.trust for part in ("--trust", module)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == ANSWER_IS_NO:
            raise Problem(
                "the tape is not reproduced without the patch, so nothing can be said about it: "
                "replay it with the fathom that recorded it"
            )
        if done.returncode:
            raise Problem(done.stderr.strip().removeprefix("fathom: error: "))
        decode = msgspec.json.Decoder(ProcessDecision).decode
        decisions: dict[tuple[str, int], list[Decision]] = {}
        for line in written.read_bytes().splitlines():
            decided = decode(line)
            decisions.setdefault((decided.process, decided.run), []).append(decided.decision)
    return decisions


class _DecisionFile:
    """A journal that writes decisions as lines of JSON; without a file it does nothing."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._process, self._run = "", 0

    def begin(self, tape: Tape) -> None:
        self._process, self._run = tape.process, tape.reel.run

    def decided(self, decision: Decision) -> None:
        if self._file is not None:
            line = ProcessDecision(self._process, self._run, decision)
            self._file.write(msgspec.json.encode(line) + b"\n")

    def concluded(self, outcome: object) -> None: ...

    def tabled(self, table: object) -> None: ...


@contextlib.contextmanager
def _decision_file(path: Path | None) -> Iterator[_DecisionFile]:
    if path is None:
        yield _DecisionFile(None)
        return
    with path.open("wb") as file:
        yield _DecisionFile(file)


# Going on.


def _continued(source: Source, options: TapeOptions, ends: _Ends) -> Continuation:
    from fathom.sim.continuation import go_on  # noqa: PLC0415
    from fathom.sim.fork import ForkFailed  # noqa: PLC0415

    assert options.seconds is not None
    try:
        return go_on(_state(source, ends), seconds=options.seconds, seed=options.seed)
    except ForkFailed as error:
        raise Problem(str(error)) from error


def _state(source: Source, ends: _Ends) -> ClusterState:
    from fathom.sim.fork_state import ClusterState, newest_time_ns, samples_of  # noqa: PLC0415
    from fathom.sim.tape_state import state_at_end  # noqa: PLC0415

    pod_metrics = [sample for tape in ends.metrics for sample in tape.pod_metrics]
    if source.state is not None:
        contents, usage = source.state.contents, samples_of(pod_metrics)
        # A cluster that stood still when it was exported goes on from then.
        time_ns = newest_time_ns(contents) or source.state.time_ns
        return ClusterState(contents=contents, time_ns=time_ns, usage=usage)
    if not ends.objects:
        raise Problem("this tape does not say what the cluster's state was: its process has no cache")
    return state_at_end(ends.objects, pod_metrics)


# Output.


def _print(
    source: Source, options: TapeOptions, replayed: list[ReplayedTape], continuation: Continuation | None
) -> None:
    if options.output:
        if source.incident or continuation is not None:
            matched = all(tape.result.matched for tape in replayed)
            whole = {"matched": matched, "tapes": replayed, "continuation": continuation}
            print_document(whole, options.output)
        else:
            print_document(replayed[0].result, options.output)
        return
    for tape in replayed:
        say_text(f"{_label(tape)}{told(tape.result)}")
    if continuation is not None:
        kept = "the store's state in the incident" if source.state else "the objects that the process knew"
        say_text(continuation_text(continuation, f"{kept}, revision {continuation.from_revision}"))
    elif options.seconds is not None:
        say_text("not continued: the tape was not reproduced")


def _label(tape: ReplayedTape) -> str:
    return f"{tape.process} run {tape.run}: " if tape.process else ""


@contextlib.contextmanager
def _errors_as_problems(file: Path) -> Iterator[None]:
    try:
        yield
    except (BadTape, NoEntry) as error:
        raise Problem(str(error)) from error
    except NotASegment as error:
        raise Problem(f"{file} is {error}") from error
