"""The record of a run after each thing that happened. Pure: a status in, a status out, by legal moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fathom.kinds.runbook import RunbookSpec, RunbookStep
from fathom.kinds.runbook_run import (
    ABORTED,
    ACTED,
    ACTING,
    DONE,
    FAILED,
    HISTORY_LINES_MAX,
    KEPT,
    PENDING,
    RUNNING,
    STOPPED,
    UNDO_FAILED,
    UNDOING,
    UNDONE,
    WAITING,
    HistoryLine,
    RecordedVerdict,
    RecordedWrite,
    RunbookRunStatus,
    RunHolder,
    StepRecord,
)
from fathom.kinds.shape import ObjectRef
from fathom.model.backoff import Backoff
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS, duration_ns, micro_timestamp, moment_ns
from fathom.steer.conditions import Verdict
from fathom.steer.instructions import AT_END, BEFORE, Check
from fathom.steer.moves import ENDED, PHASE_MOVES, STEP_MOVES, check_move
from fathom.steer.plan_run import LATE_NS_MAX, record_of, step_of

BACKOFF_S_MAX = 60.0
WRITES_MAX = 32  # Of one step: attempts and compensation together. The audit log has all.


class Intention(msgspec.Struct, frozen=True):
    """What a step is about to write, read before it is written."""

    object: ObjectRef | None = None
    undo_patch: Obj | None = None


class Done(msgspec.Struct, frozen=True):
    """It was done; `write` is None where a read found it."""

    object: ObjectRef | None
    write: RecordedWrite | None = None
    message: str = ""


class NotDone(msgspec.Struct, frozen=True):
    """It was surely not done. `again`: another attempt may help."""

    message: str
    again: bool
    write: RecordedWrite | None = None


class Unsettled(msgspec.Struct, frozen=True):
    """Nobody knows yet whether it was done."""

    message: str
    write: RecordedWrite | None = None


ActResult = Done | NotDone | Unsettled


# The run.


def claimed(status: RunbookRunStatus, holder: str, now_ns: int, *, resumes: bool) -> RunbookRunStatus:
    """Taken by a client. A run that is resumed goes on: failed steps are tried again, and the times that
    steps and postconditions may take begin anew."""
    now = micro_timestamp(now_ns)
    taken = RunHolder(name=holder, epoch=status.holder.epoch + 1, renewed_at=now)
    status = msgspec.structs.replace(status, holder=taken)
    if not resumes:
        return _phase(status, RUNNING, "", "", now_ns, started_at=now, text=f"{holder} starts the run")
    if status.phase == UNDOING:
        return _told(status, f"{holder} goes on undoing the run", now)
    steps = tuple(_tried_again(record) for record in status.steps)
    status = msgspec.structs.replace(status, steps=steps)
    started = status.started_at or now
    text = f"{holder} resumes the run ({status.phase})"
    return _phase(status, RUNNING, "", "", now_ns, resumed_at=now, started_at=started, ended_at="", text=text)


def _tried_again(record: StepRecord) -> StepRecord:
    if record.state == FAILED:
        return _moved(record, PENDING, attempts=0, not_before="")
    refused = record.state == PENDING and record.answer == "no"
    return msgspec.structs.replace(record, answer="") if refused else record


def aborting(status: RunbookRunStatus, holder: str, why: str, now_ns: int) -> RunbookRunStatus:
    """A person wants the run undone. Compensations that failed are tried again."""
    now = micro_timestamp(now_ns)
    taken = RunHolder(name=holder, epoch=status.holder.epoch + 1, renewed_at=now)
    steps = tuple(
        msgspec.structs.replace(record, attempts=0, not_before="") if record.state == UNDO_FAILED else record
        for record in status.steps
    )
    status = msgspec.structs.replace(status, holder=taken, steps=steps)
    text = f"{holder} aborts the run{': ' if why else ''}{why}"
    return _phase(status, UNDOING, "Aborted", why, now_ns, ended_at="", text=text)


def stopped(
    status: RunbookRunStatus, reason: str, message: str, now_ns: int, *, undo: bool
) -> RunbookRunStatus:
    phase = UNDOING if undo else STOPPED
    return _phase(status, phase, reason, message, now_ns, text=f"{phase.lower()}: {message}")


def waiting(status: RunbookRunStatus, step: str, question: str, now_ns: int) -> RunbookRunStatus:
    text = f"step {step} waits for an answer: {question}"
    return _phase(status, WAITING, "AnswerNeeded", text, now_ns, text=text)


def finished(
    status: RunbookRunStatus, phase: str, reason: str, message: str, now_ns: int
) -> RunbookRunStatus:
    now = micro_timestamp(now_ns)
    # Why a run was undone is worth more than that it was.
    keeps = phase == ABORTED and status.reason
    reason, message = (status.reason, status.message) if keeps else (reason, message)
    text = f"{phase.lower()}{': ' if message else ''}{message}"
    return _phase(status, phase, reason, message, now_ns, ended_at=now, text=text)


def renewed(status: RunbookRunStatus, now_ns: int) -> RunbookRunStatus:
    holder = msgspec.structs.replace(status.holder, renewed_at=micro_timestamp(now_ns))
    return msgspec.structs.replace(status, holder=holder)


def _phase(
    status: RunbookRunStatus, phase: str, reason: str, message: str, now_ns: int, *, text: str, **changes: Any
) -> RunbookRunStatus:
    check_move(PHASE_MOVES, status.phase, phase, "run")
    status = msgspec.structs.replace(status, phase=phase, reason=reason, message=message, **changes)
    return _told(status, text, micro_timestamp(now_ns))


def _told(status: RunbookRunStatus, text: str, time: str) -> RunbookRunStatus:
    history = (*status.history, HistoryLine(time=time, text=text))[-HISTORY_LINES_MAX:]
    return msgspec.structs.replace(status, history=history)


# Steps.


def intended(
    status: RunbookRunStatus, id_: str, intention: Intention, now_ns: int, *, undo: bool
) -> RunbookRunStatus:
    """Written before the request is sent: from now on the outcome is unknown until it is recorded."""
    record, now = record_of(status, id_), micro_timestamp(now_ns)
    if undo:
        attempts = record.attempts + 1 if record.state == UNDO_FAILED else 1
        return _with(status, _moved(record, UNDOING, attempts=attempts, not_before=""))
    return _with(
        status,
        _moved(
            record,
            ACTING,
            attempts=record.attempts + 1,
            started_at=record.started_at or now,
            acted_at=now,
            not_before="",
            object=intention.object,
            undo_patch=intention.undo_patch,
        ),
    )


def begun(status: RunbookRunStatus, id_: str, now_ns: int) -> RunbookRunStatus:
    record, now = record_of(status, id_), micro_timestamp(now_ns)
    return _with(status, _moved(record, ACTED, started_at=record.started_at or now, acted_at=now))


def answered(status: RunbookRunStatus, id_: str, answer: str, now_ns: int) -> RunbookRunStatus:
    record = msgspec.structs.replace(record_of(status, id_), answer=answer)
    return _told(_with(status, record), f"step {id_} was answered: {answer}", micro_timestamp(now_ns))


def acted(
    content: RunbookSpec, status: RunbookRunStatus, id_: str, result: ActResult, now_ns: int, *, undo: bool
) -> RunbookRunStatus:
    record, step = record_of(status, id_), step_of(content, id_)
    if result.write is not None:
        record = msgspec.structs.replace(record, writes=(*record.writes, result.write)[-WRITES_MAX:])
    if undo:
        return _with(status, _undone(record, step, result, now_ns))
    if isinstance(result, NotDone) and status.phase == UNDOING and step.compensation is not None:
        result = _not_found(record, result, now_ns)
    return _with(status, _forward(record, step, result, now_ns))


def _not_found(record: StepRecord, result: NotDone, now_ns: int) -> ActResult:
    """A run is undone while the outcome of a step is unknown, and a read does not find the step done. Its
    request may still arrive: wait for that, then run the compensation all the same."""
    if now_ns < (moment_ns(record.acted_at) or 0) + LATE_NS_MAX:
        return Unsettled(f"{result.message}; its request may still arrive")
    return Done(record.object, None, f"not found: {result.message}")


def _forward(record: StepRecord, step: RunbookStep, result: ActResult, now_ns: int) -> StepRecord:
    now = micro_timestamp(now_ns)
    if isinstance(result, Done):
        return _moved(
            record,
            ACTED,
            object=result.object or record.object,
            acted_at=now,
            not_before="",
            message=result.message,
        )
    again = _retry_time(record, step, now_ns)
    if isinstance(result, Unsettled):
        return msgspec.structs.replace(record, message=result.message, not_before=again)
    if result.again and record.attempts < step.retry.attempts:
        return _moved(record, PENDING, message=result.message, not_before=again)
    return _moved(record, FAILED, message=result.message, ended_at=now)


def _undone(record: StepRecord, step: RunbookStep, result: ActResult, now_ns: int) -> StepRecord:
    now, again = micro_timestamp(now_ns), _retry_time(record, step, now_ns)
    if isinstance(result, Done):
        return _moved(record, UNDONE, message=result.message, ended_at=now, not_before="")
    if isinstance(result, Unsettled):
        return msgspec.structs.replace(record, message=result.message, not_before=again)
    attempts = record.attempts if result.again else step.retry.attempts
    return _moved(record, UNDO_FAILED, message=result.message, not_before=again, attempts=attempts)


def _retry_time(record: StepRecord, step: RunbookStep, now_ns: int) -> str:
    first_s = (duration_ns(step.retry.backoff) or 0) / SECOND_NS
    wait_s = Backoff(first_s, max(first_s, BACKOFF_S_MAX)).whole_s(record.attempts)
    return micro_timestamp(now_ns + int(wait_s * SECOND_NS))


def concluded(status: RunbookRunStatus, id_: str, now_ns: int) -> RunbookRunStatus:
    return _with(status, _moved(record_of(status, id_), DONE, ended_at=micro_timestamp(now_ns)))


def kept(status: RunbookRunStatus, step: RunbookStep, now_ns: int) -> RunbookRunStatus:
    why = "nothing to undo" if step.reversible else "it cannot be undone"
    record = _moved(record_of(status, step.id), KEPT, message=why, ended_at=micro_timestamp(now_ns))
    return _with(status, record)


def judged(
    status: RunbookRunStatus, check: Check, verdicts: tuple[Verdict, ...], now_ns: int
) -> RunbookRunStatus:
    """The evidence, as last seen. Times of verdicts that say the same stay: only news is written."""
    if check.purpose == AT_END:
        seen = _recorded(status.postconditions, verdicts, now_ns)
        return msgspec.structs.replace(status, postconditions=seen)
    record = record_of(status, check.step)
    status = _with(status, _evidence(record, verdicts, now_ns))
    needed = verdicts[: len(verdicts) - check.stops]
    if check.purpose == BEFORE and not any(each.writes or each.object for each in status.steps):
        return msgspec.structs.replace(status, preconditions=_recorded(status.preconditions, needed, now_ns))
    return status


def _evidence(record: StepRecord, verdicts: tuple[Verdict, ...], now_ns: int) -> StepRecord:
    return msgspec.structs.replace(record, verdicts=_recorded(record.verdicts, verdicts, now_ns))


def _recorded(
    before: tuple[RecordedVerdict, ...], verdicts: tuple[Verdict, ...], now_ns: int
) -> tuple[RecordedVerdict, ...]:
    """What was judged earlier stays: preconditions beside what is expected now."""
    known = {each.name: each for each in before}
    now, names = micro_timestamp(now_ns), {verdict.name for verdict in verdicts}
    earlier = (each for each in before if each.name not in names)
    return (*earlier, *_news(known, verdicts, now))


def _news(
    known: Mapping[str, RecordedVerdict], verdicts: tuple[Verdict, ...], now: str
) -> tuple[RecordedVerdict, ...]:
    return tuple(
        known[verdict.name]
        if verdict.name in known and known[verdict.name].value == verdict.value
        else RecordedVerdict(
            name=verdict.name, value=verdict.value, shown=verdict.shown, message=verdict.message, time=now
        )
        for verdict in verdicts
    )


def _moved(record: StepRecord, state: str, **changes: Any) -> StepRecord:
    check_move(STEP_MOVES, record.state, state, f"step {record.id} ({record.message or 'no message'})")
    return msgspec.structs.replace(record, state=state, **changes)


def _with(status: RunbookRunStatus, record: StepRecord) -> RunbookRunStatus:
    known = [each.id for each in status.steps]
    steps = tuple(record if each.id == record.id else each for each in status.steps)
    return msgspec.structs.replace(status, steps=steps if record.id in known else (*steps, record))


def has_ended(status: RunbookRunStatus) -> bool:
    return status.phase in ENDED
