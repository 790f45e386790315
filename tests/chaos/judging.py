"""The history of a real run, judged by the simulator's checkers; and what to do when one of them is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from fathom.api.resource_cache import REGISTRY
from fathom.model.times import SECOND_NS, moment_ns
from fathom.record.audit_reading import read_entries
from fathom.record.journal import read_journal
from fathom.sim.real_history import AuditIndex, RealHistory, seen_in
from fathom.sim.world.violation import Violation
from fathom.store import sqlite_file, sqlite_log

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
    """Commits are timed by the audit log."""
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
    read_journals(history, data, at_s=at_s)
    history.journals_are_read(at_s=at_s)
    return history


def audit_of(*data: Path) -> AuditIndex:
    audit = AuditIndex()
    for each in data:
        for entry in read_entries(each / "audit"):
            audit.add(entry)
    return audit


def read_journals(history: RealHistory, data: Path, *, at_s: float) -> None:
    for directory in sorted({file.parent for file in (data / "journal").rglob("*.seg")}):
        history.read_journal(directory.name, read_journal(directory), at_s=at_s)


def exported(violation: Violation, data: Path, file: Path) -> str:
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
