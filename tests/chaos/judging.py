"""The history of a real run, judged by the simulator's checkers; and what follows when one is broken."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

from fathom.api.resource_cache import REGISTRY
from fathom.chaos.commits import AUDIT_S, AuditTail
from fathom.model.decision import KeptDecision
from fathom.model.times import SECOND_NS, moment_ns
from fathom.record.audit import FILE
from fathom.record.audit_reading import read_entries
from fathom.record.journal import read_journal
from fathom.sim.real_history import AuditIndex, RealHistory, seen_in
from fathom.sim.world.violation import Violation
from fathom.store import sqlite_file, sqlite_log
from fathom.store.open import open_store
from fathom.store.protocol import Change

LOOK_S = 0.1
WINDOW = "15m"
PATIENCE_S = 60.0  # Controllers write what they have counted some seconds later.


def judged(data: Path) -> tuple[RealHistory, list[Violation]]:
    """Of a cluster on SQLite that is about to come to rest: its history, and what stays wrong at rest."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        history = _history(data)
        wrong = history.wrong_at_rest(at_s=time.time())
        if not wrong or history.violations or time.monotonic() > until_s:
            return history, wrong
        time.sleep(0.5)


def _history(data: Path) -> RealHistory:
    """Of a cluster that runs on meanwhile: the journals first, so that the store has what they say. Commits
    are timed by the audit log."""
    before = journals_of(data)
    history, audit = RealHistory(), audit_of(data)
    store = sqlite_file.connect(data / sqlite_file.DATABASE, read_only=True)
    newest, floor = sqlite_log.bounds(store)
    assert floor == 0, "the store has forgotten how it began"
    read, at_s = 0, 0.0
    while read < newest:
        batch = sqlite_log.history(store, REGISTRY, read, newest)
        for change in batch.changes:
            entry = audit.of(change)
            at_s = max(at_s, (moment_ns(entry.time) or 0) / SECOND_NS if entry is not None else 0.0)
            history.commit(seen_in(change, entry, at_s))
        read = batch.revision
    store.close()
    history.reached(newest)
    for process, kept in before.items():
        history.read_journal(process, kept, at_s=at_s)
    since = (each.decision.id for kept in journals_of(data).values() for each in kept)
    history.journals_are_read(at_s=at_s, also=since)
    return history


class FollowedHistory(threading.Thread):
    """Reads every commit from etcd as it happens, from the first one on, and who made it from the audit logs
    of all API servers. Whichever of them are killed: the watch goes on with another member."""

    def __init__(self, url: str, servers: list[Path]) -> None:
        """`servers`: their data directories."""
        super().__init__(daemon=True)
        self.history = RealHistory()
        self.over = threading.Event()  # Set it when nothing is to be followed any more.
        self.failed = ""
        self._url = url
        self._tails = [AuditTail(data / "audit" / FILE) for data in servers]
        self._audit = AuditIndex()
        self._waiting: deque[tuple[float, Change]] = deque()
        self._revision = 0

    def run(self) -> None:
        try:
            asyncio.run(self._follow())
        except Exception as error:  # It is the test's to report.
            self.failed = repr(error)

    async def _follow(self) -> None:
        store = await open_store(self._url)
        watch = store.watch(REGISTRY, after=0)
        while not self.over.is_set() or self._waiting or self._revision < await store.revision():
            with contextlib.suppress(TimeoutError):
                batch = await asyncio.wait_for(anext(watch), LOOK_S)
                self._waiting.extend((time.monotonic(), change) for change in batch.changes)
                self._revision = batch.revision
            if self.over.is_set():
                await store.request_progress()
            self._judge_those_whose_writer_is_known()
        self.history.reached(self._revision)
        await store.close()

    def _judge_those_whose_writer_is_known(self) -> None:
        for tail in self._tails:
            for entry in tail.read():
                self._audit.add(entry)
        while self._waiting and self._is_ready(*self._waiting[0]):
            at_s, change = self._waiting.popleft()
            self.history.commit(seen_in(change, self._audit.of(change), at_s))

    def _is_ready(self, at_s: float, change: Change) -> bool:
        return self._audit.knows(change.revision) or time.monotonic() > at_s + AUDIT_S


def audit_of(*data: Path) -> AuditIndex:
    audit = AuditIndex()
    for each in data:
        for entry in read_entries(each / "audit"):
            audit.add(entry)
    return audit


def journals_of(data: Path) -> dict[str, list[KeptDecision]]:
    """By process."""
    directories = sorted({file.parent for file in (data / "journal").rglob("*.seg")})
    return {directory.name: read_journal(directory) for directory in directories}


def collected(directory: Path, parts: dict[str, Path], servers: list[Path]) -> Path:
    """The records of processes that have a data directory each, as if they shared one: `parts` by name."""
    directory.mkdir()
    for folder in ("journal", "tapes", "audit"):
        (directory / folder).mkdir()
    for name, data in parts.items():
        for folder in ("journal", "tapes"):
            for each in sorted((data / folder).glob("*")):
                (directory / folder / name).symlink_to(each)
    with (directory / "audit" / FILE).open("wb") as together:
        for data in servers:
            together.write((data / "audit" / FILE).read_bytes())
    return directory


def exported_incident(violation: Violation, data: Path, file: Path) -> str:
    """Exports the incident and replays it; says what came of it."""
    resource, _, rest = (violation.objects or ("pods/default/none",))[0].partition("/")
    namespace, _, name = rest.rpartition("/")
    around = ("--around", f"{resource.partition('.')[0]}/{name}", "--namespace", namespace or "default")
    export = _fathom("record", "export", str(file), *around, "--window", WINDOW, "--data", str(data))
    if export.returncode:
        return f"no incident was exported: {export.stderr}"
    replay = _fathom("replay", str(file), "--json")
    matched = json.loads(replay.stdout)["matched"] if replay.stdout.startswith("{") else replay.stderr
    return f"incident {file}, replayed as recorded: {matched}"


def _fathom(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fathom.cli", *words]
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)
