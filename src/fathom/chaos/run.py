"""One run: an API server, the program, and a schedule of faults; then peace, and what must hold.

server ready ── program started ── objects applied, faults ── healed ── at rest? ── judged
                                   objects deleted, faults ── healed ── at rest? ── judged
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fathom.chaos.cluster import Authority, Cluster
from fathom.chaos.commits import Commits
from fathom.chaos.happened import Happened, Sort
from fathom.chaos.judge import Judge
from fathom.chaos.manifests import Manifests
from fathom.chaos.program import Program, ProgramNotStarted, exit_words
from fathom.chaos.proxy import DROP, EXPIRE, Proxy, ProxyEvents
from fathom.chaos.schedule import OPERATOR, SERVER, Schedule
from fathom.model.audit import AuditEntry
from fathom.model.times import SECOND_NS, moment_ns
from fathom.seams.outside import Clock
from fathom.seams.seam import Ask
from fathom.sim.checkers.operators import Role
from fathom.sim.world import faults as world_faults
from fathom.sim.world.active_faults import ActiveFaults
from fathom.sim.world.faults import AnyFault, CrashAtWrite, StopAtWrite
from fathom.sim.world.invariants import NOBODY_KNOWS, Seen
from fathom.sim.world.violation import Violation

LOOK_S = 0.05
JUDGE_S = 0.25  # Judging reads every object.
FIRST_REQUEST_S = 30.0  # A program that sends nothing for so long has not found its cluster.
FIRST_WRITE_S = 30.0
STARTED_S = 0.5  # A program that sent nothing for so long after its first request has started.
ENDS_MAX = 3  # So often a program may end by itself while nothing goes wrong.
STARTING_MAX_S = 5.0


class RunSettings(msgspec.Struct, frozen=True):
    command: tuple[str, ...]
    manifests: Manifests
    quiet_s: float  # Nothing changed for so long: at rest.
    patience_s: float  # How long after the faults something may still be wrong.


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    schedule: Schedule
    violations: tuple[Violation, ...]
    events: tuple[Happened, ...]
    fired: dict[str, int]  # 'lose-reply POST /api/v1/configmaps' -> how often.
    counted: Mapping[Role, int]  # What the program has made.
    requests: int
    starts: int  # Of the program.
    ready_s: float  # How long the API server took to start.
    seconds: float
    output: Path  # What the program wrote.
    last_lines: tuple[str, ...]


class LiveRun:
    """A FaultHost: `ActiveFaults` asks it for the time, and tells it what happens now."""

    def __init__(
        self,
        settings: RunSettings,
        schedule: Schedule,
        *,
        calm: Mapping[Role, int] | None,
        directory: Path,
        authority: Authority,
        clock: Clock,
    ) -> None:
        """`calm`: what the program makes without faults; None: this is the run that finds out."""
        self._settings = settings
        self._schedule = schedule
        self._is_calm = calm is None
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.began_ns = self.now_ns
        self._began_wall_ns = clock.now_ns()
        self._events: list[Happened] = []
        self._cluster = Cluster(directory, authority)
        self._judge = Judge(calm)
        self._proxy = Proxy(
            self._cluster.server, authority.client, ProxyEvents(self._arrived, self._struck, self._crash)
        )
        self._program: Program | None = None
        self._started_s: list[float] = []  # When the program was started.
        self._requests = 0
        self._last_request_s = 0.0
        self._last_change_s = 0.0
        self._wrote = False  # The program has written something.
        self._met: set[int] = set()  # Revisions of the program's writes that a fault met.
        self._fired: Counter[str] = Counter()
        self._violations: list[Violation] = []
        self._at_heal: list[asyncio.Task[None]] = []  # They end with the faults.
        self._restarting: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None

    # A FaultHost.

    @property
    def now_ns(self) -> int:
        return round(self._loop.time() * SECOND_NS)

    @property
    def now_s(self) -> float:
        return (self.now_ns - self.began_ns) / SECOND_NS

    def at(self, at_ns: int, call: Callable[..., None], /, *args: Any) -> object:
        return self._loop.call_at(at_ns / SECOND_NS, call, *args)

    def state_of(self, process: str) -> str:
        return ""  # Nobody sees into a program of somebody else's.

    def happen(self, fault: AnyFault) -> None:
        match fault:
            case world_faults.DropWatch():
                self._end_watches(fault, DROP, "its watches are cut off")
            case world_faults.Compact():
                self._end_watches(fault, EXPIRE, "its watches end with 410 Gone")
            case world_faults.Crash():
                self._struck(fault, f"is killed, for {fault.for_s:g} s")
                self._kill(fault)
            case world_faults.Stop():
                self._struck(fault, f"is asked to stop (SIGTERM), and has {fault.for_s:g} s to do so")
                self._until_healed(self._running.ask_to_stop(fault.for_s))
            case world_faults.Pause():
                self._struck(fault, f"does not run for {fault.for_s:g} s (SIGSTOP)")
                self._until_healed(self._running.pause(fault.for_s))

    def _end_watches(self, fault: AnyFault, how: str, what: str) -> None:
        concerned = [watch for watch in self._proxy.watches if fault.concerns(OPERATOR, watch.ask)]
        concerned = list(self._proxy.watches) if how == EXPIRE else concerned
        if concerned:
            self._struck(fault, what)
        for watch in concerned:
            watch.end(how)

    def _crash(self, fault: CrashAtWrite) -> None:
        if isinstance(fault, StopAtWrite):
            self._until_healed(self._running.ask_to_stop(fault.for_s))
        else:
            self._kill(fault)

    def _kill(self, fault: AnyFault) -> None:
        if fault.target != SERVER:
            self._until_healed(self._running.kill(fault.for_s))
        elif self._restarting is None or self._restarting.done():
            self._restarting = self._loop.create_task(self._restart_server(fault.for_s))

    async def _restart_server(self, for_s: float) -> None:
        await self._cluster.server.kill()
        await self._proxy.pause(for_s)
        await self._cluster.server.start()
        self._note("process", SERVER, "is ready again")

    def _until_healed(self, work: Coroutine[Any, Any, None]) -> None:
        self._at_heal.append(self._loop.create_task(work))

    @property
    def _running(self) -> Program:
        assert self._program is not None
        return self._program

    # What is noted.

    def _note(self, sort: Sort, who: str, what: str, **more: Any) -> None:
        self._events.append(
            Happened(at_s=more.pop("at_s", self.now_s), sort=sort, who=who, what=what, **more)
        )

    def _operator(self, at_s: float | None = None) -> str:
        starts = sum(started <= (self.now_s if at_s is None else at_s) for started in self._started_s)
        return f"{OPERATOR}#{starts}" if starts > 1 else OPERATOR

    def _struck(self, fault: AnyFault, what: str, *, revision: int = 0, culprit: str = "") -> None:
        who = SERVER if fault.target == SERVER else self._operator()
        self._met.add(revision)
        self._note("fault", who, what, revision=revision, culprit=culprit)

    def _arrived(self, ask: Ask) -> None:
        self._requests += 1
        self._last_request_s = self.now_s
        self._judge.hot_loop.sent(OPERATOR, ask, self.now_s)

    def _told(self, what: str) -> None:
        if what == "starts":
            self._started_s.append(self.now_s)
        self._note("process", self._operator(), what)

    # The run.

    async def run(self) -> RunResult:
        """Raises ProgramNotStarted, ServerNotStarted, person.Refused."""
        began_s, ready_s = self._loop.time(), 0.0
        try:
            await self._cluster.start()
            ready_s = self._loop.time() - began_s
            commits = self._commits = Commits(self._cluster.data)
            self._looking = self._loop.create_task(self._look())
            for obj in self._settings.manifests.before:
                await self._cluster.person.apply(obj)
            await self._start_program()
            self.began_ns, self._began_wall_ns = self.now_ns, self._clock.now_ns()
            self._started_s = [0.0]
            self._last_change_s = 0.0
            await self._all_phases()
            self._read_commits()
            commits.close()
        finally:
            await self._end()
        return self._result(ready_s, self._loop.time() - began_s)

    async def _all_phases(self) -> None:
        schedule = self._schedule
        await self._trouble(schedule.while_applying, self._apply(), schedule.window_s)
        await self._settle(made=True)
        if self._violations or self._is_calm or not self._settings.manifests.during:
            return
        self._note("story", "you", "delete what was applied")
        await self._trouble(schedule.while_deleting, self._delete(), schedule.window_s / 2)
        await self._settle(made=False)

    def _result(self, ready_s: float, seconds: float) -> RunResult:
        return RunResult(
            schedule=self._schedule,
            violations=tuple(self._violations),
            events=tuple(sorted(self._events, key=lambda event: event.at_s)),
            fired=dict(self._fired),
            counted=self._judge.counted,
            requests=self._requests,
            starts=self._running.starts,
            ready_s=ready_s,
            seconds=seconds,
            output=self._running.output,
            last_lines=tuple(self._running.last_lines()),
        )

    async def _start_program(self) -> None:
        """Returns when it has sent its first requests."""
        await self._proxy.start(self._cluster.authority.server)
        variables = self._cluster.variables(self._proxy.url)
        output = self._cluster.directory / "program.log"
        self._program = Program(self._settings.command, variables, output, self._told)
        await self._program.begin()
        if not self._is_calm and not self._settings.manifests.during:
            return  # What it does, it does from its start on: so do the faults.
        deadline_s = self.now_s + FIRST_REQUEST_S
        while not self._requests:
            self._check_program("before it sent a request")
            if self.now_s > deadline_s:
                where = "it must use the kubeconfig that KUBECONFIG names"
                silent = f"{self._settings.command[0]} sent no request within {FIRST_REQUEST_S:g} s: {where}"
                raise ProgramNotStarted(silent, self._running.last_lines())
            await asyncio.sleep(LOOK_S)
        deadline_s = self.now_s + STARTING_MAX_S
        while self.now_s - self._last_request_s < STARTED_S and self.now_s < deadline_s:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)

    def _check_program(self, when: str) -> None:
        if self._running.ends:
            ended = f"{self._settings.command[0]} ended {exit_words(self._running.ends[-1])} {when}"
            raise ProgramNotStarted(ended, self._running.last_lines())

    async def _trouble(
        self, planned: Sequence[AnyFault], story: Coroutine[Any, Any, None], seconds: float
    ) -> None:
        """Let the story happen while the faults are on; then end them all."""
        faults = ActiveFaults(self, planned)
        telling = self._loop.create_task(story)
        if not self._is_calm:
            self._proxy.inject(faults)
            faults.begin()
            await self._unless_broken(seconds)
        await telling
        faults.heal()
        self._proxy.heal()
        for (kind, site), times in faults.fired.items():
            self._fired[f"{kind} {site}".rstrip()] += times
        for task in self._at_heal:
            task.cancel()
        await asyncio.gather(*self._at_heal, return_exceptions=True)
        self._at_heal.clear()
        if self._restarting is not None:
            await self._restarting
        self._note("story", "fathom", "ends all faults")

    async def _unless_broken(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while self.now_s < until_s and not self._violations:  # noqa: ASYNC110 - two reasons, and a clock
            await asyncio.sleep(LOOK_S)

    async def _apply(self) -> None:
        begin_s, documents = self.now_s, self._settings.manifests.during
        for number, step in enumerate(self._schedule.steps):
            await asyncio.sleep(max(0.0, begin_s + step.at_s - self.now_s))
            if step.action == "apply":
                await self._cluster.person.apply(documents[step.document])
            else:
                await self._cluster.person.touch(documents[step.document], number)

    async def _delete(self) -> None:
        seen = set()
        for obj in reversed(self._settings.manifests.during):
            name = (obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"])
            if name not in seen:
                seen.add(name)
                await self._cluster.person.delete(obj)

    async def _settle(self, *, made: bool) -> None:
        """Wait until nothing changes and nothing is wrong; note what is still wrong when patience ends."""
        healed_s, settings = self.now_s, self._settings
        self._judge.hot_loop.forget()
        while not self._violations:
            await asyncio.sleep(JUDGE_S)
            self._check_that_all_is_well()
            waited_s = self.now_s - healed_s
            quiet_s = self.now_s - max(self._last_change_s, healed_s)
            if self._is_calm and not self._wrote:
                self._check_that_it_writes(waited_s)
            elif quiet_s >= settings.quiet_s:
                findings = self._judge.at_rest(self._commits.objects(), self.now_s, made=made)
                if not findings:
                    return
                over = [each for each in findings if waited_s >= each.after_s(settings.patience_s)]
                self._violations += [each.violation for each in over]
            elif waited_s > settings.patience_s:
                self._violations.append(
                    Violation(
                        "converges after the faults stop",
                        f"{self._settings.patience_s:g} s after the last fault objects still change."
                        "\nWhat to do: write only what differs from what is there.",
                        self.now_s,
                    )
                )

    def _check_that_all_is_well(self) -> None:
        """With our own work; and with the program, while nothing goes wrong."""
        if self._looking is not None and self._looking.done():
            self._looking.result()
        if self._is_calm and len(self._running.ends) >= ENDS_MAX:
            self._check_program("again and again, though nothing went wrong")

    def _check_that_it_writes(self, waited_s: float) -> None:
        if waited_s > FIRST_WRITE_S:
            idle = f"{self._settings.command[0]} wrote nothing within {FIRST_WRITE_S:g} s, though nothing"
            advice = "went wrong: give it something to do by --manifest"
            raise ProgramNotStarted(f"{idle} {advice}", self._running.last_lines())

    async def _look(self) -> None:
        while True:
            self._read_commits()
            await asyncio.sleep(LOOK_S)

    def _read_commits(self) -> None:
        for seen, entry in self._commits.new(self.now_s):
            at_s = self._at_s(entry) if entry is not None else seen.at_s
            # Where the audit log has no entry: nobody else writes much, once the program runs.
            by_program = self._program is not None and seen.by in {OPERATOR, NOBODY_KNOWS}
            violation = self._judge.commit(seen, by_program=by_program, at_s=at_s)
            if violation is not None:
                self._violations.append(violation)
            if self._program is not None and not self._judge.is_restless(seen.resource):
                self._last_change_s = self.now_s
                self._wrote = self._wrote or by_program
                self._note_write(seen, at_s)

    def _at_s(self, entry: AuditEntry) -> float:
        return ((moment_ns(entry.time) or 0) - self._began_wall_ns) / SECOND_NS

    def _note_write(self, seen: Seen, at_s: float) -> None:
        verb = "creates" if seen.old is None else "deletes" if seen.new is None else "updates"
        obj = seen.new or seen.old or {}
        kind = str(obj.get("kind") or seen.resource).lower()
        by_program = seen.by == OPERATOR or (seen.by == NOBODY_KNOWS and seen.revision in self._met)
        who = self._operator(at_s) if by_program else self._cluster.words_for(seen.by)
        self._note(
            "write",
            who,
            f"{verb} {kind} {seen.key.name}, at revision {seen.revision}",
            at_s=at_s,
            objects=(seen.path, *self._judge.owners_of(obj)),
            revision=seen.revision,
        )

    async def _end(self) -> None:
        for task in (self._looking, self._restarting, *self._at_heal):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.gather(task, return_exceptions=True)
        if self._program is not None:
            await self._program.end()
        await self._proxy.stop()
        await self._cluster.stop()
