"""The legal moves of a run and of a step: two tables. Any other move is a bug.

A step that writes is recorded as Acting before its request is sent, so a record that reads Acting means: the
outcome is unknown, look before anything else. Undoing means the same of a compensation.
"""

from __future__ import annotations

from fathom.kinds.runbook_run import (
    ABORTED,
    ACTED,
    ACTING,
    DONE,
    FAILED,
    KEPT,
    PENDING,
    RUNNING,
    STOPPED,
    SUCCEEDED,
    UNDO_FAILED,
    UNDOING,
    UNDONE,
    WAITING,
)
from fathom.model.invariant import InvariantBroken

# Phase of a run -> the phases that may follow. An abort is possible from every phase but Aborted.
PHASE_MOVES: dict[str, tuple[str, ...]] = {
    PENDING: (RUNNING, UNDOING),
    RUNNING: (WAITING, STOPPED, UNDOING, SUCCEEDED, FAILED),
    WAITING: (RUNNING, UNDOING),
    STOPPED: (RUNNING, UNDOING),
    UNDOING: (ABORTED, FAILED),
    SUCCEEDED: (UNDOING,),
    FAILED: (RUNNING, UNDOING),
    ABORTED: (),
}
# State of a step -> the states that may follow.
STEP_MOVES: dict[str, tuple[str, ...]] = {
    PENDING: (ACTING, ACTED, FAILED),  # Acted at once: a step that writes nothing.
    ACTING: (ACTED, PENDING, FAILED, UNDOING),  # Pending: it was surely not done, and is tried again.
    ACTED: (DONE, UNDOING, KEPT),
    DONE: (UNDOING, KEPT),
    FAILED: (PENDING,),  # A person resumes the run.
    UNDOING: (UNDONE, UNDO_FAILED),
    UNDO_FAILED: (UNDOING,),
    UNDONE: (),
    KEPT: (),
}
ENDED = (SUCCEEDED, ABORTED, FAILED)
# A person must do something first.
HALTED = (WAITING, STOPPED)


def check_move(table: dict[str, tuple[str, ...]], before: str, after: str, story: str) -> None:
    if after != before and after not in table[before]:
        raise InvariantBroken(f"{story}: no move leads from {before} to {after}")
