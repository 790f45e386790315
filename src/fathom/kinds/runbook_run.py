"""RunbookRun: the record of one run of a Runbook. The client that carries the run out writes its status.

The spec never changes: it has a copy of the runbook, its hash, and the values of its parameters. The server
stamps who started the run, and who wrote each step's record and each line of the history.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from fathom.kinds.approval import Approval, RequestedThrough, through_causes, with_decision
from fathom.kinds.approval import spec_hash as approval_hash
from fathom.kinds.definition import KindDefinition, Rules, Stamp
from fathom.kinds.runbook import RunbookSpec, spec_hash
from fathom.kinds.runbook_parameters import parameter_causes
from fathom.kinds.runbook_validation import spec_causes
from fathom.kinds.schema import Count, Name, Time, field_schema, one_of
from fathom.kinds.shape import Meta, ObjectRef, Shape
from fathom.kinds.values import items, mapping, stamps, text
from fathom.model import causes
from fathom.model.column import Column
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, lookup

# On what a step wrote: 'RUN_UID/STEP', one for each step of the run that wrote it, separated by commas.
STEP_ANNOTATION = "fathom.dev/runbook-step"

# Phases of a run, and states of a step: `steer/moves.py` has the legal moves.
PENDING, RUNNING, WAITING, STOPPED = "Pending", "Running", "Waiting", "Stopped"
UNDOING, SUCCEEDED, ABORTED, FAILED = "Undoing", "Succeeded", "Aborted", "Failed"
PHASES = (PENDING, RUNNING, WAITING, STOPPED, UNDOING, SUCCEEDED, ABORTED, FAILED)
ACTING, ACTED, DONE, UNDONE, UNDO_FAILED, KEPT = "Acting", "Acted", "Done", "Undone", "UndoFailed", "Kept"
STEP_STATES = (PENDING, ACTING, ACTED, DONE, FAILED, UNDOING, UNDONE, UNDO_FAILED, KEPT)

# Reasons of the phase Pending, of a run that needs approval.
WAITS, REFUSED = "WaitingForApproval", "Refused"
WAITS_MESSAGE = "nobody can carry it out before somebody other than its author approves it"
STAMPED = ("author", "approval")  # Fields of status that only the server writes.

UNDO = "/undo"  # Ends the identity of a compensation.
HISTORY_LINES_MAX = 200


class PinnedRunbook(Shape, frozen=True):
    name: Annotated[Name, field_schema("The name of the runbook.", required=True)] = ""
    source: Annotated[
        str,
        one_of("library", "cluster"),
        field_schema("library: it came with fathom. cluster: it was a Runbook object."),
    ] = ""
    version: Annotated[Count, field_schema("The spec.version of the runbook.")] = 1
    hash: Annotated[
        Name,
        field_schema("SHA-256 of spec.content, in hex. The server refuses any other.", required=True),
    ] = ""


class RunbookRunSpec(Shape, frozen=True):
    runbook: Annotated[
        PinnedRunbook, field_schema("Which runbook is carried out, in which version.", required=True)
    ] = PinnedRunbook()
    content: Annotated[
        RunbookSpec,
        field_schema("The spec of the runbook, as it was when the run began.", required=True),
    ] = RunbookSpec()
    parameters: Annotated[
        dict[str, str],
        field_schema(
            "The value of each parameter of the runbook, by name. Absent: its default, if it has one."
        ),
    ] = msgspec.field(default_factory=dict)
    reason: Annotated[str, field_schema("Why the run was started, for people.", maxLength=1024)] = ""
    requested_through: RequestedThrough = ""


class RecordedVerdict(Shape, frozen=True):
    name: Annotated[str, field_schema("The name of the condition in the runbook.", required=True)] = ""
    value: Annotated[
        str,
        one_of("True", "False", "Unknown"),
        field_schema("Whether it held. Unknown: it needs data that could not be read, or is stale."),
    ] = "Unknown"
    shown: Annotated[
        str, field_schema("The evidence: the value of the condition's show; at most 256 characters.")
    ] = ""
    message: Annotated[str, field_schema("What the value means, or why it is Unknown. May be empty.")] = ""
    time: Annotated[Time, field_schema("Since when it has had this value, as far as the runner saw.")] = ""


class RecordedWrite(Shape, frozen=True):
    verb: Annotated[
        str, field_schema("What was sent: create, apply, patch, delete, scale or restore.", required=True)
    ] = ""
    object: Annotated[ObjectRef | None, field_schema("The object that was written, or was to be.")] = None
    revision: Annotated[
        Count, field_schema("The resourceVersion that the write made. 0: it was refused, or no answer came.")
    ] = 0
    audit_id: Annotated[str, field_schema("The Audit-Id of the answer; empty where no answer came.")] = ""
    code: Annotated[
        Count,
        field_schema(
            "The HTTP status code, with 200 for every success; 0: no answer, so the outcome was read."
        ),
    ] = 0
    time: Annotated[Time, field_schema("When it was sent.")] = ""
    undo: Annotated[bool, field_schema("Whether it was part of undoing the step.")] = False
    message: Annotated[str, field_schema("Why the API server refused it. Empty: it did not.")] = ""


class StepRecord(Shape, frozen=True):
    id: Annotated[Name, field_schema("The id of the step in the runbook.", required=True)] = ""
    state: Annotated[
        str,
        one_of(*STEP_STATES),
        field_schema(
            "Pending: not begun, or to be tried again. Acting, Undoing: the outcome of a write is not known."
            " Acted: the action was done, and expect is awaited. Kept: not undone, as nothing undoes it."
        ),
    ] = PENDING
    attempts: Annotated[
        Count, field_schema("How often its action was tried, or its compensation while the run is undone.")
    ] = 0
    started_at: Annotated[Time, field_schema("When the step was first tried.")] = ""
    acted_at: Annotated[Time, field_schema("When its action was done, or last tried.")] = ""
    ended_at: Annotated[Time, field_schema("When it was done, failed, undone or kept.")] = ""
    not_before: Annotated[Time, field_schema("It is not tried again before. Absent: it does not wait.")] = ""
    object: Annotated[ObjectRef | None, field_schema("What the step wrote, or is about to write.")] = None
    undo_patch: Annotated[
        dict[str, Any] | None,
        field_schema(
            "The merge patch that puts back the values of before. Absent: the object did not exist, or the"
            " step changes none."
        ),
    ] = None
    writes: Annotated[
        tuple[RecordedWrite, ...],
        field_schema("Its requests to the API server, the newest last; at most 32."),
    ] = ()
    verdicts: Annotated[
        tuple[RecordedVerdict, ...],
        field_schema("The conditions that were judged before and after its action, as last seen."),
    ] = ()
    answer: Annotated[str, field_schema("To a prompt: yes or no. Empty: not answered.")] = ""
    message: Annotated[str, field_schema("What came of the last try, for people. May be empty.")] = ""
    by: Annotated[str, field_schema("Who wrote this record last. Set by the server.")] = ""


class HistoryLine(Shape, frozen=True):
    time: Annotated[Time, field_schema("When it happened.")] = ""
    text: Annotated[str, field_schema("What happened, for people.", required=True)] = ""
    by: Annotated[str, field_schema("The user who wrote the line. Set by the server.")] = ""


class RunHolder(Shape, frozen=True):
    name: Annotated[str, field_schema("User and machine of the client, such as jane@laptop.")] = ""
    epoch: Annotated[
        Count, field_schema("Raised by each client that takes the run: the one before stops then.")
    ] = 0
    sequence: Annotated[Count, field_schema("Raised with every write of the record.")] = 0
    renewed_at: Annotated[
        Time,
        field_schema(
            "When the client last wrote. Until 30 s later the run is taken over only with --take-over."
        ),
    ] = ""


class RunbookRunStatus(Shape, frozen=True):
    author: Annotated[str, field_schema("Who started the run. Set by the server.")] = ""
    approval: Annotated[
        Approval | None,
        field_schema(
            "The decision of a second person, before which nobody can carry the run out. Absent: the run"
            " needs none. The server sets all but approved."
        ),
    ] = None
    phase: Annotated[
        str,
        one_of(*PHASES),
        field_schema(
            "Waiting: for an answer to a prompt. Stopped: a person must look, and resume or abort it."
            " Aborted: all of it was undone. Failed: a postcondition does not hold, or a step could not be"
            " undone."
        ),
    ] = PENDING
    reason: Annotated[
        str, field_schema("Why it is in this phase, in one word, such as PreconditionFailed. May be empty.")
    ] = ""
    message: Annotated[str, field_schema("Why it is in this phase, for people. May be empty.")] = ""
    started_at: Annotated[Time, field_schema("When the run was started.")] = ""
    resumed_at: Annotated[
        Time, field_schema("When it was last resumed: timeouts count from then. Absent: never.")
    ] = ""
    ended_at: Annotated[
        Time, field_schema("When it succeeded, failed or was undone. Absent: it has not ended.")
    ] = ""
    holder: Annotated[RunHolder, field_schema("The client that carries the run out.")] = RunHolder()
    steps: Annotated[
        tuple[StepRecord, ...],
        field_schema("The record of each step that was begun or judged.", maxItems=64),
    ] = ()
    preconditions: Annotated[
        tuple[RecordedVerdict, ...],
        field_schema("The preconditions, as they were judged before the first write."),
    ] = ()
    postconditions: Annotated[
        tuple[RecordedVerdict, ...], field_schema("The postconditions, as last judged.")
    ] = ()
    history: Annotated[
        tuple[HistoryLine, ...], field_schema("What happened to the run, the newest last; at most 200 lines.")
    ] = ()


class RunbookRun(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[
        RunbookRunSpec,
        field_schema(
            "What is carried out. `fathom runbook run` writes it once; it never changes.", required=True
        ),
    ] = RunbookRunSpec()
    status: Annotated[
        RunbookRunStatus,
        field_schema("How far the run is, with evidence. The client that carries it out writes it."),
    ] = RunbookRunStatus()


def step_identity(run_uid: str, step: str, *, undo: bool = False) -> str:
    """What finds out, by reading, whether a step was done."""
    return f"{run_uid}/{step}{UNDO if undo else ''}"


def identities_on(obj: Obj) -> tuple[str, ...]:
    value = lookup(obj, "metadata", "annotations", STEP_ANNOTATION)
    return tuple(value.split(",")) if isinstance(value, str) and value else ()


def status_at_create(obj: Obj, stamp: Stamp) -> Obj:
    """What a program asks for in somebody's name waits until somebody else has approved it."""
    status = {"author": stamp.user, "phase": PENDING}
    if not text(lookup(obj, "spec", "requestedThrough")):
        return status
    people = [person for person in (stamp.user, stamp.impersonator) if person]
    asked = {
        "required": True,
        "specHash": run_hash(obj),
        "requestedAt": stamp.now,
        "requestedBy": people,
    }
    return {**status, "reason": WAITS, "message": WAITS_MESSAGE, "approval": asked}


def status_at_approval(obj: Obj, old: Obj, stamp: Stamp) -> Obj:
    """`approved` is taken from the request, and the hash of the spec that its sender has seen, if the request
    has one: admission refuses another spec's."""
    status = mapping(old.get("status"))
    before, approved = mapping(status.get("approval")), lookup(obj, "status", "approval", "approved")
    if not before.get("required"):
        return {**status}
    seen_hash = text(lookup(obj, "status", "approval", "specHash")) or run_hash(old)
    decided = with_decision(before, approved, stamp, hash_field="specHash", spec_hash=seen_hash)
    decided["specHash"] = seen_hash
    explanation = {} if approved is True else {"reason": WAITS, "message": WAITS_MESSAGE}
    if approved is False:
        explanation = {"reason": REFUSED, "message": f"refused by {stamp.user}"}
    kept = {name: value for name, value in status.items() if name not in {"reason", "message"}}
    return {**kept, **explanation, "approval": decided}


def run_hash(obj: Obj) -> str:
    """The hash of the run's spec: an approval is bound to it."""
    return approval_hash(mapping(obj.get("spec")))


def may_be_carried_out(run: RunbookRun) -> bool:
    """Whether it needs no approval, or somebody has approved it."""
    asked = run.status.approval
    return asked is None or not asked.required or asked.approved is True


def status_at_status_update(obj: Obj, old: Obj, stamp: Stamp) -> Obj:
    status = mapping(obj.get("status"))
    signed = {
        name: _signed(status[name], lookup(old, "status", name), stamp.user)
        for name in ("steps", "history")
        if isinstance(status.get(name), list)
    }
    unstamped = {name: value for name, value in status.items() if name not in STAMPED}
    return {**unstamped, **signed, **stamps(old, STAMPED)}


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
    errors: list[Cause] = Causes()
    errors += [*through_causes(spec), *spec_causes(mapping(spec.get("content")), "spec.content")]
    try:
        content = msgspec.convert(spec.get("content"), RunbookSpec, strict=False)
    except msgspec.ValidationError:
        return errors  # The schema check says what is wrong.
    pinned = lookup(spec, "runbook", "hash")
    if pinned != spec_hash(content):
        errors.append(causes.invalid("spec.runbook.hash", pinned, "is not the hash of spec.content"))
    given = {name: text(value) for name, value in mapping(spec.get("parameters")).items()}
    errors += parameter_causes(text(lookup(spec, "runbook", "name")), content, given)
    return errors


def validate_update(obj: Obj, old: Obj) -> list[Cause]:
    return causes.unchanged("spec", obj.get("spec"), old.get("spec"))


DEFINITION = KindDefinition(
    shape=RunbookRun,
    about="The record of one run of a Runbook: who did which step when, with evidence. `fathom runbook run`"
    " creates it, `resume` and `abort` go on with it.",
    plural="runbookruns",
    namespaced=True,
    approval=True,
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
        status_at_approval=status_at_approval,
    ),
    view_role_reads=True,
    admin_role_writes=True,
    admin_role_writes_status=True,
)
RUNS = DEFINITION.resource
