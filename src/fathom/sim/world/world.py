"""A world to write scenarios in: what a test of a control plane wants to say, in its own words.

    @scenario(Menu(processes=("mirror",)))
    async def a_create_whose_answer_is_lost(world: World) -> None:
        "It happens once."
        world.process("mirror", mirror)
        await world.apply(CONFIG_MAPS, config_map("source"))
        await world.heal_and_settle()
        assert len(world.list("configmaps", "default")) == 2

The story runs as a process of the world: it waits in virtual time and talks to the API as `driver`; no fault
touches it. Reads (`get`, `list`) look at the store itself: the truth, not a cache.
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
from fathom.model.times import SECOND_NS
from fathom.model.user import User
from fathom.seams.process import Entry, Inside
from fathom.sim.world.active_faults import DRIVER
from fathom.sim.world.engine import Engine
from fathom.sim.world.faults import HoldWatch
from fathom.sim.world.invariants import Checker, Finding, Seen, seen, standard
from fathom.sim.world.process import SimProcess
from fathom.sim.world.store_link import at_once
from fathom.sim.world.violation import Broken, Violation
from fathom.store.protocol import Change

DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)

# Changes that never stop, and say nothing about whether the world has come to rest.
RESTLESS = ("/registry/leases.coordination.k8s.io/", "/registry/events/", "/fathom/")

# Longer than a server takes to start with every fault still to come.
READY_S = 60.0

# What the story asks for itself is taken within this time, or is wrong; these are wrong at once.
TRIES_S = 600.0
MALFORMED = frozenset({400, 405, 413, 415, 422})

POLL_S = 0.1
PATIENCE_S = 5.0


Ending = list[BaseException | None]  # Of a story: empty until it has one.


class World:
    """A cluster in virtual time, and all that a story can do with it. docs/simulation.md has it by subject.

    `scale`, `rng` and `checkers` are a story's to use; `engine` is what is underneath, for tests of the world
    itself. A story is given its world by `@scenario` or by the pytest fixture `world`."""

    def __init__(
        self, engine: Engine, *, servers: int = 1, checkers: Sequence[Checker] = (), scale: int = 1
    ) -> None:
        self.engine = engine
        self.scale = scale  # How much of everything the story makes; shrinking makes it less.
        self.checkers: tuple[Checker, ...] = (*standard(), *checkers)
        self._by_resource: dict[str, tuple[Checker, ...]] = {}  # Of those, who wants to see its commits.
        self.hits: dict[str, int] = {}  # `sometimes`: what happened at least once.
        self.rng: random.Random = engine.streams.stream("workload")
        self.servers = [engine.add_server(f"api-{n + 1}", alone=servers == 1) for n in range(servers)]
        self.initial: dict[str, Obj] = {}  # What the store held when the story began, where the run is kept.
        self._driver: SimProcess | None = None
        self._moved_ns = 0  # When something other than a heartbeat was last committed.
        engine.watchers.append(self._check)
        for checker in self.checkers:
            checker.begin(self)

    # Processes.

    def process(
        self, name: str, entry: Entry, *, server: int = 1, account: User | None = None, **options: object
    ) -> SimProcess:
        """A process that lives from now on. `entry` makes its code, anew after every crash, as it does for a
        live process; what it returns is `state(name)`. `account`: as whom it asks, with that account's rights
        and under its fence; without one it may do everything."""
        process = self.engine.add(name, entry, server=f"api-{server}", account=account, **options)
        self.engine.after(0, process.start)
        return process

    def state(self, name: str) -> object:
        """What the entry of a process returned when it last started: to look into, not to change."""
        return self.engine.processes[name].state

    def crash(self, name: str, *, restart_after_s: float = 0.0) -> None:
        """It is gone between two inputs, without a word; then it starts again with nothing but the store."""
        self.engine.crash(self.engine.processes[name], restart_after_s)

    def kill(self, name: str) -> None:
        """For good."""
        self.engine.crash(self.engine.processes[name], None)

    def stop(self, name: str, *, grace_s: float = 5.0) -> None:
        """Ask it to end, and start it again when its time is up."""
        self.engine.stop(self.engine.processes[name], grace_s)

    def pause(self, name: str, for_s: float) -> None:
        """It does not run, but its clock does; what comes meanwhile waits for it."""
        self.engine.pause(self.engine.processes[name], for_s)

    def deafen(self, name: str, match: str, *, for_s: float) -> None:
        """What the watches of a process say about a kind ('/pods') is held back for a while."""
        fault = HoldWatch(at_s=self.now_s, target=name, match=match, for_s=for_s)
        self.engine.faults.hold_now(fault)

    def happening(self, name: str, work: Callable[[], object]) -> None:
        """What a `Happening` of that name does: faults can make it come at any moment."""
        self.engine.happenings[name] = work

    def soon(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Begin something in the story's own process, from a happening for example."""
        assert self._driver is not None
        self._driver.call(0, lambda: asyncio.get_running_loop().create_task(work()))

    # What the story does.

    @property
    def api(self) -> Api:
        """A client of the first server, for what `apply` and `delete` cannot say."""
        assert self._driver is not None
        return Api(self._driver.seam)

    @property
    def now_s(self) -> float:
        """Seconds since the story began."""
        return self.engine.since_s

    async def apply(self, resource: Resource, obj: Obj, namespace: str = "default") -> Obj:
        """Create it, or bring what is there to this spec. Tries until it is so; what no server will ever take
        ends the story."""
        name = str(metadata(obj)["name"])
        where = namespace if resource.namespaced else ""
        until_s = self.now_s + TRIES_S
        while True:
            outcome = await self._put(resource, where, obj, self.get(resource.name, Key(where, name)))
            if isinstance(outcome, Committed):
                return outcome.obj
            hopeless = isinstance(outcome, Rejected) and outcome.code in MALFORMED
            if hopeless or self.now_s > until_s:
                self.broken("the story's own requests are taken", f"{resource.name} {name}: {outcome}")
            await asyncio.sleep(0.2)

    async def _put(self, resource: Resource, namespace: str, obj: Obj, there: Obj | None) -> Outcome:
        if there is None:
            return await self.api.create(resource, namespace, obj)
        meta = {field: metadata(obj)[field] for field in ("labels", "annotations") if field in metadata(obj)}
        patch = {name: value for name, value in obj.items() if name not in {"status", "metadata"}}
        return await self.api.patch(
            resource, namespace, str(metadata(obj)["name"]), {**patch, "metadata": meta}
        )

    async def define(self, definition: Obj) -> None:
        """A kind of one's own, from its CustomResourceDefinition: until it is served."""
        await self.apply(DEFINITIONS, definition)
        key = Key("", str(metadata(definition)["name"]))
        await self.until(
            lambda: is_true(self.get(DEFINITIONS.name, key) or {}, "Established"),
            within_s=READY_S,
            what=f"{key.name} is served",
        )

    async def delete(self, resource: Resource, name: str, namespace: str = "default") -> None:
        """Until this very object is gone; a namesake that comes later is left alone."""
        key = Key(namespace if resource.namespaced else "", name)
        there = self.get(resource.name, key)
        uid = metadata(there)["uid"] if there is not None else ""
        while there is not None and metadata(there)["uid"] == uid:
            await self.api.delete(resource, key.namespace, name, uid=uid)
            await asyncio.sleep(0.2)
            there = self.get(resource.name, key)

    async def sleep(self, seconds: float) -> None:
        """Of virtual time: it costs nothing by itself."""
        await asyncio.sleep(seconds)

    async def until(self, check: Callable[[], bool], *, within_s: float, what: str) -> None:
        """Liveness: it comes to be so. Broken if it does not in time."""
        await self._until(lambda: 0.0 if check() else POLL_S, within_s=within_s, what=what)

    async def _until(self, left_s: Callable[[], float], *, within_s: float, what: str) -> None:
        """`left_s`: for how long to look away, because it cannot be so any sooner; nought when it is so."""
        try:
            async with asyncio.timeout(within_s):
                while pause_s := left_s():  # noqa: ASYNC110 - the truth has no event to wait for
                    await asyncio.sleep(pause_s)
        except TimeoutError:
            self.broken("liveness", f"{what}: not within {within_s:g} s")

    @asynccontextmanager
    async def held(self, match: str, *, process: str = "*") -> AsyncIterator[None]:
        """Requests whose "METHOD path" contains `match` wait at the door until the block ends."""
        gate = self.engine.network.hold(process, match)
        try:
            yield
        finally:
            self.engine.network.release(gate)

    def heal(self) -> None:
        """No fault from now on; everybody is up, awake, on time and within reach. But connections that went
        dead stay so: it is for those who hold them to notice."""
        self.engine.heal()

    async def settle(self, *, quiet_s: float = 15.0, within_s: float = 300.0) -> None:
        """Until nothing but heartbeats has been written for a while. Then everything that must be true at
        rest is looked at; some of it has more time to become true (`Checker.patience_s`)."""
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
                return
            await asyncio.sleep(PATIENCE_S)

    def _is_settled(self, quiet_for_s: float) -> bool:
        """While somebody has time left to notice something, nobody else is judged: a controller whose cache
        is behind without knowing it has nothing to do yet."""
        found = [(checker, problem) for checker in self.checkers for problem in checker.settled(self)]
        if any(quiet_for_s < checker.patience_s for checker, _ in found):
            return False
        for checker, problem in found:
            self.broken(checker.name, problem)
        return not found

    async def heal_and_settle(self, **options: float) -> None:
        """The end of most stories: safety was looked at all along, now comes liveness."""
        self.heal()
        await self.settle(**options)

    # What is true.

    def get(self, resource: str, key: Key) -> Obj | None:
        """From the store. `resource` is 'pods', 'deployments.apps', `Resource.name`."""
        path = f"{key.namespace}/{key.name}" if key.namespace else key.name
        entry = at_once(self.engine.store.get(f"/registry/{resource}/{path}"))
        return None if entry is None else entry.body.obj_at(entry.revision)

    def list(self, resource: str, namespace: str = "") -> list[Obj]:
        """From the store, in the order of names; without a namespace, of all of them."""
        prefix = f"/registry/{resource}/{namespace}/" if namespace else f"/registry/{resource}/"
        page = at_once(self.engine.store.range(prefix))
        return [entry.body.obj_at(entry.revision) for entry in page.entries]

    def sometimes(self, what: str) -> None:
        """Say that a rare path was taken: an exploration that never takes it is not looking there."""
        self.hits[what] = self.hits.get(what, 0) + 1

    def broken(self, invariant: str, found: str | Finding, *objects: str) -> None:
        """Say that something is not as it must be. Ends the story."""
        raise Broken(self._violation(invariant, found, *objects))

    def _violation(self, invariant: str, found: str | Finding, *objects: str) -> Violation:
        if isinstance(found, Finding):
            return Violation(invariant, found.message, self.now_s, (*found.objects, *objects))
        return Violation(invariant, found, self.now_s, objects)

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
                found = checker.commit(shown)
                if found is not None:
                    objects = () if isinstance(found, Finding) else (shown.path,)
                    engine.broken(self._violation(checker.name, found, *objects))

    def _concerned(self, resource: str) -> tuple[Checker, ...]:
        found = self._by_resource.get(resource)
        if found is None:
            found = tuple(one for one in self.checkers if one.concerns(resource))
            self._by_resource[resource] = found
        return found

    # How it runs.

    def tell(self, story: Callable[[World], Awaitable[None]], *, deadline_s: float) -> None:
        """Start everybody, then the story. Raises what the story raises, and what checkers raise; what was
        found to be broken is `engine.violation`."""
        engine = self.engine
        ended = self.start(story)
        engine.run(until_s=engine.began_ns / SECOND_NS + deadline_s)
        if engine.error is not None:
            raise engine.error
        engine.check_what_is_shared()
        if not ended and engine.violation is None:
            engine.broken(self._violation("liveness", f"the story did not end within {deadline_s:g} s"))
        if ended and ended[0] is not None:
            raise ended[0]

    def start(self, story: Callable[[World], Awaitable[None]]) -> Ending:
        """Servers, then the story; from now on the engine runs it. The world halts when it is over, and what
        it raised, or None, is its ending."""
        ended: Ending = []

        async def told() -> None:
            try:
                await story(self)
                ended.append(None)
            except BaseException as error:  # It is the run's outcome, whatever it is.
                ended.append(error)
            self.engine.halt()

        def entry(inside: Inside) -> None:
            asyncio.get_running_loop().create_task(told())

        self._driver = self.engine.add(DRIVER, entry, server="api-1")
        self._begin()
        self._driver.start()
        return ended

    def _begin(self) -> None:
        """Servers first; the story begins at a whole second, so that its times read well."""
        engine = self.engine
        for server in self.servers:
            server.start()
        while not all(server.state.ready for server in self.servers):
            engine.run(until_s=READY_S)
            if engine.error is not None:
                raise engine.error
            if engine.violation is not None or engine.now_ns >= READY_S * SECOND_NS:
                raise RuntimeError(f"the servers did not start: {engine.violation}")
        whole_s = -(-engine.now_ns // SECOND_NS)
        engine.run(until_s=whole_s)
        engine.began_ns = engine.now_ns
        if engine.trace.log is not None:
            page = at_once(engine.store.range("/"))
            self.initial = {entry.key: entry.body.obj_at(entry.revision) for entry in page.entries}
        engine.faults.begin()


def _is_heartbeat(change: Seen | None) -> bool:
    """A node that says once more what it said before."""
    if change is None or change.resource != "nodes" or change.old is None or change.new is None:
        return False
    before, after = change.old.get("spec"), change.new.get("spec")
    return before == after and _without_beats(change.old) == _without_beats(change.new)


def _without_beats(node: Obj) -> Obj:
    status = node.get("status") or {}
    told = [
        {name: value for name, value in each.items() if name != "lastHeartbeatTime"}
        for each in status.get("conditions") or ()
    ]
    return {**status, "conditions": told}
