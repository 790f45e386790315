"""The world's one store, and each API server's connection to it, with latency and faults."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from fathom.model.times import SECOND_NS
from fathom.seams.seam import Ask
from fathom.sim.world.faults import STORE, AnyFault, CommitLost, SlowCommit
from fathom.sim.world.network import OWN_HEADERS, SERVING, Exchange
from fathom.sim.world.process import SimProcess
from fathom.store.contents import StoreContents
from fathom.store.memory import MemoryStore
from fathom.store.protocol import (
    Batch,
    Change,
    Committed,
    Entry,
    Expect,
    Outcome,
    Page,
    StoreUnavailable,
    Unknown,
    Write,
)

if TYPE_CHECKING:
    from fathom.sim.world.engine import Engine

T = TypeVar("T")

# As in the real store's client: after this a read fails, and a commit's outcome is unknown.
ANSWER_NS = 5_000_000_000

COMMIT = Ask("COMMIT", "")


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    raise RuntimeError("the coroutine waited: it should return at once")


class Committer(msgspec.Struct, frozen=True):
    """The origin of a commit. Without an exchange it is the server's own: housekeeping, retention."""

    server: SimProcess
    exchange: Exchange | None = None
    own_headers: tuple[tuple[str, str], ...] = ()  # Of a request that the server sent to itself.

    @property
    def process(self) -> SimProcess:
        return self.server if self.exchange is None else self.exchange.process

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return self.own_headers if self.exchange is None else self.exchange.ask.headers

    @property
    def incarnation(self) -> int:
        return self.server.incarnation if self.exchange is None else self.exchange.incarnation


class WorldStore(MemoryStore):
    """The store itself. Reports every commit to the world before any process can act on it."""

    def __init__(
        self, world: Engine, first: Sequence[Write] = (), *, contents: StoreContents | None = None
    ) -> None:
        super().__init__()
        self._world = world
        self.links: list[StoreLink] = []
        self._began = False
        if contents is not None:
            self.load(contents.entries, contents.revision)
        if first:
            self.commit_now((), first)
        self._began = True

    def announce(self, changes: tuple[Change, ...], revision: int) -> None:
        self._feed.publish(changes, revision)
        if not self._began:
            return  # Part of the initial cluster.
        self._world.committed(changes, revision)
        for link in self.links:
            link.hear(changes, revision)

    @property
    def newest(self) -> int:
        return self._revision

    def entries(self) -> Iterator[Entry]:
        return (entry for key in self._keys if (entry := self._now(key)) is not None)

    def compact_now(self) -> None:
        at_once(self.compact(self._revision))


class StoreLink:
    """A `Store` for one incarnation of one API server.

    A read happens when its answer arrives: some moment between request and answer, which is all that a
    linearizable read promises. A commit happens at the store, and its server learns of it later: in between
    the server may crash, and other processes may act on the commit.
    """

    def __init__(self, process: SimProcess, store: WorldStore) -> None:
        self._process = process
        self._world = process.world
        self._store = store
        self._incarnation = process.incarnation
        self._watches: list[weakref.ref[_Watch]] = []  # Dropping a watch is enough to end it.
        self._queued: list[Change] = []
        self._queued_upto = 0
        self._delivery_ns = (
            -1
        )  # When `_queued` is delivered; -1: it is empty, or the answer to a commit delivers it.
        self._answering = 0  # Own commits whose answer is on its way: it delivers `_queued`.
        store.links.append(self)

    async def revision(self) -> int:
        return await self._read(lambda: at_once(self._store.revision()))

    async def get(self, key: str) -> Entry | None:
        return await self._read(lambda: at_once(self._store.get(key)))

    async def range(
        self, prefix: str, *, revision: int | None = None, limit: int = 0, after: str = ""
    ) -> Page:
        return await self._read(
            lambda: at_once(self._store.range(prefix, revision=revision, limit=limit, after=after))
        )

    async def compact(self, revision: int) -> None:
        await self._read(lambda: at_once(self._store.compact(revision)))

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        world, process = self._world, self._process
        future: asyncio.Future[Outcome] = process.domain.private_future()
        delay_ns = world.oracle.latency_ns(process.name, STORE, world.now_ns)
        fate = None
        if not world.faults.store_quiet:
            if process.doom_s is not None:
                return await future  # The server crashes with this input: its later actions are discarded.
            crash = world.faults.crash_at_write(process.name, COMMIT)
            if crash is not None:
                world.struck_at_write(process, crash)
            fate = world.faults.fate_of_commit(process.name)
            if isinstance(fate, CommitLost):
                self._struck(fate, "a commit never reaches the store, and the server gets no outcome")
                world.after(2 * delay_ns, self._answer, future, Unknown("the store did not answer"))
                return await future
            if isinstance(fate, SlowCommit):
                self._struck(fate, f"a commit takes {fate.delay_s:g} s longer to reach the store")
                delay_ns, fate = delay_ns + round(fate.delay_s * SECOND_NS), None
            lost, delay_ns = self._cut_off(future, delay_ns, Unknown("the store did not answer in time"))
            if lost:
                return await future
        by = Committer(process, SERVING.get(), OWN_HEADERS.get())
        world.after(delay_ns, self._commit, future, tuple(preconditions), tuple(writes), fate, by)
        return await future

    def problem(self) -> str:
        return ""

    def accept_past(self) -> None:
        pass  # It never goes back while it is open.

    async def request_progress(self) -> bool:
        return True

    async def close(self) -> None:
        self.cut()

    def cut(self) -> None:
        """The server has ended."""
        if self in self._store.links:
            self._store.links.remove(self)

    def watch(self, prefix: str, *, after: int) -> AsyncIterator[Batch]:
        return _Watch(self, prefix, after)

    # Requests.

    def _read(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Read after the latency of both ways. An exception is an answer too."""
        world, process = self._world, self._process
        future: asyncio.Future[T] = process.domain.private_future()
        name, now_ns, latency_ns = process.name, world.now_ns, world.oracle.latency_ns
        delay_ns = latency_ns(name, STORE, now_ns) + latency_ns(STORE, name, now_ns)
        if not world.faults.store_quiet:
            lost, delay_ns = self._cut_off(future, delay_ns, StoreUnavailable("the store does not answer"))
            if lost:
                return future
        world.after(delay_ns, self._do_read, future, work)
        return future

    def _cut_off(self, future: asyncio.Future[Any], delay_ns: int, given_up: Any) -> tuple[bool, int]:
        """Whether a partition drops the request, and its delay if not."""
        cut = self._world.faults.partition(self._process.name, STORE)
        if cut is None:
            return False, delay_ns
        partition, until_ns = cut
        self._struck(partition, "cut off from the store")
        self._world.after(ANSWER_NS, self._answer, future, given_up)
        return partition.drops, delay_ns + until_ns - self._world.now_ns

    def _do_read(self, future: asyncio.Future[T], work: Callable[[], T]) -> None:
        try:
            result: Any = work()
        except Exception as raised:  # The store's answer.
            result = raised
        self._answer(future, result)

    def _commit(
        self,
        future: asyncio.Future[Outcome],
        preconditions: tuple[Expect, ...],
        writes: tuple[Write, ...],
        fate: Any,
        by: Committer,
    ) -> None:
        """Commit at the store, whether or not the server is still running."""
        world = self._world
        world.committer = by
        self._answering += 1
        try:
            outcome: Any = self._store.commit_now(preconditions, writes)
        except Exception as raised:  # The store's answer: nothing was written.
            outcome = raised
        if fate is not None and isinstance(outcome, Committed):
            self._struck(fate, "the store commits, and its answer to the server is lost")
            outcome = Unknown("the store's answer was lost")
        delay_ns = world.oracle.latency_ns(STORE, self._process.name, world.now_ns)
        cut = None if world.faults.store_quiet else world.faults.partition(self._process.name, STORE)
        if cut is not None:
            delay_ns += cut[1] - world.now_ns
            if cut[0].drops or delay_ns > ANSWER_NS:
                outcome, delay_ns = Unknown("the store's answer did not come in time"), ANSWER_NS
        world.after(delay_ns, self._committed, future, outcome)

    def _committed(self, future: asyncio.Future[Outcome], outcome: Any) -> None:
        self._answering -= 1
        if not self._is_alive:
            return
        if self._queued and (self._world.faults.store_quiet or not self._is_stale()):
            self._process.call(0, self._deliver_and_settle, future, outcome)
        else:
            self._process.call(0, _settle, future, outcome)
            if self._queued and self._delivery_ns < 0:
                self._deliver_later()

    def _answer(self, future: asyncio.Future[Any], result: Any) -> None:
        if self._is_alive and not future.done():
            self._process.call(0, _settle, future, result)

    @property
    def _is_alive(self) -> bool:
        return self._incarnation == self._process.incarnation and self._process.alive

    # Watches.

    def hear(self, changes: tuple[Change, ...], revision: int) -> None:
        """Queue a commit for this server's watches, together with later ones until delivery."""
        self._queued += changes
        self._queued_upto = revision
        if self._delivery_ns < 0 and not self._answering:
            self._deliver_later()

    def heal(self) -> None:
        if self._queued:
            self._delivery_ns = self._world.now_ns
            self._world.after(0, self._deliver_due, self._delivery_ns)

    @property
    def server(self) -> str:
        return self._process.name

    def lose_watches(self) -> None:
        """Break the connection of the watches: the server must watch the store again."""
        for ref in tuple(self._watches):
            watch = ref()
            if watch is not None and self._is_alive:
                self._world.after(0, self._process.call, 0, watch.lose)

    def _deliver_later(self) -> None:
        world = self._world
        latency_ns = world.oracle.latency_ns(STORE, self._process.name, world.now_ns)
        due_ns = max(world.now_ns + latency_ns, self._stale_until_ns())
        self._delivery_ns = due_ns
        world.at(due_ns, self._deliver_due, due_ns)

    def _deliver_due(self, due_ns: int) -> None:
        if not self._is_alive or self._delivery_ns != due_ns:
            return  # Another delivery came first.
        if self._is_stale():
            self._deliver_later()  # The server became stale since this was scheduled.
            return
        self._process.call(0, self._deliver)

    def _deliver(self) -> None:
        """Runs inside the process: pass all queued changes to the watches, in order."""
        self._delivery_ns = -1
        changes, self._queued = tuple(self._queued), []
        for ref in tuple(self._watches):
            watch = ref()
            if watch is None:
                self._watches.remove(ref)
            else:
                watch.feed(changes, self._queued_upto)

    def _deliver_and_settle(self, future: asyncio.Future[Outcome], outcome: Any) -> None:
        self._deliver()
        _settle(future, outcome)

    def _is_stale(self) -> bool:
        return self._stale_until_ns() > self._world.now_ns

    def _stale_until_ns(self) -> int:
        faults = self._world.faults
        if faults.store_quiet:
            return 0
        until_ns = 0
        for active in (faults.partition(self._process.name, STORE), faults.stale(self._process.name)):
            if active is not None:
                self._struck(active[0], "gets no events from the store, and answers from its cache")
                until_ns = max(until_ns, active[1])
        return until_ns

    def _struck(self, fault: AnyFault, effect: str) -> None:
        chronicle = self._world.chronicle
        if chronicle is not None:
            by = self._world.committer
            follows = by.exchange.event if by is not None and by.exchange is not None else -1
            chronicle.fault_took_effect(self._process, fault, effect, follows)


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


async def _first(history: AsyncIterator[Batch]) -> Batch:
    return await anext(history)


class _Watch(AsyncIterator[Batch]):
    """One watch of the store: first the changes in its history, then those that the link gets."""

    def __init__(self, link: StoreLink, prefix: str, after: int) -> None:
        self._link = link
        self._prefix = prefix
        self._position = after
        self._batches: deque[Batch] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._opened = False
        self._lost = False
        self._early: list[tuple[tuple[Change, ...], int]] | None = []  # Came before history was read.

    def __aiter__(self) -> _Watch:
        return self

    async def __anext__(self) -> Batch:
        if not self._opened:
            await self._open()
        while not self._batches:
            if self._lost:
                raise StoreUnavailable("the connection to the store broke")
            self._waiter = self._link._process.domain.private_future()
            await self._waiter
        batch = self._batches.popleft()
        self._position = batch.revision
        return batch

    async def _open(self) -> None:
        self._opened = True
        own_ref = weakref.ref(self)
        self._link._watches.append(own_ref)
        store, after = self._link._store, self._position

        def history() -> tuple[tuple[Change, ...], int]:
            if after >= store.newest:
                return (), store.newest
            batch = at_once(_first(store.watch("", after=after)))
            return tuple(batch.changes), batch.revision

        try:
            past = await self._link._read(history)
        except BaseException:
            self._link._watches.remove(own_ref)
            raise
        early, self._early = self._early or [], None
        for changes, upto in (past, *early):
            self.feed(changes, upto)

    def lose(self) -> None:
        self._lost = True
        self._batches.clear()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def feed(self, changes: tuple[Change, ...], upto: int) -> None:
        if self._lost:
            return
        if self._early is not None:
            self._early.append((changes, upto))
            return
        last = self._batches[-1].revision if self._batches else self._position
        if upto <= last:
            return
        fresh = tuple([c for c in changes if c.revision > last and c.key.startswith(self._prefix)])
        self._batches.append(Batch(fresh, upto))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
