"""Reads what a recorded process decided, from the journals of its data directory, for a replay to compare.

DATA/journal/PROCESS          of the scheduler, the controllers, the gateway
DATA/journal/agents-NODE      of all agents of a process; each decision names its agent
DATA/journal                  of controllers that run by themselves
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec

from fathom.model.decision import Decision, KeptDecision
from fathom.record.decision_comparison import LiveDecisions
from fathom.record.journal import WantedDecisions, read_journal, read_tables
from fathom.record.journals import AGENTS, JOURNALS
from fathom.record.ring import ring_files, run_of
from fathom.record.segment import NotASegment, read_header
from fathom.record.tape_list import ALONE

# The step of trimming that removes decisions (`ring`): before it, they only lose detail.
REMOVED = 2


class KeptRecords(msgspec.Struct, frozen=True):
    """What the journals have of one recorded process, with the outcomes of its decisions."""

    kept: tuple[KeptDecision, ...]
    live: LiveDecisions


def read_process(data: Path, process: str, *, since_ns: int, until_ns: int | None = None) -> KeptRecords:
    """`process`: the name of its tape. Decisions since it started, in order."""
    directories = _journals_of(data, process)
    kept = tuple(
        each
        for directory in directories
        for each in read_journal(directory, WantedDecisions(since_ns=since_ns))
        if (until_ns is None or each.decision.time_ns <= until_ns)
        and _is_of(process, directory, each.decision)
    )
    decisions = tuple(each.decision for each in kept)
    tables = tuple(table for directory in directories for table in read_tables(directory))
    whole = bool(directories) and all(_is_whole(directory, since_ns=since_ns) for directory in directories)
    return KeptRecords(kept, LiveDecisions(decisions, tables, whole))


def _journals_of(data: Path, process: str) -> list[Path]:
    folder = data / JOURNALS
    if process == ALONE:
        return [folder] if any(folder.glob("*.seg")) else []
    if (folder / process).is_dir():
        return [folder / process]
    return sorted(path for path in folder.glob(f"{AGENTS}*") if path.is_dir())


def _is_of(process: str, directory: Path, decision: Decision) -> bool:
    return decision.agent == process if directory.name.startswith(AGENTS) else True


def _is_whole(directory: Path, *, since_ns: int) -> bool:
    """Whether nothing that was decided since then has been removed. Each segment is a run of its own, also
    one that could not be written: a number that is missing stands for records that are missing."""
    paths = [path for path in ring_files(directory) if not _is_empty(path)]
    if not paths:
        return False
    since = _first_since(paths, since_ns)
    if since is None:
        return False
    numbers = [run_of(path) for path in paths[since:]]
    complete = all(after - before == 1 for before, after in pairwise(numbers))
    return complete and all(read_header(path).thinned < REMOVED for path in paths[since:])


def _first_since(paths: list[Path], since_ns: int) -> int | None:
    """The segment in which records of that time begin. None: it may have been dropped. A segment's file was
    last changed with its last record."""
    if run_of(paths[0]) == 1 or paths[0].stat().st_mtime_ns < since_ns:
        later = (index for index, path in enumerate(paths) if path.stat().st_mtime_ns >= since_ns)
        return next(later, len(paths) - 1)
    return None


def _is_empty(path: Path) -> bool:
    """Allocated, and never written."""
    try:
        read_header(path)
    except (NotASegment, FileNotFoundError):
        return True
    return False
