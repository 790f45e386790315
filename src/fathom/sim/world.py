"""A world to write scenarios in: what a test of a control plane wants to say, in its own words.

    @scenario
    async def reply_is_lost(world: World) -> None:
        "A create whose answer is lost happens once."
        world.run_controllers("mirror", make_mirror)
        await world.apply(config_map("source"))
        await world.heal_and_settle()
        assert len(world.list("configmaps")) == 2

The story runs as a process of the world: it waits in virtual time and talks to the API as `driver`; no fault
touches it. Reads (`get`, `list`) look at the store itself: the truth, not a cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fathom.client.api import Api, Resource
from fathom.client.outcomes import Committed, Outcome
from fathom.model.objects import Key, Obj, metadata
from fathom.sim.engine import SECOND_NS, Engine
from fathom.sim.invariants import Checker, seen, standard
from fathom.sim.process import Process
from fathom.sim.storelink import at_once
from fathom.sim.violation import Broken, Violation
from fathom.store.protocol import Change

DRIVER = "driver"

# Changes that never stop, and say nothing about whether the world has come to rest.
RESTLESS = ("/registry/leases.coordination.k8s.io/", "/registry/events/")


class World:
    def __init__(self, engine: Engine, *, servers: int = 1, checkers: Sequence[Checker] = ()) -> None:
        self.engine = engine
        self.checkers: list[Checker] = [*standard(), *checkers]
        self.hits: dict[str, int] = {}  # `sometimes`: what happened at least once.
        self.servers = [engine.add_server(f"api-{index + 1}") for index in range(servers)]
        self._driver: Process | None = None
        self._moved_ns = 0  # When something other than a heartbeat was last committed.
        engine.watchers.append(self._check)

    # Processes.

    def process(self, name: str, begin: Callable[[Process], None], *, server: int = 1) -> Process:
        """A process that lives from now on; `begin` makes its code, anew after every crash."""
        process = self.engine.add(name, begin, server=f"api-{server}")
        process.start()
        return process

    def crash(self, name: str, *, restart_after_s: float = 0.0) -> None:
        self.engine.crash(self.engine.processes[name], restart_after_s)

    def kill(self, name: str) -> None:
        """For good."""
        self.engine.crash(self.engine.processes[name], -1)

    def pause(self, name: str, for_s: float) -> None:
        process = self.engine.processes[name]
        process.paused_until_ns = self.engine.now_ns + int(for_s * SECOND_NS)

    # What the story does.

    @property
    def api(self) -> Api:
        assert self._driver is not None
        return Api(self._driver.seam)

    async def apply(self, resource: Resource, obj: Obj, namespace: str = "default") -> Obj:
        """Create it, or bring what is there to this spec. Tries until it is so."""
        name = str(metadata(obj)["name"])
        where = namespace if resource.namespaced else ""
        while True:
            there = await self._read(resource, where, name)
            outcome = await self._put(resource, where, obj, there)
            if isinstance(outcome, Committed):
                return outcome.obj
            await asyncio.sleep(0.2)

    async def _read(self, resource: Resource, namespace: str, name: str) -> Obj | None:
        return self.get(resource.name, Key(namespace, name))

    async def _put(self, resource: Resource, namespace: str, obj: Obj, there: Obj | None) -> Outcome:
        if there is None:
            return await self.api.create(resource, namespace, obj)
        body = {name: value for name, value in obj.items() if name not in {"status", "metadata"}}
        patch = {
            **body,
            "metadata": {k: v for k, v in metadata(obj).items() if k in {"labels", "annotations"}},
        }
        return await self.api.patch(resource, namespace, str(metadata(obj)["name"]), patch)

    async def delete(self, resource: Resource, name: str, namespace: str = "default") -> None:
        while (there := self.get(resource.name, Key(namespace, name))) is not None:
            await self.api.delete(resource, namespace, name, uid=metadata(there)["uid"])
            await asyncio.sleep(0.2)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def until(self, check: Callable[[], bool], *, within_s: float, what: str) -> None:
        """Liveness: it comes to be so. Broken if it does not in time."""
        try:
            async with asyncio.timeout(within_s):
                while not check():  # noqa: ASYNC110 - the truth has no event to wait for
                    await asyncio.sleep(0.1)
        except TimeoutError:
            self.broken("liveness", f"{what}, but not within {within_s:g} s")

    @asynccontextmanager
    async def held(self, match: str, *, process: str = "*") -> AsyncIterator[None]:
        """Requests whose "METHOD path" contains `match` wait at the door until the block ends."""
        gate = self.engine.network.hold(process, match)
        try:
            yield
        finally:
            self.engine.network.release(gate)

    def heal(self) -> None:
        """No fault from now on, and everybody is up."""
        self.engine.faults.heal()
        for process in self.engine.processes.values():
            process.paused_until_ns = 0
            process.start()

    async def settle(self, *, quiet_s: float = 15.0, within_s: float = 300.0) -> None:
        """Until nothing but heartbeats has been written for a while."""
        await self.until(
            lambda: self.engine.now_ns - self._moved_ns > quiet_s * SECOND_NS,
            within_s=within_s,
            what="the world comes to rest",
        )
        for checker in self.checkers:
            for problem in checker.settled(self.engine):
                self.broken(checker.name, problem)

    async def heal_and_settle(self, **options: float) -> None:
        self.heal()
        await self.settle(**options)

    # What is true.

    def get(self, resource: str, key: Key) -> Obj | None:
        path = f"{key.namespace}/{key.name}" if key.namespace else key.name
        entry = at_once(self.engine.store.get(f"/registry/{resource}/{path}"))
        return None if entry is None else entry.body.obj_at(entry.revision)

    def list(self, resource: str, namespace: str = "") -> list[Obj]:
        prefix = f"/registry/{resource}/{namespace}/" if namespace else f"/registry/{resource}/"
        page = at_once(self.engine.store.range(prefix))
        return [entry.body.obj_at(entry.revision) for entry in page.entries]

    def sometimes(self, what: str) -> None:
        """Say that a rare path was taken: an exploration that never takes it is not looking there."""
        self.hits[what] = self.hits.get(what, 0) + 1

    def broken(self, invariant: str, message: str, subject: str = "") -> None:
        raise Broken(Violation(invariant, message, self.engine.now_ns / SECOND_NS, subject))

    def _check(self, changes: tuple[Change, ...], revision: int) -> None:
        for change in changes:
            if not change.key.startswith(RESTLESS):
                self._moved_ns = self.engine.now_ns
            shown = seen(change)
            if shown is None:
                continue
            for checker in self.checkers:
                problem = checker.commit(shown)
                if problem is not None:
                    self.broken(checker.name, problem, shown.path)

    # How it runs.

    def tell(self, story: Callable[[World], Awaitable[None]], *, deadline_s: float) -> None:
        """Start everybody, then the story. Raises `Broken`, or what the story raises."""
        ended: list[BaseException | None] = []

        async def told() -> None:
            try:
                await story(self)
                ended.append(None)
            except BaseException as error:  # It is the run's outcome, whatever it is.
                ended.append(error)

        def begin(process: Process) -> None:
            asyncio.get_running_loop().create_task(told())

        engine = self.engine
        self._driver = engine.add(DRIVER, begin, server="api-1")
        for server in self.servers:
            server.start()
        engine.run(lambda: all(server.state.ready for server in self.servers), deadline_s=deadline_s)
        engine.faults.start()
        self._driver.start()
        engine.run(lambda: bool(ended), deadline_s=deadline_s)
        if not ended:
            self.broken("liveness", f"the story did not end within {deadline_s:g} s")
        if ended[0] is not None:
            raise ended[0]

    def failures(self) -> Sequence[dict[str, Any]]:
        """What nobody awaited and what callbacks raised, in any process: a bug in somebody's code."""
        return [one for process in self.engine.processes.values() for one in process.domain.failures]
