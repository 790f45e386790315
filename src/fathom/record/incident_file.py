"""An incident in one file: what `fathom record export --around OBJECT` writes and `fathom replay` reads.

A zip archive, so that everybody can look into it:

    incident.json                 what it is about, from when to when, and what is in it
    tapes/PROCESS-RUN.tape        each run of the processes that decided about the object, from its beginning
    journals/PROCESS.jsonl        their decisions in these runs, with outcomes
    journals/PROCESS.tables       the tables of every node's reasons that these decisions refer to
    audit.jsonl                   all writes in the window
    store.jsonl                   the store's keys, a line each, without the contents of Secrets

It is untrusted data to whoever receives it: sizes are bounded, and no name in it becomes a path.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from fathom.model.body import Body
from fathom.model.decision import KeptDecision
from fathom.record.decision_comparison import NOT_KNOWN, LiveDecisions
from fathom.record.journal import decode_table
from fathom.record.old_records import upgraded_decision
from fathom.record.tape import BadTape, Reel, reels
from fathom.store.contents import StoreContents
from fathom.store.protocol import Entry

FORMAT = "fathom.dev/incident/1"
HEAD = "incident.json"

# Far above what a budget of tapes holds when unpacked once; a file that says more was not written by fathom.
MEMBER_BYTES_MAX = 8 << 30
HEAD_BYTES_MAX = 4 << 20


class TapeMember(msgspec.Struct, frozen=True):
    process: str
    run: int
    member: str
    since: str
    until: str
    cut: bool  # The process went on after the window; the tape ends there.


class JournalMember(msgspec.Struct, frozen=True):
    process: str
    member: str
    decisions: int
    tables: str = ""  # The member with every node's reasons, if the process has such tables.
    whole: bool = False  # Nothing that the process decided in its included runs is missing.


class StoreMember(msgspec.Struct, frozen=True):
    member: str
    revision: int
    time: str  # When the store was read, or when it had this revision.
    keys: int


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """The head of the file."""

    format: str = FORMAT
    object: str  # 'pods default/web-1'
    since: str
    until: str
    fathom: str
    tapes: tuple[TapeMember, ...] = ()
    journals: tuple[JournalMember, ...] = ()
    audit_entries: int = 0
    store: StoreMember | None = None
    notes: tuple[str, ...] = ()  # What could not be included, and why.


class StoredKey(msgspec.Struct, frozen=True):
    """A line of store.jsonl."""

    key: str
    revision: int
    created: int
    body: msgspec.Raw

    def entry(self) -> Entry:
        return Entry(self.key, Body(encoded=bytes(self.body)), self.revision, self.created)


_decode_kept = msgspec.json.Decoder(KeptDecision).decode
_decode_key = msgspec.json.Decoder(StoredKey).decode


def is_incident(file: Path) -> bool:
    if not file.is_file() or not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return HEAD in archive.namelist()


class OpenIncident:
    """An incident's file, open for reading. Tapes are unpacked into a directory that is removed later."""

    def __init__(self, file: Path, archive: zipfile.ZipFile, folder: Path) -> None:
        self._file, self._archive, self._folder = file, archive, folder
        with self._open(HEAD, HEAD_BYTES_MAX) as head:
            try:
                self.incident = msgspec.json.decode(head.read(), type=Incident)
            except msgspec.DecodeError as error:
                raise BadTape(f"{file} is not an incident: {error}") from error
        if self.incident.format != FORMAT:
            raise BadTape(f"{file} has format {self.incident.format!r}; this fathom reads {FORMAT!r}")

    def reel(self, tape: TapeMember) -> Reel:
        unpacked = self._folder / f"{self.incident.tapes.index(tape)}.tape"
        if not unpacked.exists():
            with self._open(tape.member) as packed, unpacked.open("wb") as copy:
                shutil.copyfileobj(packed, copy)
        return reels(unpacked)[0]

    def decisions(self, process: str) -> LiveDecisions:
        """The live decisions of a process, in order; empty where the file has none."""
        journals = [journal for journal in self.incident.journals if journal.process == process]
        if not journals:
            return NOT_KNOWN
        (journal,) = journals[:1]
        kept = (_decode_kept(line) for line in self._lines(journal.member))
        decisions = tuple(upgraded_decision(each.decision) for each in kept)
        tables = tuple(map(decode_table, self._lines(journal.tables))) if journal.tables else ()
        return LiveDecisions(decisions, tables, journal.whole)

    def contents(self) -> StoreContents | None:
        store = self.incident.store
        if store is None:
            return None
        entries = tuple(_decode_key(line).entry() for line in self._lines(store.member))
        return StoreContents(entries, store.revision)

    def _lines(self, member: str) -> Iterator[bytes]:
        try:
            with self._open(member) as file:
                yield from file
        except msgspec.DecodeError as error:
            raise BadTape(f"{self._file}: {member} cannot be read: {error}") from error

    def _open(self, member: str, bytes_max: int = MEMBER_BYTES_MAX) -> IO[bytes]:
        try:
            size = self._archive.getinfo(member).file_size
        except KeyError as error:
            raise BadTape(f"{self._file} does not contain {member}") from error
        if size > bytes_max:
            raise BadTape(f"{self._file}: {member} is larger than {bytes_max >> 20} MiB")
        return self._archive.open(member)


@contextmanager
def open_incident(file: Path) -> Iterator[OpenIncident]:
    """Raises BadTape."""
    try:
        with (
            zipfile.ZipFile(file) as archive,
            tempfile.TemporaryDirectory(prefix="fathom-incident-") as folder,
        ):
            yield OpenIncident(file, archive, Path(folder))
    except zipfile.BadZipFile as error:
        raise BadTape(f"{file} is damaged: {error}") from error
