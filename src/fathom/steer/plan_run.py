"""The next instruction of a run: a pure function of the runbook, the record, what was observed, and the time.

Pending ──> [preconditions, stopIf] ──> Act ──> Acting ──> Acted ──> [expect, stopIf] ──> Done ──> next step
                                                  └─ unknown outcome: Settle (read), never a blind repeat

abort: Undoing, from the last step back to the first
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fathom.kinds import runbook_run
from fathom.kinds.runbook import RunbookCondition, RunbookSpec, RunbookStep, writes
from fathom.kinds.runbook_run import (
    ABORTED,
    ACTED,
    ACTING,
    DONE,
    FAILED,
    PENDING,
    SUCCEEDED,
    UNDOING,
    RunbookRunStatus,
    StepRecord,
)
from fathom.model.times import SECOND_NS, duration_ns, moment_ns
from fathom.steer.conditions import FALSE, TRUE, UNKNOWN, Verdict
from fathom.steer.instructions import (
    AFTER,
    AT_END,
    BEFORE,
    Act,
    Ask,
    Begin,
    Check,
    Conclude,
    Finish,
    Halt,
    Instruction,
    Keep,
    Settle,
    Sleep,
    Stop,
)
from fathom.steer.moves import ENDED, HALTED

POLL_NS = 2 * SECOND_NS  # As often as a person would look; each poll reads a few objects.
LATE_NS_MAX = 15 * SECOND_NS  # A client gives a request up after 10 s; it may arrive a little later.
GAP_NS_MAX = 15 * SECOND_NS  # Two looks further apart do not show that something held in between.


class Observed(msgspec.Struct, frozen=True):
    """What this runner has seen since it began. A runner that takes a run over starts with nothing. Times are
    of a clock that nobody sets."""

    check: Check | None = None  # What the verdicts are of; None: nothing is judged yet.
    verdicts: tuple[Verdict, ...] = ()
    held_since: Mapping[str, int] = {}  # Postcondition -> since when every look found it True.
    looked_ns: int = 0  # When the last verdicts were made.
    unknown_since: int | None = None  # Since when some condition of the present check was Unknown.


NOTHING = Observed()


def observed_now(before: Observed, check: Check, verdicts: tuple[Verdict, ...], looked_ns: int) -> Observed:
    same = before.check is None or (before.check.purpose, before.check.step) == (check.purpose, check.step)
    unknown = any(verdict.value == UNKNOWN for verdict in verdicts)
    since = before.unknown_since if same and before.unknown_since is not None else looked_ns
    # Nobody looked for a while (the machine slept): whether a condition held meanwhile is not known.
    earlier = before.held_since if looked_ns - before.looked_ns <= GAP_NS_MAX else {}
    held = {
        verdict.name: earlier.get(verdict.name, looked_ns)
        for verdict in verdicts
        if check.purpose == AT_END and verdict.value == TRUE
    }
    return Observed(check, verdicts, held, looked_ns, since if unknown else None)


def told(check: Check, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """As people are told: the message of a sign of regression is about its being True."""
    good = len(verdicts) - check.stops
    return (
        *verdicts[:good],
        *(
            msgspec.structs.replace(verdict, message=condition.message if verdict.value == TRUE else "")
            if verdict.value != UNKNOWN
            else verdict
            for condition, verdict in zip(check.conditions[good:], verdicts[good:], strict=True)
        ),
    )


def forgotten(before: Observed) -> Observed:
    """Verdicts are of one moment: after any other instruction conditions are judged again."""
    return msgspec.structs.replace(before, check=None, verdicts=())


def next_instruction(
    content: RunbookSpec, status: RunbookRunStatus, observed: Observed, now_ns: int
) -> Instruction:
    if status.phase in ENDED or status.phase in HALTED:
        return Halt(status.phase)
    if status.phase == UNDOING:
        return _undo(content, status, now_ns)
    for step in content.steps:
        record = record_of(status, step.id)
        if record.state != DONE:
            return _step(Turn(content, status, observed, now_ns), step, record)
    return _postconditions(content, status, observed, now_ns)


def record_of(status: RunbookRunStatus, step: str) -> StepRecord:
    return next((record for record in status.steps if record.id == step), StepRecord(id=step))


def step_of(content: RunbookSpec, id_: str) -> RunbookStep:
    return next(step for step in content.steps if step.id == id_)


# Forward.


class Turn(msgspec.Struct, frozen=True):
    """All that one instruction follows from."""

    content: RunbookSpec
    status: RunbookRunStatus
    observed: Observed
    now_ns: int


def _step(turn: Turn, step: RunbookStep, record: StepRecord) -> Instruction:
    now_ns = turn.now_ns
    if record.state == ACTING:
        waits = _backoff(record, now_ns)
        return waits or Settle(step.id)
    if record.state == PENDING:
        return _backoff(record, now_ns) or _before(turn, step, record)
    if record.state == ACTED:
        return _after(turn, step, record)
    return Stop("StepFailed", f"step {step.id}: {record.message}", step.on_failure == "undo")


def _backoff(record: StepRecord, now_ns: int) -> Sleep | None:
    not_before = moment_ns(record.not_before)
    if not_before is None or not_before <= now_ns:
        return None
    return Sleep(not_before, f"step {record.id} is tried again: {record.message}")


def _before(turn: Turn, step: RunbookStep, record: StepRecord) -> Instruction:
    content, status, observed, now_ns = turn.content, turn.status, turn.observed, turn.now_ns
    stops = watched(content, status, step)
    # Also before a first step that writes nothing: nobody is asked about a run that must not be.
    first = step.id == content.steps[0].id
    needed = preconditions(content, status) if writes(step) or first else ()
    check = Check(BEFORE, step.id, (*needed, *stops), len(stops))
    if observed.check != check:
        return check
    if stop := _stop(stops, observed):
        return stop
    failed = [verdict for verdict in observed.verdicts[: len(needed)] if verdict.value == FALSE]
    if failed:
        return Stop("PreconditionFailed", f"before step {step.id}: {_words(failed[0])}")
    if unknown := [verdict for verdict in observed.verdicts if verdict.value == UNKNOWN]:
        return _until_known(content, observed, unknown[0], now_ns, f"before step {step.id}")
    prompt = step.action.prompt
    if prompt is not None and not record.answer:
        return Ask(step.id, prompt.question)
    if record.answer == "no":
        return Stop("Refused", f"the answer at step {step.id} was no", step.on_failure == "undo")
    return Act(step.id) if writes(step) else Begin(step.id)


def _after(turn: Turn, step: RunbookStep, record: StepRecord) -> Instruction:
    status, observed, now_ns = turn.status, turn.observed, turn.now_ns
    stops = watched(turn.content, status, step)
    check = Check(AFTER, step.id, (*step.expect, *stops), len(stops))
    if observed.check != check:
        return check
    if stop := _stop(stops, observed):
        return stop
    waiting = [verdict for verdict in observed.verdicts[: len(step.expect)] if not verdict.passes]
    unknown = [verdict for verdict in observed.verdicts[len(step.expect) :] if verdict.value == UNKNOWN]
    if not waiting and not unknown:
        return Conclude(step.id)
    since_ns = max(moment_ns(record.acted_at) or 0, moment_ns(status.resumed_at) or 0)
    if now_ns >= since_ns + (duration_ns(step.timeout) or 0):
        why = f"step {step.id} waited {step.timeout}: {_words((waiting or unknown)[0])}"
        return Stop("StepTimedOut", why, step.on_failure == "undo")
    return Sleep(now_ns + POLL_NS, f"step {step.id} waits: {_words((waiting or unknown)[0])}")


def preconditions(content: RunbookSpec, status: RunbookRunStatus) -> tuple[RunbookCondition, ...]:
    """All before the first write; later those that must still hold."""
    records = [record_of(status, step.id) for step in content.steps if writes(step)]
    wrote = any(record.writes or record.state not in (PENDING, FAILED) for record in records)
    return tuple(each for each in content.preconditions if not (wrote and each.once))


def watched(
    content: RunbookSpec, status: RunbookRunStatus, present: RunbookStep
) -> tuple[RunbookCondition, ...]:
    """The stopIf of the run, of the steps so far, and of the present one."""
    begun = [step for step in content.steps if record_of(status, step.id).state in (ACTED, DONE)]
    steps = begun if present in begun else [*begun, present]
    return (*content.stop_if, *(condition for step in steps for condition in step.stop_if))


def _stop(stops: tuple[RunbookCondition, ...], observed: Observed) -> Stop | None:
    start = len(observed.verdicts) - len(stops)
    for condition, verdict in zip(stops, observed.verdicts[start:], strict=True):
        if verdict.value == TRUE:
            words = condition.message or condition.expression
            shown = f" ({verdict.shown})" if verdict.shown else ""
            return Stop("Regression", f"{condition.name}: {words}{shown}", condition.then == "undo")
    return None


def _until_known(
    content: RunbookSpec, observed: Observed, verdict: Verdict, now_ns: int, when: str
) -> Instruction:
    since_ns = observed.looked_ns if observed.unknown_since is None else observed.unknown_since
    if observed.looked_ns - since_ns >= (duration_ns(content.unknown_for) or 0):
        return Stop("ConditionUnknown", f"{when}: {_words(verdict)}")
    return Sleep(now_ns + POLL_NS, f"{when}: {_words(verdict)}")


def _postconditions(
    content: RunbookSpec, status: RunbookRunStatus, observed: Observed, now_ns: int
) -> Instruction:
    check = Check(AT_END, "", content.postconditions)
    if observed.check != check and content.postconditions:
        return check
    short = [
        verdict
        for condition, verdict in zip(content.postconditions, observed.verdicts, strict=True)
        if not _held(condition, observed)
    ]
    if not short:
        return Finish(SUCCEEDED, "Succeeded")
    times = (moment_ns(time) or 0 for time in (_last_end(content, status), status.resumed_at))
    if now_ns >= max(times) + (duration_ns(content.postconditions_within) or 0):
        return Finish(FAILED, "PostconditionFailed", _words(short[0]))
    words = "holds, but not long enough yet" if short[0].passes else _words(short[0])
    return Sleep(now_ns + POLL_NS, f"postcondition {short[0].name}: {words}")


def _held(condition: RunbookCondition, observed: Observed) -> bool:
    since_ns = observed.held_since.get(condition.name)
    return since_ns is not None and observed.looked_ns - since_ns >= (duration_ns(condition.for_) or 0)


def _last_end(content: RunbookSpec, status: RunbookRunStatus) -> str:
    return record_of(status, content.steps[-1].id).ended_at if content.steps else status.started_at


def _words(verdict: Verdict) -> str:
    about = verdict.message or ("does not hold" if verdict.value == FALSE else "")
    shown = f" ({verdict.shown})" if verdict.shown else ""
    return f"{verdict.name} is {verdict.value}{': ' if about else ''}{about}{shown}"


# Back.


def _until_nothing_arrives(step: RunbookStep, record: StepRecord, now_ns: int) -> Sleep | None:
    """1. A create gets no answer, and is repeated. 2. The second is carried out, and undone. 3. The first
    arrives, and makes the object anew. (Late patches and deletes name what they are about and do nothing.)"""
    makes = step.action.create is not None or step.action.apply is not None
    until_ns = (moment_ns(record.acted_at) or 0) + LATE_NS_MAX
    if not makes or record.attempts < 2 or now_ns >= until_ns:
        return None
    return Sleep(until_ns, f"an earlier request of step {step.id} may still arrive")


def _undo(content: RunbookSpec, status: RunbookRunStatus, now_ns: int) -> Instruction:
    failed: list[StepRecord] = []
    for step in reversed(content.steps):
        record = record_of(status, step.id)
        match record.state:
            case runbook_run.ACTING:
                return _backoff(record, now_ns) or Settle(step.id)
            case runbook_run.ACTED | runbook_run.DONE:
                if step.compensation is None:
                    return Keep(step.id)
                return _until_nothing_arrives(step, record, now_ns) or Act(step.id, undo=True)
            case runbook_run.UNDOING:
                return _backoff(record, now_ns) or Settle(step.id, undo=True)
            case runbook_run.UNDO_FAILED:
                if record.attempts < step.retry.attempts:
                    return _backoff(record, now_ns) or Act(step.id, undo=True)
                failed.append(record)
    if failed:
        return Finish(FAILED, "NotUndone", f"step {failed[0].id} could not be undone: {failed[0].message}")
    return Finish(ABORTED, "Undone", "")
