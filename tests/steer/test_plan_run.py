"""The next instruction of a run follows from the runbook, the record, what was observed, and the time."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.kinds.runbook import (
    PatchAction,
    PromptAction,
    RunbookAction,
    RunbookCondition,
    RunbookSpec,
    RunbookStep,
    StepRetry,
    WaitAction,
)
from fathom.kinds.runbook_run import RunbookRunStatus, StepRecord
from fathom.kinds.shape import ObjectRef
from fathom.model.invariant import InvariantBroken
from fathom.model.times import SECOND_NS
from fathom.steer import run_record
from fathom.steer.conditions import Verdict
from fathom.steer.instructions import (
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
from fathom.steer.moves import PHASE_MOVES, STEP_MOVES, check_move
from fathom.steer.plan_run import (
    NOTHING,
    Observed,
    forgotten,
    next_instruction,
    observed_now,
    record_of,
    told,
)
from fathom.steer.run_record import ActResult, Done, Intention, NotDone, Unsettled

T0 = 1_800_000_000 * SECOND_NS
BY_DELETE = RunbookAction(delete=ObjectRef(kind="ConfigMap", name="x"))


def condition(name: str, **fields: object) -> RunbookCondition:
    return msgspec.convert({"name": name, "expression": "true", **fields}, RunbookCondition)


def making(id_: str, **fields: object) -> RunbookStep:
    step = RunbookStep(
        id=id_,
        action=RunbookAction(create={"kind": "ConfigMap", "metadata": {"name": id_}}),
        compensation=BY_DELETE,
    )
    return msgspec.structs.replace(step, **fields)


def judged(instruction: Instruction, observed: Observed, now_ns: int, **values: str) -> Observed:
    """Every condition is as it should be, unless told otherwise."""
    assert isinstance(instruction, Check)
    good = {each.name: "False" if each.name.startswith("stop") else "True" for each in instruction.conditions}
    verdicts = tuple(Verdict(name, values.get(name, value)) for name, value in good.items())
    return observed_now(observed, instruction, verdicts, now_ns)


def first(content: RunbookSpec, status: RunbookRunStatus, now_ns: int = T0, **values: str) -> Instruction:
    """The next instruction after conditions were judged."""
    instruction = next_instruction(content, status, NOTHING, now_ns)
    if not isinstance(instruction, Check):
        return instruction
    return next_instruction(content, status, judged(instruction, NOTHING, now_ns, **values), now_ns)


def running(*records: StepRecord) -> RunbookRunStatus:
    return RunbookRunStatus(phase="Running", steps=records)


BOOK = RunbookSpec(
    preconditions=(condition("symptom", once=True), condition("fresh")),
    stop_if=(condition("stop-errors"),),
    steps=(making("one", stop_if=(condition("stop-one", then="undo"),)), making("two")),
)


def test_preconditions_and_signs_of_regression_are_judged_before_a_step_that_writes() -> None:
    instruction = next_instruction(BOOK, running(), NOTHING, T0)
    assert isinstance(instruction, Check)
    assert [each.name for each in instruction.conditions] == ["symptom", "fresh", "stop-errors", "stop-one"]
    assert first(BOOK, running()) == Act("one")


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({"fresh": "False"}, Stop("PreconditionFailed", "before step one: fresh is False: does not hold")),
        ({"fresh": "Unknown"}, Sleep(T0 + 2 * SECOND_NS, "before step one: fresh is Unknown")),
        ({"stop-errors": "True"}, Stop("Regression", "stop-errors: true")),
        ({"stop-one": "True"}, Stop("Regression", "stop-one: true", undo=True)),
        ({"stop-one": "Unknown"}, Sleep(T0 + 2 * SECOND_NS, "before step one: stop-one is Unknown")),
    ],
)
def test_nothing_is_written_unless_every_condition_is_known_and_good(
    values: dict[str, str], wanted: Instruction
) -> None:
    assert first(BOOK, running(), T0, **values) == wanted


def test_a_condition_that_stays_unknown_stops_the_run() -> None:
    status, now_ns, observed = running(), T0, NOTHING
    for _ in range(100):
        instruction = next_instruction(BOOK, status, observed, now_ns)
        if isinstance(instruction, Check):
            observed = judged(instruction, observed, now_ns, fresh="Unknown")
        elif isinstance(instruction, Sleep):
            now_ns, observed = instruction.until_ns, forgotten(observed)
        else:
            break
    assert instruction == Stop("ConditionUnknown", "before step one: fresh is Unknown")
    assert now_ns - T0 == 60 * SECOND_NS


def test_preconditions_are_checked_again_before_each_step_that_writes_except_those_for_once() -> None:
    status = running(StepRecord(id="one", state="Done"))
    instruction = next_instruction(BOOK, status, NOTHING, T0)
    assert isinstance(instruction, Check)
    assert [each.name for each in instruction.conditions] == ["fresh", "stop-errors", "stop-one"]
    assert first(BOOK, status, fresh="False") == Stop(
        "PreconditionFailed", "before step two: fresh is False: does not hold"
    )


def test_a_step_is_done_when_what_it_expects_holds_and_no_regression_is_possible() -> None:
    content = RunbookSpec(steps=(making("one", expect=(condition("seen"),), stop_if=(condition("stop-a"),)),))
    status = running(StepRecord(id="one", state="Acted", acted_at="2027-01-15T08:00:00Z"))
    assert first(content, status) == Conclude("one")
    waits = Sleep(T0 + 2 * SECOND_NS, "step one waits: seen is Unknown")
    assert first(content, status, seen="Unknown") == waits
    waits = Sleep(T0 + 2 * SECOND_NS, "step one waits: stop-a is Unknown")
    assert first(content, status, T0, **{"stop-a": "Unknown"}) == waits
    late = T0 + 300 * SECOND_NS
    assert first(content, status, late, seen="False") == Stop(
        "StepTimedOut", "step one waited 5m: seen is False: does not hold"
    )
    resumed = msgspec.structs.replace(status, resumed_at="2027-01-15T08:05:00Z")
    assert isinstance(first(content, resumed, late, seen="False"), Sleep)


def test_the_message_of_a_sign_of_regression_is_told_only_if_it_is_true() -> None:
    check = Check("before", "one", (condition("fresh"), condition("stop-a", message="errors rise")), 1)
    fresh = Verdict("fresh", "False", "", "old data")
    for value, message in (("True", "errors rise"), ("False", ""), ("Unknown", "not read")):
        judged_as = Verdict("stop-a", value, "", "not read" if value == "Unknown" else "errors rise")
        assert told(check, (fresh, judged_as)) == (fresh, Verdict("stop-a", value, "", message))


def test_a_person_is_asked_and_no_stops_the_run() -> None:
    step = RunbookStep(id="judge", action=RunbookAction(prompt=PromptAction(question="Go on?")))
    content = RunbookSpec(steps=(step,))
    assert first(content, running()) == Ask("judge", "Go on?")
    book = msgspec.structs.replace(content, preconditions=(condition("fresh"),))
    assert first(book, running(), T0, fresh="False") == Stop(
        "PreconditionFailed", "before step judge: fresh is False: does not hold"
    )
    assert first(content, running(StepRecord(id="judge", answer="yes"))) == Begin("judge")
    assert first(content, running(StepRecord(id="judge", answer="no"))) == Stop(
        "Refused", "the answer at step judge was no"
    )


def test_a_wall_clock_that_is_set_hides_no_gap_and_makes_none() -> None:
    waiting = RunbookStep(id="w", action=RunbookAction(wait=WaitAction()))
    content = RunbookSpec(steps=(waiting,), postconditions=(condition("well", **{"for": "20s"}),))
    status = running(StepRecord(id="w", state="Done", ended_at="2027-01-15T08:00:00Z"))

    def looks(*moments: tuple[int, int]) -> Instruction:
        """Each: by the wall clock, and really, in seconds."""
        observed, instruction = NOTHING, next_instruction(content, status, NOTHING, T0)
        assert isinstance(instruction, Check)
        check = instruction
        for wall_s, real_s in moments:
            observed = judged(check, forgotten(observed), real_s * SECOND_NS)
            instruction = next_instruction(content, status, observed, T0 + wall_s * SECOND_NS)
        return instruction

    assert isinstance(looks((0, 0), (2, 42)), Sleep)
    assert isinstance(looks((0, 0), (2, 2), (42, 4)), Sleep)
    assert looks((0, 0), (-40, 10), (-30, 20)) == Finish("Succeeded", "Succeeded")


def test_postconditions_must_hold_for_their_time_without_a_gap() -> None:
    waiting = RunbookStep(id="w", action=RunbookAction(wait=WaitAction()))
    content = RunbookSpec(steps=(waiting,), postconditions=(condition("well", **{"for": "6s"}),))
    status = running(StepRecord(id="w", state="Done", ended_at="2027-01-15T08:00:00Z"))

    def looks(*values: str) -> Instruction:
        observed, now_ns = NOTHING, T0
        instruction: Instruction = Halt("")
        for value in values:
            check = next_instruction(content, status, forgotten(observed), now_ns)
            observed = judged(check, forgotten(observed), now_ns, well=value)
            instruction = next_instruction(content, status, observed, now_ns)
            now_ns += 2 * SECOND_NS
        return instruction

    assert looks("True", "True", "True", "True") == Finish("Succeeded", "Succeeded")
    assert isinstance(looks("True", "True", "False", "True"), Sleep)
    assert isinstance(looks("True", "True", "Unknown", "True"), Sleep)
    late = T0 + 601 * SECOND_NS
    assert first(content, status, late, well="False") == Finish(
        "Failed", "PostconditionFailed", "well is False: does not hold"
    )


def test_an_unknown_outcome_is_read_and_never_repeated_blindly() -> None:
    assert first(BOOK, running(StepRecord(id="one", state="Acting"))) == Settle("one")
    status = msgspec.structs.replace(running(StepRecord(id="one", state="Acting")), phase="Undoing")
    assert first(BOOK, status) == Settle("one")


def test_an_abort_undoes_from_the_last_step_to_the_first() -> None:
    content = RunbookSpec(steps=(making("one"), making("two", compensation=None), making("three")))
    status = running(*(StepRecord(id=id_, state="Done") for id_ in ("one", "two", "three")))
    status = run_record.aborting(status, "jane", "not needed", T0)
    assert first(content, status) == Act("three", undo=True)
    status = run_record.intended(status, "three", Intention(), T0, undo=True)
    assert first(content, status) == Settle("three", undo=True)
    status = run_record.acted(content, status, "three", Done(None), T0, undo=True)
    assert first(content, status) == Keep("two")
    status = run_record.kept(status, content.steps[1], T0)
    status = run_record.intended(status, "one", Intention(), T0, undo=True)
    status = run_record.acted(content, status, "one", NotDone("forbidden", again=False), T0, undo=True)
    assert first(content, status) == Finish("Failed", "NotUndone", "step one could not be undone: forbidden")


def test_a_refused_step_is_tried_again_later_and_then_fails() -> None:
    content = RunbookSpec(steps=(making("one", retry=StepRetry(attempts=2, backoff="4s")),))
    status = running()
    for wanted in (Sleep(T0 + 4 * SECOND_NS, "step one is tried again: busy"), None):
        status = run_record.intended(status, "one", Intention(), T0, undo=False)
        status = run_record.acted(content, status, "one", NotDone("busy", again=True), T0, undo=False)
        if wanted:
            assert first(content, status) == wanted
    assert first(content, status) == Stop("StepFailed", "step one: busy")
    resumed = run_record.claimed(
        run_record.stopped(status, "StepFailed", "busy", T0, undo=False), "jane", T0, resumes=True
    )
    assert first(content, resumed) == Act("one")


def test_every_other_move_is_a_bug() -> None:
    for table in (PHASE_MOVES, STEP_MOVES):
        for before, afters in table.items():
            for after in table:
                if after in afters or after == before:
                    check_move(table, before, after, "x")
                else:
                    with pytest.raises(InvariantBroken):
                        check_move(table, before, after, "x")


# A crash anywhere.


class ToyWorld:
    """What steps did, by identity. A runner reads the truth, and its requests arrive at once or never."""

    def __init__(self, deaths: list[int]) -> None:
        self.deaths = deaths  # After how many more moves the runner dies, one for each life.
        self.effects: list[tuple[str, bool]] = []
        self.moves = 0

    def tick(self) -> None:
        self.moves += 1
        if self.deaths and self.moves >= self.deaths[0]:
            self.deaths.pop(0)
            self.moves = 0
            raise KeyboardInterrupt


def lived(content: RunbookSpec, world: ToyWorld, stored: list[RunbookRunStatus], *, abort_at: int) -> None:
    """One life of a runner: it may die before and after each write of the record, and around each effect."""

    def write(status: RunbookRunStatus) -> RunbookRunStatus:
        world.tick()
        stored.append(status)
        world.tick()
        return status

    status, observed, now_ns = stored[-1], NOTHING, T0 + len(stored) * SECOND_NS
    if len(stored) >= abort_at and status.phase not in ("Undoing", "Aborted", "Failed"):
        status = write(run_record.aborting(status, "r", "", now_ns))
    elif status.phase not in ("Aborted", "Succeeded", "Failed"):
        resumes = status.phase != "Pending"
        status = write(run_record.claimed(status, "r", now_ns, resumes=resumes))
    for _ in range(200):
        instruction = next_instruction(content, status, observed, now_ns)
        observed = forgotten(observed)
        match instruction:
            case Halt():
                return
            case Check():
                observed = judged(instruction, observed, now_ns)
            case Act(step=step, undo=undo):
                status = write(run_record.intended(status, step, Intention(), now_ns, undo=undo))
                world.effects.append((step, undo))
                world.tick()
                status = write(run_record.acted(content, status, step, Done(None), now_ns, undo=undo))
            case Settle(step=step, undo=undo):
                done = (step, undo) in world.effects
                result: ActResult = Done(None) if done else NotDone("not there", again=True)
                status = write(run_record.acted(content, status, step, result, now_ns, undo=undo))
            case Conclude(step=step):
                status = write(run_record.concluded(status, step, now_ns))
            case Sleep(until_ns=until_ns):
                now_ns = until_ns
            case Finish(phase=phase, reason=reason, message=message):
                status = write(run_record.finished(status, phase, reason, message, now_ns))
            case Stop(reason=reason, message=message, undo=undo):
                status = write(run_record.stopped(status, reason, message, now_ns, undo=undo))
    raise AssertionError("the run does not end")


@given(
    steps=st.integers(1, 4),
    deaths=st.lists(st.integers(1, 20), max_size=6),
    abort_at=st.sampled_from([2, 5, 8, 11, 10_000]),
)
def test_whenever_runners_die_each_step_is_done_at_most_once(
    steps: int, deaths: list[int], abort_at: int
) -> None:
    content = RunbookSpec(steps=tuple(making(f"s{n}", retry=StepRetry(attempts=20)) for n in range(steps)))
    world, stored = ToyWorld(list(deaths)), [RunbookRunStatus()]
    for _ in range(len(deaths) + 2):
        try:
            lived(content, world, stored, abort_at=abort_at)
        except KeyboardInterrupt:
            continue
    forward = [step for step, undo in world.effects if not undo]
    assert forward == [f"s{n}" for n in range(len(forward))]
    undone = [step for step, undo in world.effects if undo]
    phase = stored[-1].phase
    if phase == "Succeeded":
        assert (forward, undone) == ([f"s{n}" for n in range(steps)], [])
    else:
        assert phase == "Aborted"
        assert [step for step in undone if step in forward] == list(reversed(forward))
        assert len(undone) == len(set(undone))


def test_a_read_that_fails_leaves_the_outcome_unknown() -> None:
    status = run_record.intended(running(), "one", Intention(), T0, undo=False)
    status = run_record.acted(BOOK, status, "one", Unsettled("no answer"), T0, undo=False)
    assert record_of(status, "one").state == "Acting"
    assert first(BOOK, status) == Sleep(T0 + 2 * SECOND_NS, "step one is tried again: no answer")
    assert first(BOOK, status, T0 + 2 * SECOND_NS) == Settle("one")


def test_a_patch_is_an_action_that_writes() -> None:
    step = RunbookStep(id="p", action=RunbookAction(patch=PatchAction(ObjectRef(kind="Node", name="n"), {})))
    assert first(RunbookSpec(steps=(step,)), running()) == Act("p")
