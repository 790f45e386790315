"""The scheduler process: caches, a breaker, a lease where there are several, and the scheduler itself.

    caches follow ──> stand by ──the lease is ours──> schedule ──lost──> stand by
                                                         └──"stop"──> requests end ──> release ──> end

`begin` is the entry: what the process does follows from its `Birth` and its inputs. Without a lease, several
schedulers may work side by side, by name or by shard of tenants: the API's ledger keeps them apart.
"""

from __future__ import annotations

import asyncio

import msgspec

from fathom.cache.caches import Caches
from fathom.cache.metrics import counted, measure_caches
from fathom.cache.observer import CacheObserver
from fathom.cache.scope import CacheScope, ListPace
from fathom.client.api import Api
from fathom.control.api_connection import ApiConnection
from fathom.control.decision_log import log_of
from fathom.control.leadership import EndingTasks, Leading
from fathom.control.lease import LeaderTerm, Timing
from fathom.control.signals import SignalPublisher
from fathom.schedule.decide.rules import RULES, Rules
from fathom.schedule.loop.metrics import measure_scheduler
from fathom.schedule.loop.scheduler import CurrentRules, Scheduler
from fathom.schedule.loop.user_rules import installed_rules
from fathom.schedule.loop.watched_kinds import KINDS, STORAGE_CLASS
from fathom.seams.process import Inside


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that deciders read; they are recorded on the tape."""

    names: tuple[str, ...] = ("default-scheduler", "fathom")  # Pods whose schedulerName is one of these.
    shard: int = 0  # Which part of the tenants is this scheduler's …
    shards: int = 1  # … of so many.
    lease: str = ""  # namespace/name; '': works at once, beside other schedulers.
    who: str = "scheduler"
    observer: str = ""  # Its name in observedBy of PolicyRollouts, where several share a `who`; '': `who`.
    target: str = "api"
    timing: Timing = Timing()
    own_kinds: bool = True  # False where the server is not fathom's.
    attached_kinds: tuple[str, ...] = ()  # Kinds that may be followed there: CRDs of ours, StorageClass.
    resync_s: float = 0.0
    bookmark_s: float = 1.0  # How often servers are asked for bookmarks.
    drain_s: float = 10.0
    batch_max: int = 256
    in_flight_max: int = 2
    bind_timeout_s: float = 10.0
    user_agent: str = "fathom-scheduler"

    @property
    def actor(self) -> str:
        return self.who


def begin(inside: Inside) -> SchedulerProcess:
    """The entry: see `seams.process`."""
    settings = msgspec.convert(inside.options, SchedulerSettings, strict=False)
    running = SchedulerProcess(inside, settings, judging=installed_rules())
    running.start()
    return running


class SchedulerProcess:
    def __init__(
        self,
        inside: Inside,
        settings: SchedulerSettings,
        *,
        observer: CacheObserver | None = None,
        judging: Rules = RULES,
    ) -> None:
        self._inside = inside
        self._settings = settings
        self._station = ApiConnection(inside, settings)
        observer, counts = counted(inside.metrics, observer)
        self.caches = Caches(
            self._station.api(),
            streams=inside.streams,
            observer=observer,
            pace=ListPace(resync=settings.resync_s, bookmark=settings.bookmark_s),
        )
        for kind in (*KINDS, STORAGE_CLASS):
            own, delayed = kind.resource.group == "fathom.dev", kind is STORAGE_CLASS
            wanted = settings.own_kinds if own else not delayed
            if wanted or kind.name in settings.attached_kinds:
                self.caches.add(kind.name, CacheScope(kind.resource), indexes={})
        self.scheduler = Scheduler(inside, self.caches, self._rules(), judging=judging)
        measure_caches(inside.metrics, self.caches, counts, inside.outside.clock)
        measure_scheduler(inside.metrics, self.scheduler.state)
        self._signal_decisions = log_of(inside, settings.who)
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = self._inside.domain.create_task(self.run(), name="scheduler")
        self.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            message = "the scheduler stopped with an error"
            self._inside.domain.call_exception_handler({"message": message, "exception": error})

    async def run(self) -> None:
        """Run until asked to stop."""
        await Leading(self._inside, self.caches, self._station.elector(), self._work).run()

    async def _work(self, term: LeaderTerm | None, ends: EndingTasks) -> bool:
        """Schedule until asked to stop, or until the lease is lost."""
        api = self._station.api(term)
        loop = asyncio.get_running_loop()
        scheduling = loop.create_task(self.scheduler.run(api, term), name="scheduling")
        publishing = loop.create_task(self._publisher(api).run()) if self._settings.own_kinds else None
        try:
            await asyncio.wait((scheduling, *ends.all), return_when=asyncio.FIRST_COMPLETED)
            if scheduling.done():
                scheduling.result()  # It ends by itself only with an error.
            return False if ends.lost else await self.scheduler.drain(self._settings.drain_s)
        finally:
            scheduling.cancel()
            if publishing is not None:
                publishing.cancel()
            await asyncio.wait((scheduling,))

    def _publisher(self, api: Api) -> SignalPublisher:
        settings = self._settings
        component = settings.lease.rpartition("/")[2] or settings.who
        clock = self._inside.outside.clock
        raised = self.scheduler.signals.raised
        return SignalPublisher(api, component, raised, clock=clock, decisions=self._signal_decisions)

    def _rules(self) -> CurrentRules:
        settings = self._settings
        return CurrentRules(
            names=settings.names,
            shard=settings.shard,
            shards=settings.shards,
            who=settings.who,
            observer=settings.observer,
            lease=settings.lease,
            attached=not settings.own_kinds,
            batch_max=settings.batch_max,
            in_flight_max=settings.in_flight_max,
            bind_timeout_s=settings.bind_timeout_s,
        )
