"""Open the decision journal of a process that a command runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fathom import data_format
from fathom.cli.problem import Problem
from fathom.private_files import make_directories
from fathom.record.journal import BUDGET_BYTES, DiskJournal
from fathom.record.journals import journal_directory
from fathom.record.kept_windows import KeptWindows
from fathom.record.ring import RingBusy
from fathom.seams.log import Log


@contextmanager
def opened_journal(
    data: Path, process: str, log: Log, *, budget_bytes: int = BUDGET_BYTES
) -> Iterator[DiskJournal]:
    """Raises Problem if another process writes it, or a newer fathom made the directory."""
    try:
        make_directories(data)
        data_format.adopt(data)
        directory, kept = journal_directory(data, process), KeptWindows(data, process)
        journal = DiskJournal(directory, budget_bytes=budget_bytes, log=log, kept=kept)
    except RingBusy as error:
        raise Problem(f"{error}: is this process running already?") from error
    except data_format.UnknownFormat as error:
        raise Problem(str(error)) from error
    try:
        yield journal
    finally:
        journal.close()
