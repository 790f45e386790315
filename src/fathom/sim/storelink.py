"""The world's one store, and each API server's connection to it, with a delay and a will of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fathom.store.memory import MemoryStore
from fathom.store.protocol import (
    Batch,
    Change,
    Committed,
    Compacted,
    Entry,
    Expect,
    Outcome,
    Page,
    Unknown,
    Write,
)

if TYPE_CHECKING:
    from fathom.sim.engine import Engine
    from fathom.sim.process import Process

T = TypeVar("T")

STORE = "store"


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    raise RuntimeError("the store waited for something")


class WorldStore(MemoryStore):
    """The truth. Tells the world of every commit, before anybody else can act on it."""

    def __init__(self, world: Engine) -> None:
        super().__init__()
        self._world = world
        self.links: list[StoreLink] = []

    def announce(self, changes: tuple[Change, ...], revision: int) -> None:
        self._feed.publish(changes, revision)
        self._world.committed(changes, revision)
        for link in self.links:
            link.hear(changes, revision)

    @property
    def newest(self) -> int:
        return self._revision

    @property
    def floor(self) -> int:
        return self._feed.floor

    def compact_now(self) -> None:
        at_once(self.compact(self._revision))

    def changes_after(self, revision: int) -> list[Change] | None:
        return self._feed.since(revision)


class StoreLink:
    """A `Store` for one incarnation of one API server."""

    def __init__(self, process: Process, store: WorldStore) -> None:
        self._process = process
        self._world = process.world
        self._store = store
        self._incarnation = process.incarnation
        self._watches: list[_Watch] = []
        self._heard: list[Change] = []
        self._heard_upto = 0
        self._telling = False  # A delivery of what was heard is on its way.
        self._told_ns = 0  # When the last one arrives: a stream keeps its order.
        store.links.append(self)

    async def revision(self) -> int:
        return await self._ask(lambda: at_once(self._store.revision()))

    async def get(self, key: str) -> Entry | None:
        return await self._ask(lambda: at_once(self._store.get(key)))

    async def range(
        self, prefix: str, *, revision: int | None = None, limit: int = 0, after: str = ""
    ) -> Page:
        return await self._ask(
            lambda: at_once(self._store.range(prefix, revision=revision, limit=limit, after=after))
        )

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        fate = self._world.faults.fate_of_commit(self._process.name)
        if fate == "lost":
            return await self._ask(lambda: Unknown("the store did not answer"))
        outcome = await self._ask(lambda: at_once(self._store.commit(preconditions, writes)))
        if fate == "unknown" and isinstance(outcome, Committed):
            return Unknown("the store's answer was lost")
        return outcome

    async def compact(self, revision: int) -> None:
        await self._ask(lambda: at_once(self._store.compact(revision)))

    async def request_progress(self) -> bool:
        return True

    async def close(self) -> None:
        self._store.links.remove(self)

    def watch(self, prefix: str, *, after: int) -> AsyncIterator[Batch]:
        return _Watch(self, prefix, after)

    def _ask(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """There, done, and back. An exception is an answer too."""
        world, process = self._world, self._process
        future: asyncio.Future[T] = process.domain.create_future()

        def arrive() -> None:
            try:
                result, error = work(), None
            except Exception as raised:  # The store's answer, on its way back.
                result, error = None, raised
            world.after(world.oracle.latency_ns(STORE, process.name), process.call, answer, result, error)

        def answer(result: T, error: Exception | None) -> None:
            if self._incarnation != process.incarnation or future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        world.after(world.oracle.latency_ns(process.name, STORE), arrive)
        return future

    def hear(self, changes: tuple[Change, ...], revision: int) -> None:
        """A commit: on its way to this server's watches, together with what else comes meanwhile."""
        if self._incarnation != self._process.incarnation or not self._process.alive:
            return
        self._heard += changes
        self._heard_upto = revision
        if not self._telling:
            self._telling = True
            self._later()

    def _later(self) -> None:
        world = self._world
        delay_ns = world.oracle.latency_ns(STORE, self._process.name)
        due_ns = max(world.now_ns + delay_ns, self._told_ns, world.faults.stale_until_ns(self._process.name))
        self._told_ns = due_ns
        world.at(due_ns, self._tell)

    def _tell(self) -> None:
        if self._world.faults.stale_until_ns(self._process.name) > self._world.now_ns:
            self._later()  # It became stale while this was under way.
            return
        self._telling = False
        changes, self._heard = tuple(self._heard), []
        upto = self._heard_upto
        if self._incarnation == self._process.incarnation:
            self._process.call(self._deliver, changes, upto)

    def _deliver(self, changes: tuple[Change, ...], upto: int) -> None:
        for watch in self._watches:
            watch.feed(changes, upto)


class _Watch(AsyncIterator[Batch]):
    """One watch of the store: first what is in its history, then what the link hears."""

    def __init__(self, link: StoreLink, prefix: str, after: int) -> None:
        self._link = link
        self._prefix = prefix
        self._position = after
        self._batches: deque[Batch] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._opened = False
        self._early: list[tuple[tuple[Change, ...], int]] | None = []  # Heard before history was read.

    def __aiter__(self) -> _Watch:
        return self

    async def __anext__(self) -> Batch:
        if not self._opened:
            await self._open()
        while not self._batches:
            self._waiter = self._link._process.domain.create_future()
            await self._waiter
        batch = self._batches.popleft()
        self._position = batch.revision
        return batch

    async def _open(self) -> None:
        self._opened = True
        self._link._watches.append(self)
        store, after = self._link._store, self._position

        def history() -> tuple[tuple[Change, ...], int]:
            changes = store.changes_after(after) if after >= store.floor else None
            if changes is None:
                raise Compacted(store.floor)
            return tuple(changes), store.newest

        past = await self._link._ask(history)
        early, self._early = self._early or [], None
        for changes, upto in (past, *early):
            self.feed(changes, upto)

    def feed(self, changes: tuple[Change, ...], upto: int) -> None:
        if self._early is not None:
            self._early.append((changes, upto))
            return
        last = self._batches[-1].revision if self._batches else self._position
        if upto <= last:
            return
        fresh = tuple(c for c in changes if c.revision > last and c.key.startswith(self._prefix))
        self._batches.append(Batch(fresh, upto))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
