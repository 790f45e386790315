"""World: the API that scenarios are written in, for tests of a control plane.

    @scenario(Menu(processes=("mirror",)))
    async def a_create_whose_answer_is_lost(world: World) -> None:
        "It happens once."
        world.process("mirror", mirror)
        await world.apply(CONFIG_MAPS, config_map("source"))
        await world.heal_and_settle()
        assert len(world.list("configmaps", "default")) == 2

The scenario runs as a process of the world: it waits in virtual time and talks to the API as `driver`; no
fault touches it. Reads (`get`, `list`) read the store itself, not a cache.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fathom.client.api import Api, Resource
from fathom.client.outcomes import Committed, Outcome, Rejected
from fathom.model.conditions import is_true
from fathom.model.objects import Key, Obj, metadata
from fathom.model.resources import DEFINITIONS
from fathom.model.times import SECOND_NS
from fathom.model.user import User
from fathom.seams.process import Entry, Inside
from fathom.sim.world.active_faults import DRIVER
from fathom.sim.world.engine import Engine
from fathom.sim.world.faults import HoldWatch, StaleServer
from fathom.sim.world.invariants import Checker, Finding, Seen, seen, standard
from fathom.sim.world.process import SimProcess
from fathom.sim.world.store_link import at_once
from fathom.sim.world.violation import Broken, Violation
from fathom.store.protocol import Change

# Keys that change for ever; `settle` ignores them.
RESTLESS = ("/registry/leases.coordination.k8s.io/", "/registry/events/", "/fathom/")

# Longer than a server takes to start; faults begin only after that.
READY_S = 60.0

# Servers accept the scenario's own requests within this time, or it fails; with these codes it fails at once.
TRIES_S = 600.0
MALFORMED = frozenset({400, 405, 413, 415, 422})

POLL_S = 0.1
PATIENCE_S = 5.0


Ending = list[BaseException | None]  # Of a scenario: empty until it has ended.


class World:
    """A cluster in virtual time, and all that a scenario can do to it. docs/simulation.md has it by subject.

    Scenarios may use `scale`, `rng` and `checkers`; `engine` is for tests of the world itself. A scenario
    gets its world from `@scenario` or from the pytest fixture `world`."""

    def __init__(
        self,
        engine: Engine,
        *,
        servers: int = 1,
        checkers: Sequence[Checker] = (),
        scale: int = 1,
        is_disturbed: bool = False,
    ) -> None:
        """`is_disturbed`: there are faults that are not the scenario's own."""
        self.engine = engine
        self._is_disturbed = is_disturbed
        self.scale = scale  # How many objects the scenario creates; shrinking lowers it.
        self.checkers: tuple[Checker, ...] = (*standard(), *checkers)
        self._by_resource: dict[str, tuple[Checker, ...]] = {}  # Those that see its commits.
        self.hits: dict[str, int] = {}  # `sometimes`: what happened at least once.
        self.rng: random.Random = engine.streams.stream("workload")
        self.servers = [engine.add_server(f"api-{n + 1}", alone=servers == 1) for n in range(servers)]
        self.initial: dict[str, Obj] = {}  # The store's objects when the scenario began, for a kept run.
        self._driver: SimProcess | None = None
        self._moved_ns = 0  # When something other than a heartbeat was last committed.
        engine.watchers.append(self._check)
        self._begin_checkers()

    def _begin_checkers(self) -> None:
        try:
            for checker in self.checkers:
                checker.begin(self)
        except Exception as error:  # As at a commit: it ends the run, and not the exploration.
            self.engine.checker_raised(error)

    def add_checker(self, checker: Checker) -> None:
        """A checker that needs something of the scenario. Add it before what it is about happens."""
        self.checkers = (*self.checkers, checker)
        self._by_resource.clear()
        checker.begin(self)

    # Processes.

    def process(
        self, name: str, entry: Entry, *, server: int = 1, account: User | None = None, **options: object
    ) -> SimProcess:
        """Start a process. `entry` is called at the start and after every crash, as for a live process; its
        return value is `state(name)`. `account`: the user of its requests, with that user's rights and
        under its fence; without one it may do everything."""
        process = self.engine.add(name, entry, server=f"api-{server}", account=account, **options)
        self.engine.after(0, process.start)
        return process

    def state(self, name: str) -> object:
        """What the entry of a process returned at its last start: to read, not to change."""
        return self.engine.processes[name].state

    def crash(self, name: str, *, restart_after_s: float = 0.0) -> None:
        """End the process between two inputs, without warning; restart it. Only the store remains."""
        self.engine.crash(self.engine.processes[name], restart_after_s)

    def kill(self, name: str) -> None:
        """Crash the process; it never restarts."""
        self.engine.crash(self.engine.processes[name], None)

    def stop(self, name: str, *, grace_s: float = 5.0) -> None:
        """Signal the process to stop, and start it again after the grace period."""
        self.engine.stop(self.engine.processes[name], grace_s)

    def pause(self, name: str, for_s: float) -> None:
        """The process does not run, but its clock does; its inputs wait until it goes on."""
        self.engine.pause(self.engine.processes[name], for_s)

    def deafen(self, name: str, match: str, *, for_s: float) -> None:
        """Delay the watch events of a kind ('/pods') to a process for a while."""
        fault = HoldWatch(at_s=self.now_s, target=name, match=match, for_s=for_s)
        self.engine.faults.hold_now(fault)

    def delay_server(self, name: str, *, for_s: float) -> None:
        """An API server gets no watch events from the store for a while, and answers from its old cache."""
        self.engine.faults.hold_now(StaleServer(at_s=self.now_s, target=name, for_s=for_s))

    def happening(self, name: str, work: Callable[[], object]) -> None:
        """Define what a `Happening` fault of that name does; it can come at any moment."""
        self.engine.happenings[name] = work

    def soon(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Start a coroutine in the scenario's own process, from a happening for example."""
        assert self._driver is not None
        self._driver.call(0, lambda: asyncio.get_running_loop().create_task(work()))

    # Actions of the scenario.

    @property
    def api(self) -> Api:
        """A client of the first server, for requests other than `apply` and `delete`."""
        assert self._driver is not None
        return Api(self._driver.seam)

    @property
    def now_s(self) -> float:
        """Seconds since the scenario began."""
        return self.engine.since_s

    async def apply(self, resource: Resource, obj: Obj, namespace: str = "default") -> Obj:
        """Create the object, or patch the existing one to this spec. Retries until it is committed; a
        malformed request ends the scenario."""
        name = str(metadata(obj)["name"])
        where = namespace if resource.namespaced else ""
        until_s = self.now_s + TRIES_S
        while True:
            outcome = await self._put(resource, where, obj, self.get(resource.name, Key(where, name)))
            if isinstance(outcome, Committed):
                return outcome.obj
            hopeless = isinstance(outcome, Rejected) and outcome.code in MALFORMED
            if hopeless or self.now_s > until_s:
                self.broken(
                    "the API accepts the scenario's own requests", f"{resource.name} {name}: {outcome}"
                )
            await asyncio.sleep(0.2)

    async def _put(self, resource: Resource, namespace: str, obj: Obj, existing: Obj | None) -> Outcome:
        if existing is None:
            return await self.api.create(resource, namespace, obj)
        meta = {field: metadata(obj)[field] for field in ("labels", "annotations") if field in metadata(obj)}
        patch = {name: value for name, value in obj.items() if name not in {"status", "metadata"}}
        return await self.api.patch(
            resource, namespace, str(metadata(obj)["name"]), {**patch, "metadata": meta}
        )

    async def define(self, definition: Obj) -> None:
        """Apply a CustomResourceDefinition and wait until its kind is served."""
        await self.apply(DEFINITIONS, definition)
        key = Key("", str(metadata(definition)["name"]))
        await self.until(
            lambda: is_true(self.get(DEFINITIONS.name, key) or {}, "Established"),
            within_s=READY_S,
            what=f"{key.name} is served",
        )

    async def delete(self, resource: Resource, name: str, namespace: str = "default") -> None:
        """Delete the object and wait until it is gone; a later one of the same name is left alone."""
        key = Key(namespace if resource.namespaced else "", name)
        existing = self.get(resource.name, key)
        uid = metadata(existing)["uid"] if existing is not None else ""
        while existing is not None and metadata(existing)["uid"] == uid:
            await self.api.delete(resource, key.namespace, name, uid=uid)
            await asyncio.sleep(0.2)
            existing = self.get(resource.name, key)

    async def sleep(self, seconds: float) -> None:
        """Sleep in virtual time: it costs nothing by itself."""
        await asyncio.sleep(seconds)

    async def until(self, check: Callable[[], bool], *, within_s: float, what: str) -> None:
        """Liveness: wait until `check` is true. A violation if it is not in time. Faults may make it late: if
        there are any that the scenario did not ask for, they end then, and it has the same time again."""
        await self._until(lambda: 0.0 if check() else POLL_S, within_s=within_s, what=what)

    async def _until(self, left_s: Callable[[], float], *, within_s: float, what: str) -> None:
        """`left_s`: how long until it can be true at the earliest; 0 when it is true."""
        if await _is_true_within(within_s, left_s):
            return
        if self._is_disturbed and not self.engine.faults.healed:
            self.heal()
            self.sometimes("what took long is waited for without faults")
            if await _is_true_within(within_s, left_s):
                return
        self.broken("liveness", f"{what}: not within {within_s:g} s")

    @asynccontextmanager
    async def held(self, match: str, *, process: str = "*") -> AsyncIterator[None]:
        """Hold requests whose "METHOD path" contains `match` before the server until the block ends."""
        gate = self.engine.network.hold(process, match)
        try:
            yield
        finally:
            self.engine.network.release(gate)

    def heal(self) -> None:
        """End all faults: every process runs, with a correct clock and a working network. But connections
        that went dead stay dead: the processes at their ends must notice."""
        self.engine.heal()

    async def settle(self, *, quiet_s: float = 15.0, within_s: float = 300.0) -> None:
        """Wait until nothing but heartbeats has been written for a while. Then check everything that must be
        true at rest; some of it has more time to become true (`Checker.patience_s`)."""
        quiet_since_s: float | None = None
        quiet_ns = round(quiet_s * SECOND_NS)
        while True:
            await self._until(
                lambda: max(0, self._moved_ns + quiet_ns - self.engine.now_ns) / SECOND_NS,
                within_s=within_s,
                what="the world comes to rest",
            )
            quiet_since_s = self.now_s if quiet_since_s is None else quiet_since_s
            if self._is_settled(self.now_s - quiet_since_s):
                for checker in self.checkers:
                    await checker.rested(self)
                return
            await asyncio.sleep(PATIENCE_S)

    def _is_settled(self, quiet_for_s: float) -> bool:
        """While a checker with a finding has patience left, no checker's finding counts: a controller whose
        cache is behind without knowing it has nothing to do yet."""
        findings = [(checker, problem) for checker in self.checkers for problem in checker.settled(self)]
        if any(quiet_for_s < checker.patience_s for checker, _ in findings):
            return False
        for checker, problem in findings:
            self.broken(checker.name, problem)
        return not findings

    async def heal_and_settle(self, **options: float) -> None:
        """The end of most scenarios: safety was checked all along, now comes liveness."""
        self.heal()
        await self.settle(**options)

    # Reads of the store.

    def get(self, resource: str, key: Key) -> Obj | None:
        """Read from the store. `resource` is 'pods', 'deployments.apps', `Resource.name`."""
        path = f"{key.namespace}/{key.name}" if key.namespace else key.name
        entry = at_once(self.engine.store.get(f"/registry/{resource}/{path}"))
        return None if entry is None else entry.body.obj_at(entry.revision)

    def list(self, resource: str, namespace: str = "") -> list[Obj]:
        """Read from the store, in the order of names; without a namespace, of all namespaces."""
        prefix = f"/registry/{resource}/{namespace}/" if namespace else f"/registry/{resource}/"
        page = at_once(self.engine.store.range(prefix))
        return [entry.body.obj_at(entry.revision) for entry in page.entries]

    def sometimes(self, what: str) -> None:
        """Record that a rare path was taken: an exploration that never takes it does not test it."""
        self.hits[what] = self.hits.get(what, 0) + 1

    def broken(self, invariant: str, problem: str | Finding, *objects: str) -> None:
        """Report a broken invariant. Ends the scenario."""
        raise Broken(self._violation(invariant, problem, *objects))

    def _violation(self, invariant: str, problem: str | Finding, *objects: str) -> Violation:
        if isinstance(problem, Finding):
            return Violation(invariant, problem.message, self.now_s, (*problem.objects, *objects))
        return Violation(invariant, problem, self.now_s, objects)

    def _check(self, changes: tuple[Change, ...]) -> None:
        engine, by, at_s = self.engine, self.engine.committer, self.engine.since_s
        assert by is not None
        for change in changes:
            shown = seen(change, by, at_s)
            if not change.key.startswith(RESTLESS) and not _is_heartbeat(shown):
                self._moved_ns = engine.now_ns
            if shown is None:
                continue
            for checker in self._concerned(shown.resource):
                problem = checker.commit(shown)
                if problem is not None:
                    objects = () if isinstance(problem, Finding) else (shown.path,)
                    engine.broken(self._violation(checker.name, problem, *objects))

    def _concerned(self, resource: str) -> tuple[Checker, ...]:
        checkers = self._by_resource.get(resource)
        if checkers is None:
            checkers = tuple(checker for checker in self.checkers if checker.concerns(resource))
            self._by_resource[resource] = checkers
        return checkers

    # Running the scenario.

    def tell(self, story: Callable[[World], Awaitable[None]], *, deadline_s: float) -> None:
        """Start the servers, then the scenario. Raises what the scenario or a checker raises; a broken
        invariant is in `engine.violation`."""
        engine = self.engine
        ended = self.start(story)
        engine.run(until_s=engine.began_ns / SECOND_NS + deadline_s)
        if engine.error is not None:
            raise engine.error
        engine.check_what_is_shared()
        if not ended and engine.violation is None:
            engine.broken(self._violation("liveness", f"the scenario did not end within {deadline_s:g} s"))
        if ended and ended[0] is not None:
            raise ended[0]
        if engine.violation is None:
            self._check_ended()

    def _check_ended(self) -> None:
        for checker in self.checkers:
            for problem in checker.ended(self):
                self.engine.broken(self._violation(checker.name, problem))
                return

    def start(self, story: Callable[[World], Awaitable[None]]) -> Ending:
        """Start the servers, then the scenario; then the engine runs it. The world halts when the scenario is
        over; its ending is what it raised, or None."""
        ended: Ending = []

        async def run_story() -> None:
            try:
                await story(self)
                ended.append(None)
            except BaseException as error:  # Whatever it is, it is the run's outcome.
                ended.append(error)
            self.engine.halt()

        def entry(inside: Inside) -> None:
            asyncio.get_running_loop().create_task(run_story())

        self._driver = self.engine.add(DRIVER, entry, server="api-1")
        self._begin()
        self._driver.start()
        return ended

    def _begin(self) -> None:
        """Servers first; the scenario begins at a whole second, so that its times read well."""
        engine = self.engine
        for server in self.servers:
            server.start()
        while not all(server.state.ready for server in self.servers):
            engine.run(until_s=READY_S)
            if engine.error is not None:
                raise engine.error
            if engine.violation is not None or engine.now_ns >= READY_S * SECOND_NS:
                raise RuntimeError(f"the API servers did not start: {engine.violation}")
        whole_s = -(-engine.now_ns // SECOND_NS)
        engine.run(until_s=whole_s)
        engine.began_ns = engine.now_ns
        if engine.trace.log is not None:
            page = at_once(engine.store.range("/"))
            self.initial = {entry.key: entry.body.obj_at(entry.revision) for entry in page.entries}
        engine.faults.begin()


def _is_heartbeat(change: Seen | None) -> bool:
    """A node update that changes no field of spec or status but `lastHeartbeatTime`."""
    if change is None or change.resource != "nodes" or change.old is None or change.new is None:
        return False
    before, after = change.old.get("spec"), change.new.get("spec")
    return before == after and _without_beats(change.old) == _without_beats(change.new)


def _without_beats(node: Obj) -> Obj:
    status = node.get("status") or {}
    conditions = [
        {name: value for name, value in condition.items() if name != "lastHeartbeatTime"}
        for condition in status.get("conditions") or ()
    ]
    return {**status, "conditions": conditions}


async def _is_true_within(within_s: float, left_s: Callable[[], float]) -> bool:
    try:
        async with asyncio.timeout(within_s):
            while pause_s := left_s():  # noqa: ASYNC110 - the truth has no event to wait for
                await asyncio.sleep(pause_s)
    except TimeoutError:
        return False
    return True
