"""A run of a runbook, tried in a fork: the code that a person's `fathom runbook run` is, with that person's
rights, in virtual time. Questions are answered with yes.

A fork has no decisions on record and no metrics of processes: conditions about them are left out, and named.
So are the preconditions: they are judged in the live cluster, before the plan is made.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

import msgspec

from fathom.client.api import Api, own_resource
from fathom.client.outcomes import Committed
from fathom.kinds import runbook_run, scheduler_override
from fathom.kinds.preview_answer import Refusal, RunFuture, RunLine, RunStep
from fathom.kinds.runbook import RunbookCondition, RunbookSpec, RunbookStep, spec_hash
from fathom.kinds.runbook_run import RunbookRun
from fathom.kinds.shape import API_VERSION, read
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, lookup, metadata, uid_of
from fathom.model.user import User
from fathom.seams.process import Inside
from fathom.sim.preview.futures import APPROVER, AS_IF_APPROVED, TriedObject, approve
from fathom.sim.world.world import World
from fathom.steer.record_writer import RunLost
from fathom.steer.runner import Runner, Surroundings

RUNS = own_resource(runbook_run.DEFINITION)
OVERRIDES = own_resource(scheduler_override.DEFINITION)
APPROVER_LOOK_S = 2.0
LINES_MAX = 500  # Of its progress, in an answer that is kept.
YES_TO_ALL = "Questions were answered with yes."


class TriedRun:
    """One attempt in one fork."""

    def __init__(self, seed: str, run: Obj, user: User) -> None:
        self._seed = seed
        self._run, self._left_out = run_for_fork(run)
        self._user = user
        self._lines: list[RunLine] = []
        self._ended_s: float | None = None
        self._trouble = ""  # Why the client gave the run up.
        self._approved = False
        self._others: set[str] = set()  # UIDs of overrides that were there before: they wait as they do live.

    # As `futures` asks.

    def begin(self, world: World) -> Refusal | tuple[str, ...]:
        self._others = {uid_of(override) for override in world.list(OVERRIDES.name)}
        made = TriedObject(RUNS, self._run, self._user).begin(world)
        if isinstance(made, Refusal):
            return made
        began_s = world.now_s

        def carry_out(inside: Inside) -> None:
            asyncio.get_running_loop().create_task(self._carry_out(world, inside, began_s))

        world.process("preview-runner", carry_out, account=self._user)
        world.process(APPROVER.name, self._approve_all, account=APPROVER)
        return (YES_TO_ALL, *self._left_out, *made)

    def status(self, world: World) -> Obj:
        obj = world.get(RUNS.name, TriedObject(RUNS, self._run, self._user).key)
        status: Obj = (obj or {}).get("status") or {}
        return status

    # Afterwards.

    def future(self, status: Obj, *, with_lines: bool) -> RunFuture:
        """`status`: of the run, when the fork was counted."""
        return RunFuture(
            seed=self._seed,
            phase=str(status.get("phase") or ""),
            message=self._trouble or str(status.get("message") or ""),
            seconds=self._ended_s,
            steps=tuple(
                RunStep(str(step.get("id")), str(step.get("state") or ""), str(step.get("message") or ""))
                for step in status.get("steps") or ()
            ),
            lines=tuple(self._lines[:LINES_MAX]) if with_lines else (),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return (AS_IF_APPROVED,) if self._approved else ()

    # In the fork.

    async def _carry_out(self, world: World, inside: Inside, began_s: float) -> None:
        api, clock = Api(inside.seam), inside.outside.clock

        def since_s() -> float:
            return round(world.now_s - began_s, 3)

        around = Surroundings(
            now_ns=clock.now_ns,
            elapsed_ns=clock.monotonic_ns,
            sleep=asyncio.sleep,
            tell=lambda line: self._lines.append(RunLine(since_s(), line)),
            answer=_yes,
        )
        meta = metadata(self._run)
        try:
            run = await api.get(RUNS, str(meta.get("namespace") or ""), str(meta["name"]))
            await Runner(api, run or self._run, holder=self._user.name, around=around).start()
        except (ApiError, RunLost) as error:
            self._trouble = str(error)
        self._ended_s = since_s()

    def _approve_all(self, inside: Inside) -> None:
        asyncio.get_running_loop().create_task(self._keep_approving(Api(inside.seam)))

    async def _keep_approving(self, api: Api) -> None:
        """Overrides of the run that need an approval do nothing before it."""
        namespace = str(metadata(self._run).get("namespace") or "")
        while True:
            page = await api.list_page(OVERRIDES, namespace)
            for override in page.items:
                approval = lookup(override, "status", "approval") or {}
                waits = approval.get("required") and not approval.get("approved")
                if waits and uid_of(override) not in self._others:
                    outcome = await approve(api, OVERRIDES, override)
                    self._approved |= isinstance(outcome, Committed)
            await asyncio.sleep(APPROVER_LOOK_S)


async def _yes(step: str, question: str) -> str:
    return "yes"


def run_for_fork(run: Obj) -> tuple[Obj, tuple[str, ...]]:
    """The run without what a fork cannot judge, and what that is. Raises ValueError for what is no run."""
    shape = read(RunbookRun, run)
    content = shape.spec.content
    unread = [
        given.name for given in content.inputs if given.decisions is not None or given.metric is not None
    ]
    judged = _Judged(unread)
    kept = msgspec.structs.replace(
        content,
        preconditions=(),
        stop_if=judged.kept(content.stop_if),
        steps=tuple(map(judged.step, content.steps)),
        postconditions=judged.kept(content.postconditions),
        inputs=tuple(given for given in content.inputs if given.name not in unread),
    )
    notes = (f"Not judged in a fork, which has no records: {', '.join(judged.left_out)}.",)
    return _with_content(shape, kept), notes if judged.left_out else ()


class _Judged:
    """Sorts conditions: by whether they name an input that a fork does not have."""

    def __init__(self, unread: Iterable[str]) -> None:
        self._unread = [re.compile(rf"\b{re.escape(name)}\b") for name in unread]
        self.left_out: dict[str, None] = {}  # Names of conditions, in the order of the runbook.

    def kept(self, conditions: Iterable[RunbookCondition]) -> tuple[RunbookCondition, ...]:
        return tuple(condition for condition in conditions if self._keeps(condition))

    def step(self, step: RunbookStep) -> RunbookStep:
        return msgspec.structs.replace(step, expect=self.kept(step.expect), stop_if=self.kept(step.stop_if))

    def _keeps(self, condition: RunbookCondition) -> bool:
        text = f"{condition.expression} {condition.show}"
        if not any(name.search(text) for name in self._unread):
            return True
        self.left_out[condition.name] = None
        return False


def _with_content(run: RunbookRun, content: RunbookSpec) -> Obj:
    """Pinned anew: the copy in the fork is another runbook."""
    pinned = msgspec.structs.replace(run.spec.runbook, hash=spec_hash(content))
    spec = msgspec.structs.replace(run.spec, runbook=pinned, content=content)
    plain: Obj = msgspec.json.decode(msgspec.json.encode(msgspec.structs.replace(run, spec=spec)))
    return {**plain, "apiVersion": API_VERSION, "kind": runbook_run.DEFINITION.kind}
