"""What was written in a run: every commit from the store's own file, with who made it from the audit log.

The store has what was committed, exactly, whatever becomes of the server: it is read by the store's own code,
from another process. The audit log has who; a server that is killed loses the last tenth of a second of it.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

from fathom.api.resource_cache import REGISTRY
from fathom.model.audit import AuditEntry
from fathom.record.audit import FILE
from fathom.record.audit_reading import entry_of
from fathom.sim.checkers.at_rest import RECORDS, Objects, objects_of
from fathom.sim.real_history import seen_in
from fathom.sim.world.invariants import Seen, place_of
from fathom.store import sqlite_file, sqlite_log
from fathom.store.protocol import Change

AUDIT_S = 0.5  # How long a commit waits for its audit entry: five times the log's own delay.


class Commits:
    def __init__(self, data: Path) -> None:
        self._store = sqlite_file.connect(data / sqlite_file.DATABASE, read_only=True)
        self._audit = AuditTail(data / "audit" / FILE)
        self._revision = 0  # Read up to here.
        self._waiting: deque[tuple[float, Change]] = deque()

    def new(self, now_s: float) -> list[tuple[Seen, AuditEntry | None]]:
        """What was committed since the last call, in order; each as soon as it is known who made it."""
        newest = sqlite_log.bounds(self._store)[0]
        while self._revision < newest:
            batch = sqlite_log.history(self._store, REGISTRY, self._revision, newest)
            self._waiting.extend((now_s, change) for change in batch.changes)
            self._revision = batch.revision
        self._audit.read()
        ready = []
        while self._waiting and self._is_ready(*self._waiting[0], now_s):
            noticed_s, change = self._waiting.popleft()
            entry = self._audit.by_revision.get(change.revision)
            if place_of(change.key)[0] not in RECORDS:
                ready.append((seen_in(change, entry, noticed_s), entry))
        return ready

    def _is_ready(self, noticed_s: float, change: Change, now_s: float) -> bool:
        return change.revision in self._audit.by_revision or now_s - noticed_s > AUDIT_S

    def objects(self) -> Objects:
        revision = sqlite_log.bounds(self._store)[0]
        return objects_of(sqlite_log.page(self._store, REGISTRY, revision, 0, "").entries)

    def close(self) -> None:
        self._audit.close()
        self._store.close()


class AuditTail:
    """The audit log, read as it grows. A line that a killed server left unfinished is skipped."""

    def __init__(self, file: Path) -> None:
        self.by_revision: dict[int, AuditEntry] = {}
        self._path = file
        self._at = 0  # Bytes read.
        self._rest = b""

    def read(self) -> list[AuditEntry]:
        """The new entries of writes."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._at)
            more = file.read()
        self._at += len(more)
        *lines, self._rest = (self._rest + more).split(b"\n")
        entries = [entry for line in lines if (entry := entry_of(line)) is not None and entry.wrote]
        for entry in entries:
            self.by_revision.setdefault(entry.revision, entry)
        return entries

    def close(self) -> None:
        self.by_revision.clear()
