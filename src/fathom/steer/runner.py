"""Carries a run out: asks `plan_run` what is next, does it, writes the record, asks again.

The clock, sleeping, telling and answering come from the caller, so that the same code runs for a person at a
terminal and in a simulation. Every state is in the record before its request is sent, and the record is
written only at the revision that was read: a runner whose run was taken over stops at its next write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from fathom.client.api import Api
from fathom.kinds import runbook_run
from fathom.kinds.runbook import RunbookSpec, spec_hash
from fathom.kinds.runbook_run import ACTED, DONE, RunbookRun, RunbookRunStatus, StepRecord, step_identity
from fathom.kinds.shape import read
from fathom.model.errors import ApiError
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS, micro_timestamp, moment_ns
from fathom.steer import run_record
from fathom.steer.actions import Actions, Work, describe, patch_of
from fathom.steer.conditions import Conditions, Facts, Verdict
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
from fathom.steer.observations import observe
from fathom.steer.plan_run import (
    NOTHING,
    Observed,
    forgotten,
    next_instruction,
    observed_now,
    record_of,
    step_of,
    told,
)
from fathom.steer.record_writer import RunLost, RunRecord
from fathom.steer.resources import NoSuchKind, Resources
from fathom.steer.run_record import ActResult, Intention, NotDone, Unsettled
from fathom.steer.templates import Values, filled_struct, filled_text, run_parameters, run_values

RENEW_NS = 10 * SECOND_NS  # How often a runner that only waits says that it is there.
TAKEN_AFTER_NS = 30 * SECOND_NS  # A holder that has said nothing for so long is taken for gone.


class Surroundings(msgspec.Struct, frozen=True):
    """The outside, as the caller provides it."""

    now_ns: Callable[[], int]
    elapsed_ns: Callable[[], int]  # Never set, and goes on while the machine sleeps.
    sleep: Callable[[float], Awaitable[None]]
    tell: Callable[[str], None]  # A line of progress.
    answer: Callable[[str, str], Awaitable[str]]  # (step, question) -> 'yes', 'no', or '': nobody is there.


class Runner:
    """One client's work on one run. Create it with the run as it was read."""

    def __init__(self, api: Api, run: Obj, *, holder: str, around: Surroundings) -> None:
        self._api = api
        self._around = around
        self._holder = holder
        self._record = RunRecord(api, run, now_ns=around.now_ns, sleep=around.sleep)
        self._run = read(RunbookRun, run)
        self._values = run_values(self._run)
        self._conditions = Conditions(self._run.spec.content)
        self._resources = Resources(api)
        self._slept_for = ""  # What was told last: the same wait is told once.

    @property
    def _status(self) -> RunbookRunStatus:
        return self._record.status

    @property
    def _content(self) -> RunbookSpec:
        return self._run.spec.content

    # From outside: start, resume, abort.

    def _check_pinned(self) -> None:
        """What a run does is what its hash names. The server keeps both; a copy that came another way may
        have been changed."""
        pinned = self._run.spec.runbook
        if spec_hash(self._content) != pinned.hash:
            raise RunLost(f"the steps of the run are not those of runbook {pinned.name} with the pinned hash")

    async def start(self) -> RunbookRunStatus:
        self._check_pinned()
        await self._record.write(
            run_record.claimed(self._status, self._holder, self._around.now_ns(), resumes=False)
        )
        return await self._carry_out()

    async def resume(self) -> RunbookRunStatus:
        """A run that is over stays as it is."""
        self._check_pinned()
        if self._status.phase in (runbook_run.SUCCEEDED, runbook_run.ABORTED):
            return self._status
        resumes = self._status.phase != runbook_run.PENDING
        claimed = run_record.claimed(self._status, self._holder, self._around.now_ns(), resumes=resumes)
        await self._record.write(claimed)
        return await self._carry_out()

    async def abort(self, why: str) -> RunbookRunStatus:
        self._check_pinned()
        if self._status.phase == runbook_run.ABORTED:
            return self._status
        await self._record.write(run_record.aborting(self._status, self._holder, why, self._around.now_ns()))
        return await self._carry_out()

    # The loop.

    async def _carry_out(self) -> RunbookRunStatus:
        observed = NOTHING
        while True:
            instruction = next_instruction(self._content, self._status, observed, self._around.now_ns())
            match instruction:
                case Halt():
                    return self._status
                case Check():
                    observed = await self._check(instruction, observed)
                case _:
                    observed = forgotten(observed)
                    await self._do(instruction)

    async def _check(self, check: Check, observed: Observed) -> Observed:
        facts = await self._facts()
        verdicts = told(check, self._conditions.judge(check.conditions, facts))
        looked_ns = self._around.elapsed_ns()
        judged = run_record.judged(self._status, check, verdicts, self._around.now_ns())
        if judged != self._status:
            self._tell_news(check, verdicts)
            await self._record.write(judged)
        return observed_now(observed, check, verdicts, looked_ns)

    async def _do(self, instruction: Instruction) -> None:
        now_ns, status = self._around.now_ns(), self._status
        match instruction:
            case Act(step=step, undo=undo):
                await self._act(step, undo=undo)
            case Settle(step=step, undo=undo):
                await self._settle(step, undo=undo)
            case Begin(step=step):
                self._tell(f"step {step}: {describe(self._action(step))}")
                await self._record.write(run_record.begun(status, step, now_ns))
            case Ask(step=step, question=question):
                await self._ask(step, question)
            case Conclude(step=step):
                self._tell(f"step {step}: done")
                await self._record.write(run_record.concluded(status, step, now_ns))
            case Keep(step=step):
                await self._record.write(run_record.kept(status, step_of(self._content, step), now_ns))
            case Sleep(until_ns=until_ns, why=why):
                await self._sleep(until_ns, why)
            case Stop(reason=reason, message=message, undo=undo):
                self._tell(f"{'undoing the run' if undo else 'stopped'}: {message}")
                await self._record.write(run_record.stopped(status, reason, message, now_ns, undo=undo))
            case Finish(phase=phase, reason=reason, message=message):
                self._tell(f"the run has {phase.lower()}{': ' if message else ''}{message}")
                await self._record.write(run_record.finished(status, phase, reason, message, now_ns))

    # Acting.

    async def _act(self, step: str, *, undo: bool) -> None:
        """The intention first, then the request, then what came of it."""
        work = self._work(step, undo=undo)
        actions = self._actions(work)
        self._tell(f"step {step}: {'undo: ' if undo else ''}{describe(work.action)}")
        try:
            intention = await actions.prepare(work)
        except (ApiError, NoSuchKind) as error:
            again = not isinstance(error, NoSuchKind) and error.code not in (400, 403)
            await self._conclude_unprepared(step, NotDone(str(error), again=again), undo=undo)
            return
        now_ns = self._around.now_ns()
        await self._record.write(run_record.intended(self._status, step, intention, now_ns, undo=undo))
        work = self._work(step, undo=undo)
        try:
            result = await actions.perform(work, micro_timestamp(now_ns))
        except ApiError as error:
            result = Unsettled(error.message)
        await self._record_result(step, result, undo=undo)

    async def _conclude_unprepared(self, step: str, result: NotDone, *, undo: bool) -> None:
        """Nothing was sent: the attempt counts, in one write."""
        now_ns, record = self._around.now_ns(), record_of(self._status, step)
        intention = Intention(record.object, record.undo_patch)
        status = run_record.intended(self._status, step, intention, now_ns, undo=undo)
        self._tell(f"step {step}: {result.message}")
        await self._record.write(run_record.acted(self._content, status, step, result, now_ns, undo=undo))

    async def _settle(self, step: str, *, undo: bool) -> None:
        self._tell(f"step {step}: its outcome is not known; reading")
        work = self._work(step, undo=undo)
        result: ActResult
        try:
            result = await self._actions(work).settle(work)
        except (ApiError, NoSuchKind) as error:
            result = Unsettled(str(error))
        await self._record_result(step, result, undo=undo)

    async def _record_result(self, step: str, result: ActResult, *, undo: bool) -> None:
        if result.message:
            self._tell(f"step {step}: {result.message}")
        now_ns = self._around.now_ns()
        await self._record.write(
            run_record.acted(self._content, self._status, step, result, now_ns, undo=undo)
        )

    def _actions(self, work: Work) -> Actions:
        """Audit entries have the user agent: it names the run and the step."""
        agent = f"fathom runbook {self._run.metadata.name} {work.identity.partition('/')[2]}"
        return Actions(self._api.with_user_agent(agent), self._resources)

    def _work(self, step: str, *, undo: bool) -> Work:
        record: StepRecord = record_of(self._status, step)
        compensation = step_of(self._content, step).compensation
        template = compensation if undo and compensation is not None else step_of(self._content, step).action
        return Work(
            action=filled_struct(template, self._values),
            identity=step_identity(self._run.metadata.uid, step, undo=undo),
            namespace=self._run.metadata.namespace,
            record=record,
            patched=patch_of(self._action(step)) if undo else None,
        )

    def _action(self, step: str) -> Any:
        return filled_struct(step_of(self._content, step).action, self._values)

    # Asking and waiting.

    async def _ask(self, step: str, question: str) -> None:
        question = filled_text(question, self._values)
        answer = await self._around.answer(step, question)
        now_ns = self._around.now_ns()
        if answer:
            await self._record.write(run_record.answered(self._status, step, answer, now_ns))
        else:
            await self._record.write(run_record.waiting(self._status, step, question, now_ns))

    async def _sleep(self, until_ns: int, why: str) -> None:
        """In pieces: whoever sleeps through a long wait is taken for gone."""
        if why != self._slept_for:
            self._tell(why)
            self._slept_for = why
        now_ns = self._around.now_ns()
        if now_ns - self._record.written_ns >= RENEW_NS:
            await self._record.write(run_record.renewed(self._status, now_ns))
        await self._around.sleep(max(0, min(until_ns - now_ns, RENEW_NS)) / SECOND_NS)

    async def _facts(self) -> Facts:
        return await facts_of(self._api, self._resources, self._run, self._status, self._around.now_ns)

    # Telling.

    def _tell(self, line: str) -> None:
        self._around.tell(line)
        self._slept_for = ""

    def _tell_news(self, check: Check, verdicts: tuple[Verdict, ...]) -> None:
        where = f"step {check.step}" if check.step else "postcondition"
        before = record_of(self._status, check.step).verdicts if check.step else self._status.postconditions
        known = {each.name: each.value for each in before}
        for verdict in verdicts:
            if known.get(verdict.name) != verdict.value:
                shown = f" ({verdict.shown})" if verdict.shown else ""
                about = f": {verdict.message}" if verdict.message else ""
                self._around.tell(f"{where}: {verdict.name} is {verdict.value}{shown}{about}")


async def facts_of(
    api: Api,
    resources: Resources,
    run: RunbookRun,
    status: RunbookRunStatus,
    now_ns: Callable[[], int],
) -> Facts:
    """What the conditions of a run are judged by, read now."""
    content, meta = run.spec.content, run.metadata
    values: Values = run_values(run)
    acted = {record.id: record.acted_at for record in status.steps if record.state in (ACTED, DONE)}
    observations = await observe(api, resources, content.inputs, values, acted)
    steps = {record.id: msgspec.to_builtins(record) for record in status.steps}
    about = {
        "name": meta.name,
        "uid": meta.uid,
        "namespace": meta.namespace,
        "startedAt": status.started_at,
    }
    return Facts(now_ns(), run_parameters(run), about, steps, observations)


def is_held(status: RunbookRunStatus, now_ns: int) -> bool:
    """Whether another client seems to be at work on the run."""
    renewed_ns = moment_ns(status.holder.renewed_at)
    working = status.phase in (runbook_run.RUNNING, runbook_run.UNDOING)
    return working and renewed_ns is not None and now_ns - renewed_ns < TAKEN_AFTER_NS
