"""Writes an incident's file: the tapes of the processes that decided about an object and about what was made
for it, their journals, audit entries and the store's state."""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from fathom import __version__
from fathom.model.decision import KeptDecision, Subject
from fathom.model.times import micro_timestamp
from fathom.record import redact
from fathom.record.audit_reading import read_entries
from fathom.record.incident_file import (
    HEAD,
    Incident,
    JournalMember,
    StoredKey,
    StoreMember,
    TapeMember,
)
from fathom.record.journal import WantedDecisions, encode_table, read_journal
from fathom.record.live_decisions import KeptRecords, read_process
from fathom.record.recording_gaps import read_gaps
from fathom.record.segment import NotASegment, packed_frames, segments
from fathom.record.tape import BadTape, Reel, TapeBeginning, reels
from fathom.record.tape_list import directories
from fathom.store.contents import StoreContents, read_contents
from fathom.store.protocol import Compacted, FutureRevision, StoreUnavailable

JOURNALS, AUDIT = "journal", "audit"
SECRETS = "/registry/secrets/"


class Window(msgspec.Struct, frozen=True):
    since_ns: int
    until_ns: int


class WantedIncident(msgspec.Struct, frozen=True, kw_only=True):
    data: Path
    window: Window
    text: str  # The object, for the head: 'pod default/web-1'.
    matches: Callable[[Subject], bool]
    name: str  # The object's; actions of decisions about other objects may name it.
    now_ns: int  # When the store is read.


def export_incident(wanted: WantedIncident, file: Path) -> Incident:
    """Raises BadTape, also where no recorded process decided about the object."""
    journals = {path.name: list(_decisions(path, wanted.window)) for path in _journals(wanted.data)}
    about = {name: [each for each in kept if _concerns(wanted, each)] for name, kept in journals.items()}
    # The agent of the object's node decides about it too. Not those of all of a workload's pods: there may be
    # hundreds, and each has a tape.
    agents = {
        name for kept in about.values() for each in kept for name in (each.decision.node, each.decision.agent)
    }
    processes = {name for name, kept in about.items() if kept} | agents | _placers(wanted, journals)
    runs = dict(_runs(wanted, processes))
    if not runs:
        raise BadTape(
            f"no process that is recorded in {wanted.data} decided about {wanted.text} in that time:"
            " name the object, or give a longer --window"
        )
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise BadTape(f"{file} exists already") from error
    with (
        os.fdopen(handle, "wb") as raw,
        zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        return _write(archive, wanted, runs, journals)


def _write(
    archive: zipfile.ZipFile,
    wanted: WantedIncident,
    runs: dict[str, list[Reel]],
    journals: dict[str, list[KeptDecision]],
) -> Incident:
    notes = gap_notes(wanted.data, wanted.window)
    tapes = [_write_tape(archive, process, reel, wanted) for process in runs for reel in runs[process]]
    journal_members = [
        *(_write_records(archive, process, _records_of(wanted, process, runs[process])) for process in runs),
        *(
            _write_journal(archive, process, decisions)
            for process in journals
            if process not in runs
            if (decisions := _about(wanted, runs, journals[process]))
        ),
    ]
    store = _write_store(archive, wanted, notes)
    incident = Incident(
        object=wanted.text,
        since=micro_timestamp(wanted.window.since_ns),
        until=micro_timestamp(wanted.window.until_ns),
        fathom=__version__,
        tapes=tuple(tapes),
        journals=tuple(journal_members),
        audit_entries=_write_audit(archive, wanted),
        store=store,
        notes=tuple(notes),
    )
    archive.writestr(HEAD, msgspec.json.format(msgspec.json.encode(incident)))
    return incident


def _records_of(wanted: WantedIncident, process: str, reel_list: list[Reel]) -> KeptRecords:
    """All decisions of the runs that are included, so that a replay can compare them."""
    since_ns = min(reel.birth().epoch_ns for reel in reel_list)
    return read_process(wanted.data, process, since_ns=since_ns, until_ns=wanted.window.until_ns)


def _about(
    wanted: WantedIncident, runs: dict[str, list[Reel]], in_window: list[KeptDecision]
) -> list[KeptDecision]:
    """Of a process that has no tape: the decisions about the object."""
    return [kept for kept in in_window if kept.decision.agent not in runs and _concerns(wanted, kept)]


def gap_notes(data: Path, window: Window) -> list[str]:
    """When records of the window could not be written."""
    audit = {"audit log": data / AUDIT} if (data / AUDIT).is_dir() else {}
    journals = {f"journal of {path.name}": path for path in sorted((data / JOURNALS).glob("*"))}
    tapes = {f"tape of {process}": path for process, path in directories(data).items()}
    return [
        f"the {source} has no records from {micro_timestamp(gap.since_ns)} to "
        + (micro_timestamp(gap.until_ns) if gap.until_ns else "now")
        for source, directory in (journals | tapes | audit).items()
        for gap in read_gaps(directory)
        if gap.since_ns <= window.until_ns and (not gap.until_ns or gap.until_ns >= window.since_ns)
    ]


# Choosing.


def _journals(data: Path) -> list[Path]:
    return [path for path in sorted((data / JOURNALS).glob("*")) if any(path.glob("*.seg"))]


def _decisions(path: Path, window: Window) -> Iterator[KeptDecision]:
    for kept in read_journal(path, WantedDecisions(since_ns=window.since_ns)):
        if kept.decision.time_ns <= window.until_ns:
            yield kept


def _concerns(wanted: WantedIncident, kept: KeptDecision) -> bool:
    """Whether the decision is about the object, or wrote it. A process that died before an outcome has left
    only the request, as 'VERB KIND NAMESPACE/NAME'."""
    decision = kept.decision
    written = [outcome.object for outcome in kept.outcomes]
    if any(subject is not None and wanted.matches(subject) for subject in (decision.subject, *written)):
        return True
    if len(written) >= len(decision.actions):
        return False
    return any(wanted.name in action.replace("/", " ").split() for action in decision.actions)


def _placers(wanted: WantedIncident, journals: dict[str, list[KeptDecision]]) -> set[str]:
    """Who placed what was made for the object: the schedulers of a workload's pods."""
    uids = _made_for(wanted, journals)
    return {
        name
        for name, kept in journals.items()
        if any(not each.decision.agent and each.decision.subject.uid in uids for each in kept)
    }


def _made_for(wanted: WantedIncident, journals: dict[str, list[KeptDecision]]) -> set[str]:
    """UIDs of the objects that decisions about the object wrote, and decisions about those: of a Deployment
    its ReplicaSets and their pods."""
    decisions = [kept for records in journals.values() for kept in records]
    written: dict[str, set[str]] = {}  # UID of a subject -> UIDs of what decisions about it wrote.
    waiting: list[str] = []
    for kept in decisions:
        uids = {outcome.object.uid for outcome in kept.outcomes if outcome.object is not None}
        written.setdefault(kept.decision.subject.uid, set()).update(uids - {""})
        if wanted.matches(kept.decision.subject):
            waiting.append(kept.decision.subject.uid)
    followed: set[str] = set()
    while waiting:
        uid = waiting.pop()
        if uid and uid not in followed:
            followed.add(uid)
            waiting += sorted(written.get(uid, ()))
    return followed


def _runs(wanted: WantedIncident, processes: set[str]) -> Iterator[tuple[str, list[Reel]]]:
    """Process -> its runs that overlap the window."""
    for process, directory in directories(wanted.data).items():
        if process not in processes:
            continue
        overlapping = [reel for reel in reels(directory) if _overlaps(reel, wanted.window)]
        if overlapping:
            yield process, overlapping


def _overlaps(reel: Reel, window: Window) -> bool:
    try:
        epoch_ns = reel.birth().epoch_ns
        return epoch_ns <= window.until_ns and epoch_ns + reel.last_ns() >= window.since_ns
    except (BadTape, NotASegment, FileNotFoundError):
        return False  # Killed before its first record was written, or dropped meanwhile.


# Writing.


def _write_tape(archive: zipfile.ZipFile, process: str, reel: Reel, wanted: WantedIncident) -> TapeMember:
    epoch_ns = reel.birth().epoch_ns
    member = f"tapes/{process}-{reel.run}.tape"
    beginning = TapeBeginning(epoch_ns, wanted.window.until_ns)
    with archive.open(member, "w", force_zip64=True) as copy:
        for path in reel.files:
            for segment in segments(path):
                bodies = list(beginning.of(segment.frames))
                if bodies:
                    copy.write(packed_frames(segment.header, bodies))
    since, until = micro_timestamp(epoch_ns), micro_timestamp(beginning.last_ns)
    return TapeMember(process, reel.run, member, since, until, beginning.cut)


def _write_records(archive: zipfile.ZipFile, process: str, records: KeptRecords) -> JournalMember:
    journal = _write_journal(archive, process, records.kept)
    tables = ""
    if records.live.tables:
        tables = f"journals/{process}.tables"
        with archive.open(tables, "w", force_zip64=True) as lines:
            for table in records.live.tables:
                lines.write(encode_table(table) + b"\n")
    return msgspec.structs.replace(journal, tables=tables, whole=records.live.whole)


def _write_journal(archive: zipfile.ZipFile, process: str, kept: Iterable[KeptDecision]) -> JournalMember:
    member, count = f"journals/{process}.jsonl", 0
    with archive.open(member, "w", force_zip64=True) as lines:
        for count, each in enumerate(kept, 1):  # noqa: B007 - the last number is the count
            lines.write(msgspec.json.encode(each) + b"\n")
    return JournalMember(process, member, count)


def _write_audit(archive: zipfile.ZipFile, wanted: WantedIncident) -> int:
    since, until = micro_timestamp(wanted.window.since_ns), micro_timestamp(wanted.window.until_ns)
    count = 0
    with archive.open("audit.jsonl", "w", force_zip64=True) as lines:
        for entry in read_entries(wanted.data / AUDIT, since=since):
            if entry.time <= until:
                lines.write(msgspec.json.encode(entry) + b"\n")
                count += 1
    return count


def _write_store(archive: zipfile.ZipFile, wanted: WantedIncident, notes: list[str]) -> StoreMember | None:
    """The state at the end of the window, while the store remembers it; else the state of now."""
    try:
        contents, time_ns = _contents(wanted, notes)
    except StoreUnavailable as error:
        notes.append(f"the store's state is not included: {error}")
        return None
    with archive.open("store.jsonl", "w", force_zip64=True) as lines:
        for entry in contents.entries:
            body = entry.body.encoded
            body = redact.object_data(body) if entry.key.startswith(SECRETS) else body
            line = StoredKey(entry.key, entry.revision, entry.created, msgspec.Raw(body))
            lines.write(msgspec.json.encode(line) + b"\n")
    return StoreMember("store.jsonl", contents.revision, micro_timestamp(time_ns), len(contents.entries))


def _contents(wanted: WantedIncident, notes: list[str]) -> tuple[StoreContents, int]:
    until_ns = wanted.window.until_ns
    revision = _revision_at(wanted.data, micro_timestamp(until_ns)) if until_ns < wanted.now_ns else None
    if revision:
        with contextlib.suppress(Compacted, FutureRevision):
            return read_contents(wanted.data, revision=revision), until_ns
    if until_ns < wanted.now_ns:
        notes.append("the store's state is that of now: the store no longer has that of the window's end")
    return read_contents(wanted.data), wanted.now_ns


def _revision_at(data: Path, time: str) -> int:
    """The newest commit up to this time, by the audit log."""
    revisions = (entry.revision for entry in read_entries(data / AUDIT) if entry.time <= time)
    return max(revisions, default=0)
