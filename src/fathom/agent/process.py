"""The agent of one node, as a process on a Domain: `begin` is its entry, live, simulated and replayed."""

from __future__ import annotations

import asyncio

import msgspec

from fathom.agent.addresses import candidates
from fathom.agent.events import Events
from fathom.agent.heartbeat import Heartbeat
from fathom.agent.metrics import measure_agent
from fathom.agent.node import address_of, new_node
from fathom.agent.pods import NodePods
from fathom.agent.reporter import Reporter
from fathom.agent.runtime import Runtime
from fathom.agent.runtime_client import USED, SeamRuntime
from fathom.agent.settings import AgentSettings
from fathom.agent.simulated import SimulatedRuntime
from fathom.agent.simulated_machine import SimulatedMachine
from fathom.client.api import Api
from fathom.control.breaker import Guarded
from fathom.control.decision_log import log_of
from fathom.control.process import Controllers, ControllerSettings
from fathom.model.decision import Decision, Journal
from fathom.model.objects import Obj, lookup
from fathom.model.well_known import ACTOR_HEADER
from fathom.seams.process import Inside
from fathom.seams.seam import Ask

ENTRY = "agent"
USAGE_S = 15.0


def begin(inside: Inside, *, machine: SimulatedMachine | None = None) -> Agent:
    """The entry: see `seams.process`. Options are `AgentSettings`. `machine`: where simulated containers,
    or their addresses, outlive the agent."""
    settings = msgspec.convert(inside.options, AgentSettings)
    if not settings.pod_range:
        settings = msgspec.structs.replace(settings, pod_range=next(candidates(settings.node)))
    inside.journal = AgentJournal(inside.journal, settings.node)
    agent = Agent(inside, settings, machine)
    agent.start()
    return agent


class AgentJournal:
    """Says in each decision which agent made it: agents of one process share a journal."""

    def __init__(self, journal: Journal, node: str) -> None:
        self._journal = journal
        self._node = node
        self.concluded = journal.concluded
        self.tabled = journal.tabled

    def decided(self, decision: Decision) -> None:
        self._journal.decided(msgspec.structs.replace(decision, agent=self._node))


class Agent:
    def __init__(
        self, inside: Inside, settings: AgentSettings, machine: SimulatedMachine | None = None
    ) -> None:
        self.settings = settings
        self._machine = machine
        self._inside = inside
        outside, streams = inside.outside, inside.streams
        self.runtime = self._runtime()
        self.pods = NodePods(
            self.runtime,
            clock=outside.clock,
            host_ip=address_of(settings),
            rng=streams.stream("probes"),
            event=self._say,
            log=inside.log,
            heard_ns=lambda: self.heartbeat.heard_ns,
            node=self,
        )
        self.controllers = Controllers(inside, [Reporter(self.pods)], self._controller_settings())
        self.controllers.caches.on_change("Pod", self.pods.observe)
        decisions = log_of(inside, "agent")
        self.heartbeat = Heartbeat(
            settings,
            self._api(vital=True),
            clock=outside.clock,
            rng=streams.stream("heartbeat"),
            log=inside.log,
            decisions=decisions,
        )
        self.heartbeat.on_heard = self.pods.look_at_all
        self.events = Events(
            settings, self._api(vital=False), clock=outside.clock, ids=outside.ids, decisions=decisions
        )
        self._tasks: list[asyncio.Task[None]] = []
        measure_agent(inside.metrics, settings.node, self.pods, self.heartbeat, outside.clock)

    def start(self) -> None:
        self.task = self._inside.domain.create_task(self.run(), name="agent")
        self.task.add_done_callback(self._ended)

    async def run(self) -> None:
        """Run until stopped. Containers stay: the next agent adopts them."""
        loop = asyncio.get_running_loop()
        listening: asyncio.Future[None] = loop.create_future()
        self._tasks = [
            loop.create_task(self.runtime.listen(self.pods.ended, lambda: _set(listening))),
            loop.create_task(self.heartbeat.run()),
            loop.create_task(self.events.run()),
        ]
        try:
            await listening
            self._tasks.append(loop.create_task(self._end_orphans()))
            if isinstance(self.runtime, SimulatedRuntime) and self.settings.port:
                self._tasks.append(loop.create_task(self._tell_usage(self.runtime)))
            await self.controllers.run()
        finally:
            self.pods.cancel()
            for task in self._tasks:
                task.cancel()

    # The methods of `pods.NodeSource`.

    def known(self) -> Obj | None:
        return self.heartbeat.node

    async def fetch(self) -> Obj | None:
        """The Node; if it is missing or has no allocatable resources, the one that we will write."""
        node = await self.heartbeat.fetch_node()
        described = node is not None and lookup(node, "status", "allocatable")
        return node if described else new_node(self.settings, "")

    async def synced(self) -> None:
        while await self.controllers.caches.until_synced(timeout_s=60.0):
            pass

    def _say(self, pod: Obj, container: str, type_: str, reason: str, message: str) -> None:
        self.events.report(pod, container, type_, reason, message)

    async def _tell_usage(self, runtime: SimulatedRuntime) -> None:
        """Report simulated usage to the host: it measures real processes, but cannot measure scripts."""
        while True:
            usage = runtime.usage(self.settings.node, USAGE_S)
            await self._inside.seam.request(Ask("POST", USED, msgspec.json.encode(usage)), timeout_s=USAGE_S)
            await asyncio.sleep(USAGE_S)

    async def _end_orphans(self) -> None:
        await self.synced()
        await self.pods.adopt_orphans()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            message = "the agent failed"
            self._inside.domain.call_exception_handler({"message": message, "exception": error})

    def _runtime(self) -> Runtime:
        settings = self.settings
        if settings.driver == "simulated":
            clock = self._inside.outside.clock
            return SimulatedRuntime(
                settings.script,
                clock=clock,
                pod_range=settings.pod_range,
                reported=self._reported_addresses,
                scripts=settings.scripts,
                takes_over=settings.takes_over,
                machine=self._machine,
            )
        return SeamRuntime(self._inside.seam)

    def _reported_addresses(self) -> set[str]:
        return self.pods.reported_addresses()

    def _controller_settings(self) -> ControllerSettings:
        settings = self.settings
        return ControllerSettings(
            target=settings.target,
            who=settings.node,
            workers=settings.workers,
            user_agent=settings.user_agent,
            actor=f"agent/{settings.node}",
            drain_s=settings.drain_s,
            fields={"Pod": f"spec.nodeName={settings.node}"},
            bookmark_s=settings.bookmark_s,
        )

    def _api(self, *, vital: bool) -> Api:
        guarded = Guarded(self._inside.seam, self.controllers.breaker, vital=vital)
        actor = f"agent/{self.settings.node}"
        return Api(guarded, headers=(("user-agent", self.settings.user_agent), (ACTOR_HEADER, actor)))


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
