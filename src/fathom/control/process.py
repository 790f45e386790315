"""One process of controllers: caches, a breaker, a lease, and a queue and a loop for each controller.

    caches follow ──> stand by ──the lease is ours──> lead: loops run ──lost──> cut off ──> stand by
                                                        └──"stop"──> drain ──> release ──> end
                                                        └──"rebase"──> drain ──> end, the lease is kept

`begin` is the entry of a recorded process: what it does follows from its `Birth` and its inputs. Controllers
are named there as `module:Class`, so that a replay finds the same code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Protocol

import msgspec

from fathom.cache.caches import Caches
from fathom.cache.freshness import Probes
from fathom.cache.indexes import Index
from fathom.cache.metrics import counted, measure_caches
from fathom.cache.observer import CacheObserver
from fathom.cache.own_writes import WriteLog
from fathom.cache.scope import CacheScope, ListPace
from fathom.cache.snapshot import SnapshotScope
from fathom.control.api_connection import ApiConnection
from fathom.control.breaker import Breaker, BreakerView
from fathom.control.clock_watch import watch_clock
from fathom.control.commit import PROBE_S, Commit
from fathom.control.decision_log import log_of
from fathom.control.declared_fields import DeclaredFields
from fathom.control.event_writer import EventChange, EventReport, EventWriter
from fathom.control.health import ProcessHealth
from fathom.control.kit import Kit
from fathom.control.leadership import EndingTasks, Leading
from fathom.control.lease import LeaderTerm, LeaseStatus, Timing
from fathom.control.loop import Loop, LoopObserver, NoLoopObserver, Reconciler, Shared
from fathom.control.metrics import LoopNumbers, measure_loops
from fathom.control.queue import NoQueueMetrics, QueueMetrics, WorkQueue
from fathom.control.rate_limit import PaceRate
from fathom.control.retry import Retry, RetryTrouble
from fathom.control.signals import SignalPublisher
from fathom.control.waking import Waker
from fathom.control.watches import Primary, Watch, WatchedKind
from fathom.metrics.families import Family
from fathom.model.cause import WakeCause
from fathom.model.declared import Reads
from fathom.model.objects import Key
from fathom.seams.process import Inside, NoEntry
from fathom.seams.recorded_code import location_of

CLOCK_SET = WakeCause("timer", "the wall clock was set")


class Controller(Protocol):
    """A controller class. Each term of leadership makes new instances."""

    name: str
    watches: tuple[Watch, ...]  # The first is the Primary.
    # Optional: `event_reports`, a function from an action to Events about it: see `event_writer`.
    # Optional: `measure`, a function from a snapshot to families of metrics, called at each scrape.
    # Optional: `reads` and `writes`, the fields that it declares (`model/declared.py`). Its snapshots show
    # only the kinds that it declares to read; without a declaration, those that it watches.
    # Optional: `unwatched: tuple[WatchedKind, ...]`, kinds that it writes without watching them.

    def __call__(self, kit: Kit) -> Reconciler: ...


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All that controllers see of how the process was started: it is on the tape."""

    controllers: tuple[str, ...] = ()  # module:Class
    target: str = "api"  # The breaker's name for the server.
    who: str = "fathom"  # The first part of the identity that holds leases.
    lease: str = ""  # namespace/name; '' where there is only one process.
    timing: Timing = Timing()
    namespace: str = ""  # Only objects of this namespace; '' is all.
    fields: dict[str, str] = {}  # Kind -> field selector: only matching objects.
    bookmark_s: float = 1.0  # How often servers are asked for bookmarks.
    workers: int = 4
    retry: Retry = Retry()
    rate: PaceRate | None = None  # The rate limit of passes, for each controller.
    resync_s: float = 600.0
    drain_s: float = 10.0
    user_agent: str = "fathom-controllers"
    actor: str = "controllers/*"  # Their name in the audit log; * stands for the name of the controller.
    signals: str = ""  # The component name for publishing this process's own signals; '': none.
    events: bool = False  # Whether controllers that define `event_reports` write Events.


class Watchers(msgspec.Struct, frozen=True):
    """Observers of what happens in the process. They only receive."""

    caches: CacheObserver | None = None
    loops: LoopObserver = NoLoopObserver()
    queues: Mapping[str, QueueMetrics] = {}  # By controller.


class ControllerView(msgspec.Struct, frozen=True):
    """The state of the process, for people."""

    lease_status: LeaseStatus | None
    breaker: BreakerView
    waiting: dict[str, int]  # Controller -> keys in the queue.
    in_hand: dict[str, int]
    troubles: dict[str, dict[str, RetryTrouble]]  # Controller -> key -> what is wrong.


def begin(inside: Inside) -> Controllers:
    """The entry: see `seams.process`."""
    settings = msgspec.convert(inside.options, ControllerSettings)
    controllers = [load_controller(name) for name in settings.controllers]
    running = Controllers(inside, controllers, settings)
    running.start()
    return running


def load_controller(name: str) -> Controller:
    module, _, attribute = location_of(name).partition(":")
    try:
        controller: Controller = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise NoEntry(f"there is no controller {name!r}: {error}") from error
    return controller


class Controllers:
    def __init__(
        self,
        inside: Inside,
        controllers: Sequence[Controller],
        settings: ControllerSettings,
        *,
        watchers: Watchers = Watchers(),  # noqa: B008  # Frozen.
        only_declared_fields: bool = False,
    ) -> None:
        """`only_declared_fields`: of each object, controllers see only what they declare to read."""
        self._inside = inside
        self._controllers = controllers
        self._settings = settings
        self._only_declared_fields = only_declared_fields
        self._watchers = watchers = self._measured(watchers)
        self.loops: list[Loop] = []
        self._signal_decisions = log_of(inside, "signals")
        clock = inside.outside.clock
        observer, counts = counted(inside.metrics, watchers.caches)
        self.health = ProcessHealth(clock, caches=observer, loops=watchers.loops)
        self._station = ApiConnection(inside, settings, answered=self.health.answered)
        self.caches = Caches(
            self._station.api(),
            streams=inside.streams,
            observer=self.health,
            pace=ListPace(resync=settings.resync_s, bookmark=settings.bookmark_s),
        )
        for kind, indexes in watched(controllers):
            namespace = kind.namespace or (settings.namespace if kind.resource.namespaced else "")
            scope = CacheScope(kind.resource, namespace, fields=settings.fields.get(kind.name, ""))
            self.caches.add(kind.name, scope, indexes=indexes)
        self._wakers = {
            controller.name: Waker(
                controller.watches,
                primary_of(controller).kind,
                self.caches,
                SnapshotScope(controller.name, shown_kinds(controller)),
            )
            for controller in controllers
        }
        measure_caches(inside.metrics, self.caches, counts, clock)
        for controller in controllers:
            self._measure_own(controller)

    def _measured(self, watchers: Watchers) -> Watchers:
        """With metrics enabled, loops and queues report to counters instead of the caller's observers."""
        metrics = self._inside.metrics
        if not metrics.enabled:
            return watchers
        numbers = LoopNumbers(controller.name for controller in self._controllers)
        measure_loops(metrics, numbers, lambda: self.loops, self._inside.outside.clock)
        return Watchers(watchers.caches, numbers, numbers.queues)

    def _declared_fields(self, controller: Controller) -> DeclaredFields | None:
        reads: tuple[Reads, ...] | None = getattr(controller, "reads", None)
        return None if reads is None or not self._only_declared_fields else DeclaredFields(reads)

    def _measure_own(self, controller: Controller) -> None:
        """Registers the controller's own metrics, which it computes from the caches."""
        measure = getattr(controller, "measure", None)
        if measure is None:
            return

        def collect() -> Iterable[Family]:
            return measure(self.caches.snapshot_at(self._inside.domain.time())) if self.caches.synced else ()

        self._inside.metrics.register(f"controller/{controller.name}", collect)

    def start(self) -> None:
        """Starts a task of the Domain. Nothing awaits that task, so its failure is reported."""
        self.task = self._inside.domain.create_task(self.run(), name="controllers")
        self.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            message = "the controllers stopped with an error"
            self._inside.domain.call_exception_handler({"message": message, "exception": error})

    async def run(self) -> None:
        """Runs until the process receives a stop signal."""
        await Leading(self._inside, self.caches, self._station.elector(), self._work).run()

    @property
    def lease_status(self) -> LeaseStatus | None:
        return self._station.lease_status

    @property
    def breaker(self) -> Breaker:
        return self._station.breaker

    @property
    def view(self) -> ControllerView:
        loops = self.loops
        return ControllerView(
            self.lease_status,
            self.breaker.view,
            {loop.name: len(loop.queue) for loop in loops},
            {loop.name: len(loop.queue.in_hand) for loop in loops},
            {
                loop.name: {"/".join(key): trouble for key, trouble in loop.queue.troubles.items()}
                for loop in loops
            },
        )

    # Leading.

    async def _work(self, term: LeaderTerm | None, ends: EndingTasks) -> bool:
        event_writer = self._event_writer()
        loop_ = asyncio.get_running_loop()
        beside = [loop_.create_task(watch_clock(self._inside.outside.clock, self._look_again))]
        beside += [loop_.create_task(event_writer.run())] if self._settings.events else []
        beside += [loop_.create_task(self._publisher(term).run())] if self._settings.signals else []
        probes = Probes(self.caches, PROBE_S)
        self.loops = [self._loop(controller, term, event_writer, probes) for controller in self._controllers]
        for loop in self.loops:
            loop.start()
        try:
            await asyncio.wait(ends.all, return_when=asyncio.FIRST_COMPLETED)
            return False if ends.lost else await self._drain(ends.keeping)
        finally:
            for loop in self.loops:
                await loop.cut_off()
            probes.stop()
            for task in beside:
                task.cancel()

    def _look_again(self) -> None:
        for loop in self.loops:
            loop.queue.look_again(CLOCK_SET)

    async def _drain(self, keeping: asyncio.Task[str] | None) -> bool:
        """Lets running passes finish while the lease is renewed; if it is lost, they are cut off."""
        draining = asyncio.get_running_loop().create_task(self._drain_all())
        ends = (draining, keeping) if keeping is not None else (draining,)
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if draining.done():
            return draining.result()
        draining.cancel()
        await asyncio.wait((draining,))
        return False

    async def _drain_all(self) -> bool:
        async with asyncio.TaskGroup() as group:
            drains = [group.create_task(loop.drain(self._settings.drain_s)) for loop in self.loops]
        return all(drain.result() for drain in drains)

    # Construction.

    def _event_writer(self) -> EventWriter:
        inside = self._inside
        api = self._station.api().with_actor(actor_of(self._settings, "events"))
        return EventWriter(api, clock=inside.outside.clock, ids=inside.outside.ids)

    def _publisher(self, term: LeaderTerm | None) -> SignalPublisher:
        api, clock = self._station.api(term), self._inside.outside.clock
        api = api.with_actor(actor_of(self._settings, "signals"))
        return SignalPublisher(
            api, self._settings.signals, self.health.raised, clock=clock, decisions=self._signal_decisions
        )

    def _write_events(self, controller: Controller, event_writer: EventWriter, change: EventChange) -> None:
        event_reports = getattr(controller, "event_reports", None)
        events = event_reports(change) if event_reports is not None and self._settings.events else None
        for event in (events,) if isinstance(events, EventReport) else events or ():
            named = msgspec.structs.replace(event, decision=change.decision)
            event_writer.tell(f"fathom-{controller.name}", named)

    def _oldest_pass_ns(self, names: Sequence[str]) -> int | None:
        began = [loop.oldest_pass_ns for loop in self.loops if loop.name in names]
        return min((began_ns for began_ns in began if began_ns is not None), default=None)

    def _loop(
        self, controller: Controller, term: LeaderTerm | None, event_writer: EventWriter, probes: Probes
    ) -> Loop:
        inside, settings, name = self._inside, self._settings, controller.name
        api = self._station.api(term).with_actor(actor_of(settings, name))
        queue: WorkQueue[Key] = WorkQueue(
            inside.streams.stream(f"queue/{name}"),
            retry=settings.retry,
            rate=settings.rate,
            tenant_of=lambda key: key.namespace,
            metrics=self._watchers.queues.get(name, NoQueueMetrics()),
        )
        written = WriteLog()
        commit = Commit(
            api,
            {kind.name: kind for kind in kinds_of(controller)},
            self.caches,
            written,
            clock=inside.outside.clock,
            ids=inside.outside.ids,
            rng=inside.streams.stream(f"settle/{name}"),
            journal=inside.journal,
            tell=lambda change: self._write_events(controller, event_writer, change),
        )
        primary = primary_of(controller)
        rng = inside.streams.stream(f"controller/{name}")
        kit = Kit(
            name,
            primary.kind,
            api=api,
            caches=self.caches,
            commit=commit,
            queue=queue,
            clock=inside.outside.clock,
            rng=rng,
            log=inside.log,
            epoch=lambda: term.epoch or 0 if term is not None else 0,
            floor=None if term is None else term.floor,
            own_trouble=self.health.raised,
            scope=SnapshotScope(name, shown_kinds(controller)),
            declared=self._declared_fields(controller),
            oldest_pass=self._oldest_pass_ns,
        )
        shared = Shared(self.caches, probes, written, self.breaker, inside.log, self.health, settings.workers)
        return Loop(
            name,
            controller(kit),
            primary=primary,
            kit=kit,
            queue=queue,
            waker=self._wakers[name],
            commit=commit,
            rng=inside.streams.stream(f"loop/{name}"),
            shared=shared,
        )


def actor_of(settings: ControllerSettings, controller: str) -> str:
    return settings.actor.replace("*", controller)


def primary_of(controller: Controller) -> Primary:
    first = controller.watches[0] if controller.watches else None
    if not isinstance(first, Primary):
        raise TypeError(f"{controller.name}: its first watch must be a Primary")
    return first


def kinds_of(controller: Controller) -> list[WatchedKind]:
    return [*(watch.kind for watch in controller.watches), *getattr(controller, "unwatched", ())]


def shown_kinds(controller: Controller) -> tuple[str, ...]:
    """The kinds that a controller's snapshots show: those that it declares to read from the cache."""
    watched_kinds = tuple(watch.kind.name for watch in controller.watches)
    reads: tuple[Reads, ...] | None = getattr(controller, "reads", None)
    if reads is None:
        return watched_kinds
    declared = dict.fromkeys(read.kind for read in reads if read.source == "cache")
    if unwatched := [kind for kind in declared if kind not in watched_kinds]:
        raise TypeError(f"{controller.name} declares to read {', '.join(unwatched)}, which it does not watch")
    return tuple(declared)


def watched(controllers: Sequence[Controller]) -> list[tuple[WatchedKind, dict[str, Index]]]:
    """Each kind once, with the indexes that any of the controllers wants."""
    by_name: dict[str, tuple[WatchedKind, dict[str, Index]]] = {}
    for controller in controllers:
        for watch in controller.watches:
            kind, indexes = by_name.setdefault(watch.kind.name, (watch.kind, {}))
            if kind != watch.kind:
                raise TypeError(f"two kinds are named {kind.name}: {kind.resource} and {watch.kind.resource}")
            indexes.update(watch.indexes)
    return list(by_name.values())
