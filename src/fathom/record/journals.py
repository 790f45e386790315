"""Where the processes beside an API server keep their journals: a folder for each in DATA/journal."""

from __future__ import annotations

from pathlib import Path

JOURNALS = "journal"
# The journal of all agents of a process is named after its first node.
AGENTS = "agents-"

# For processes that decide seldom: some hundred thousand decisions. The scheduler and the controllers, which
# decide thousands of times a second, have `journal.BUDGET_BYTES`.
SMALL_BUDGET_BYTES = 64 << 20


def journal_directory(data: Path, component: str = "scheduler") -> Path:
    """The directory of a process's decision journal."""
    return data / JOURNALS / component


def data_directory(journal: Path) -> Path:
    """The data directory of a process's journal."""
    return journal.parent.parent
