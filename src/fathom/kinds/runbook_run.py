"""RunbookRun: the record of one run of a Runbook. The client that carries the run out writes its status.

The spec never changes: it has a copy of the runbook, its hash, and the values of its parameters. The server
stamps who started the run, and who wrote each step's record and each line of the history.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from fathom.kinds.definition import KindDefinition, Rules, Stamp
from fathom.kinds.runbook import RunbookSpec, spec_causes, spec_hash
from fathom.kinds.schema import REQUIRED, Count, Name, Time, field_schema, one_of
from fathom.kinds.shape import Meta, ObjectRef, Shape
from fathom.kinds.values import items, mapping, stamps
from fathom.model import causes
from fathom.model.column import Column
from fathom.model.errors import Cause
from fathom.model.objects import Obj, lookup

# On what a step wrote: 'RUN_UID/STEP', one for each step of the run that wrote it, separated by commas.
STEP_ANNOTATION = "fathom.dev/runbook-step"

# Phases of a run, and states of a step: `steer/moves.py` has the legal moves.
PENDING, RUNNING, WAITING, STOPPED = "Pending", "Running", "Waiting", "Stopped"
UNDOING, SUCCEEDED, ABORTED, FAILED = "Undoing", "Succeeded", "Aborted", "Failed"
PHASES = (PENDING, RUNNING, WAITING, STOPPED, UNDOING, SUCCEEDED, ABORTED, FAILED)
ACTING, ACTED, DONE, UNDONE, UNDO_FAILED, KEPT = "Acting", "Acted", "Done", "Undone", "UndoFailed", "Kept"
STEP_STATES = (PENDING, ACTING, ACTED, DONE, FAILED, UNDOING, UNDONE, UNDO_FAILED, KEPT)

UNDO = "/undo"  # Ends the identity of a compensation.
HISTORY_LINES_MAX = 200


class PinnedRunbook(Shape, frozen=True):
    name: Annotated[Name, REQUIRED] = ""
    source: Annotated[str, one_of("library", "cluster")] = ""
    version: Count = 1
    hash: Annotated[Name, field_schema("SHA-256 of the spec.", required=True)] = ""


class RunbookRunSpec(Shape, frozen=True):
    runbook: Annotated[PinnedRunbook, REQUIRED] = PinnedRunbook()
    content: Annotated[
        RunbookSpec, field_schema("The runbook, as it was when the run began.", required=True)
    ] = RunbookSpec()
    parameters: dict[str, str] = msgspec.field(default_factory=dict)
    reason: Annotated[str, field_schema("Why the run was started.", maxLength=1024)] = ""


class RecordedVerdict(Shape, frozen=True):
    name: Annotated[str, REQUIRED] = ""
    value: Annotated[str, one_of("True", "False", "Unknown")] = "Unknown"
    shown: Annotated[str, field_schema("The evidence.")] = ""
    message: str = ""
    time: Time = ""


class RecordedWrite(Shape, frozen=True):
    verb: Annotated[str, REQUIRED] = ""
    object: ObjectRef | None = None
    revision: Count = 0
    audit_id: Annotated[str, field_schema("The Audit-Id of the answer; empty where no answer came.")] = ""
    code: Annotated[Count, field_schema("The status code; 0: no answer, so the outcome was read.")] = 0
    time: Time = ""
    undo: bool = False
    message: str = ""


class StepRecord(Shape, frozen=True):
    id: Annotated[Name, REQUIRED] = ""
    state: Annotated[str, one_of(*STEP_STATES)] = PENDING
    attempts: Count = 0
    started_at: Time = ""
    acted_at: Time = ""
    ended_at: Time = ""
    not_before: Time = ""
    object: Annotated[ObjectRef | None, field_schema("What the step wrote, or is about to write.")] = None
    undo_patch: Annotated[
        dict[str, Any] | None, field_schema("The merge patch that puts back the values of before.")
    ] = None
    writes: tuple[RecordedWrite, ...] = ()
    verdicts: tuple[RecordedVerdict, ...] = ()
    answer: Annotated[str, field_schema("To a prompt: yes or no.")] = ""
    message: str = ""
    by: Annotated[str, field_schema("Who wrote this record last. Set by the server.")] = ""


class HistoryLine(Shape, frozen=True):
    time: Time = ""
    text: Annotated[str, REQUIRED] = ""
    by: Annotated[str, field_schema("Set by the server.")] = ""


class RunHolder(Shape, frozen=True):
    """The client that carries the run out. A later epoch takes the run from it."""

    name: str = ""
    epoch: Count = 0
    sequence: Annotated[Count, field_schema("Raised with every write of the record.")] = 0
    renewed_at: Time = ""


class RunbookRunStatus(Shape, frozen=True):
    author: Annotated[str, field_schema("Who started the run. Set by the server.")] = ""
    phase: Annotated[str, one_of(*PHASES)] = PENDING
    reason: Annotated[str, field_schema("Why it is in this phase, in one word.")] = ""
    message: str = ""
    started_at: Time = ""
    resumed_at: Time = ""
    ended_at: Time = ""
    holder: RunHolder = RunHolder()
    steps: Annotated[tuple[StepRecord, ...], field_schema(maxItems=64)] = ()
    preconditions: tuple[RecordedVerdict, ...] = ()
    postconditions: tuple[RecordedVerdict, ...] = ()
    history: tuple[HistoryLine, ...] = ()


class RunbookRun(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[RunbookRunSpec, REQUIRED] = RunbookRunSpec()
    status: RunbookRunStatus = RunbookRunStatus()


def step_identity(run_uid: str, step: str, *, undo: bool = False) -> str:
    """What finds out, by reading, whether a step was done."""
    return f"{run_uid}/{step}{UNDO if undo else ''}"


def identities_on(obj: Obj) -> tuple[str, ...]:
    value = lookup(obj, "metadata", "annotations", STEP_ANNOTATION)
    return tuple(value.split(",")) if isinstance(value, str) and value else ()


def status_at_create(obj: Obj, stamp: Stamp) -> Obj:
    return {"author": stamp.user, "phase": PENDING}


def status_at_status_update(obj: Obj, old: Obj, stamp: Stamp) -> Obj:
    status = mapping(obj.get("status"))
    signed = {
        name: _signed(status[name], lookup(old, "status", name), stamp.user)
        for name in ("steps", "history")
        if isinstance(status.get(name), list)
    }
    return {**status, **signed, **stamps(old, ("author",))}


def _signed(written: list[Any], before: Any, user: str) -> list[Any]:
    """What is new or changed was written by `user`; the rest keeps the name that it has."""
    known = [entry for entry in items(before) if isinstance(entry, dict)]
    return [
        next((old for old in known if _unsigned(old) == _unsigned(entry)), {**entry, "by": user})
        if isinstance(entry, dict)
        else entry
        for entry in written
    ]


def _unsigned(entry: Obj) -> Obj:
    return {name: value for name, value in entry.items() if name != "by"}


def validate(obj: Obj) -> list[Cause]:
    spec = mapping(obj.get("spec"))
    errors = spec_causes(mapping(spec.get("content")), "spec.content")
    try:
        content = msgspec.convert(spec.get("content"), RunbookSpec, strict=False)
    except msgspec.ValidationError:
        return errors  # The schema check says what is wrong.
    pinned = lookup(spec, "runbook", "hash")
    if pinned != spec_hash(content):
        errors.append(causes.invalid("spec.runbook.hash", pinned, "is not the hash of spec.content"))
    return errors


def validate_update(obj: Obj, old: Obj) -> list[Cause]:
    return causes.unchanged("spec", obj.get("spec"), old.get("spec"))


DEFINITION = KindDefinition(
    shape=RunbookRun,
    plural="runbookruns",
    namespaced=True,
    short_names=("rbr",),
    columns=(
        Column("Runbook", "string", ".spec.runbook.name"),
        Column("Phase", "string", ".status.phase"),
        Column("Author", "string", ".status.author"),
        Column("Holder", "string", ".status.holder.name", priority=1),
        Column("Message", "string", ".status.message", priority=1),
    ),
    rules=Rules(
        validate_create=validate,
        validate_update=validate_update,
        status_at_create=status_at_create,
        status_at_status_update=status_at_status_update,
    ),
    view_role_reads=True,
    admin_role_writes=True,
    admin_role_writes_status=True,
)
RUNS = DEFINITION.resource
