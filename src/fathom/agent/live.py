"""Run live agents: one process, any number of nodes, each with its own Domain, client and endpoint.

run_agents_live(AgentsWanted(...), stop=event)      for a supervisor, and for `fathom serve agent`
"""

from __future__ import annotations

import asyncio
import base64
import gc
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from fathom import __version__, data_format, private_files
from fathom.agent.addresses import node_address
from fathom.agent.host.api_reads import Fetcher
from fathom.agent.host.backend import AgentBackend
from fathom.agent.host.driver import DriverSettings, ProcessDriver
from fathom.agent.host.endpoint import AgentEndpoint, make_certificate, tls_context
from fathom.agent.host.ids import HostIds
from fathom.agent.host.images import ImagesFile
from fathom.agent.host.launch import LOG_BYTES, Rights
from fathom.agent.host.limits import LimitEnforcement, find_means
from fathom.agent.host.machine import AlreadyRuns, capacity, claim_range, facts, find_rights, lock_node
from fathom.agent.host.records import Records
from fathom.agent.host.traced_calls import TracedCalls
from fathom.agent.host.usage import SAMPLE_S, Sampler
from fathom.agent.node import CAPACITY, region_of
from fathom.agent.process import ENTRY
from fathom.agent.settings import AgentSettings, Driver, Script
from fathom.agent.usage import NodeUsage
from fathom.client.credentials import NoCredentials
from fathom.client.http import HttpBackend, ServerAddress
from fathom.client.kubeconfig import BadKubeconfig, read_context
from fathom.client.servers import find_files, server_of
from fathom.metrics.process import process_metrics
from fathom.metrics.registry import Registry
from fathom.model.backoff import Backoff
from fathom.model.decision import NoJournal
from fathom.record.journal import DiskJournal
from fathom.record.journals import SMALL_BUDGET_BYTES, data_directory
from fathom.record.kept_windows import KeptWindows
from fathom.record.metrics import measure_records
from fathom.record.recorded_process import RecordedProcess
from fathom.record.ring import RingBusy
from fathom.record.tape import DiskTape
from fathom.seams.host import Host
from fathom.seams.log import Log
from fathom.seams.outside import Outside, live
from fathom.traces.opened import traced
from fathom.traces.queue import SpanQueue

NODE_USER, NODES = "system:node:", "system:nodes"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ASK_AGAIN = Backoff(0.2, 5.0)  # For our user name, while the API server starts.
REFRESH_S = 30.0  # How old a mounted ConfigMap may be.
SIMULATED_BOOKMARK_S = 15.0  # A hundred nodes need no bookmark every second each.


class NodeWanted(msgspec.Struct, frozen=True):
    name: str
    zone: str = ""
    region: str = ""
    labels: dict[str, str] = {}


class AgentsWanted(msgspec.Struct, frozen=True, kw_only=True):
    nodes: tuple[NodeWanted, ...]
    kubeconfig: Path | None = None
    address: str = ""  # Where API servers reach the agents; '': an address of this machine's loopback.
    data: Path
    driver: Driver = "process"
    images: ImagesFile = msgspec.field(default_factory=ImagesFile)
    capacity: dict[str, str] = {}  # Per node; resources not named: its share of the machine.
    script: Script = Script()
    hide: tuple[Path, ...] = ()  # Hidden from pods besides the agents' own files: the API server's data.
    allow_root: bool = False
    host_ids: HostIds = HostIds()  # UIDs and GIDs of the machine that pods may use.
    log_bytes: int = LOG_BYTES
    record: Path | None = None  # Keep a tape of each node's agent there.
    journal: Path | None = None  # Keep the decisions of all agents there.
    restarts: int = 0  # How often a supervisor has restarted us.


def named_nodes(
    *, name: str = "", count: int = 1, zones: Sequence[str] = (), region: str = ""
) -> tuple[NodeWanted, ...]:
    """One node by its name, or `node-1` … spread over the zones in turn. A region that is not given follows
    from the zone."""
    stem = name or "node"
    names = [name] if name and count == 1 else [f"{stem}-{number + 1}" for number in range(count)]
    if not zones:
        return tuple(NodeWanted(each, "", region) for each in names)
    placed = [(each, zones[number % len(zones)]) for number, each in enumerate(names)]
    return tuple(NodeWanted(each, zone, region or region_of(zone)) for each, zone in placed)


async def run_agents_live(
    wanted: AgentsWanted,
    *,
    stop: asyncio.Event,
    log: Log,
    outside: Outside | None = None,
    ready: Callable[[], None] = lambda: None,
    traces: SpanQueue | None = None,
) -> None:
    """Run on the host's loop until `stop` is set. Containers stay: the next agents adopt them. Raises
    `AlreadyRuns`, `BadKubeconfig`, and the error of an agent that cannot continue."""
    outside = outside or live()
    machine = _machine(wanted, outside, log)
    resume_gc = gc.isenabled()
    gc.disable()  # Several Domains in one interpreter: none of them may switch it back on.
    nodes: list[LiveNode] = []
    journal = _open_journal(wanted.journal, log)
    try:
        for node in wanted.nodes:
            server = await node_server(wanted.kubeconfig, node.name, outside=outside)
            nodes.append(LiveNode(node.name, journal, traces))
            await nodes[-1].open(wanted, node, server, machine)
        ready()
        await _until_stopped(nodes, stop)
    finally:
        for live_node in nodes:
            await live_node.close()
        if journal is not None:
            journal.close()
        if resume_gc:
            gc.enable()


def _open_journal(directory: Path | None, log: Log) -> DiskJournal | None:
    """One journal for all nodes of the process. Raises AlreadyRuns."""
    if directory is None:
        return None
    try:
        kept = KeptWindows(data_directory(directory), directory.name)
        return DiskJournal(directory, budget_bytes=SMALL_BUDGET_BYTES, log=log, kept=kept)
    except RingBusy as error:
        raise AlreadyRuns(f"{error}: are these agents running already?") from error


class AgentMachine(msgspec.Struct, frozen=True):
    rights: Rights
    means: LimitEnforcement
    facts: dict[str, str]
    capacity: dict[str, str]
    notice: str
    outside: Outside
    log: Log


def _machine(wanted: AgentsWanted, outside: Outside, log: Log) -> AgentMachine:
    data_format.check(wanted.data)
    for warning in private_files.prepare_directory(wanted.data):
        log.warn("data directory", warning=warning)
    data_format.adopt(wanted.data)
    if wanted.driver == "simulated":
        return AgentMachine(
            Rights(False, False),
            LimitEnforcement(""),
            facts(),
            {**CAPACITY, **wanted.capacity},
            "",
            outside,
            log,
        )
    hide = (wanted.data, *wanted.hide)
    rights, warning = find_rights(hide, allow_root=wanted.allow_root, host_ids=wanted.host_ids)
    means = find_means(wanted.nodes[0].name)
    for note in (warning, means.note):
        if note:
            log.warn("agent", warning=note)
    share = {**capacity(len(wanted.nodes), wanted.data), **wanted.capacity}
    return AgentMachine(
        rights, means, facts(), share, "; ".join(filter(None, (warning, means.note))), outside, log
    )


async def _until_stopped(nodes: Sequence[LiveNode], stop: asyncio.Event) -> None:
    running = [asyncio.create_task(node.flight.run()) for node in nodes]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((*running, stopping), return_when=asyncio.FIRST_COMPLETED)
        for node in nodes:
            node.flight.stop()
        await asyncio.gather(*running)
        if not stop.is_set():
            raise RuntimeError("an agent ended unexpectedly: see its log")
    finally:
        for task in (*running, stopping):
            task.cancel()


# Identity.


async def node_server(kubeconfig: Path | None, node: str, *, outside: Outside) -> ServerAddress:
    """The API server, with the node's credentials. A directory has a kubeconfig for each node. Of a file, the
    context named like the node is used, or the current one; if that is another user, it impersonates the node
    and must be allowed to."""
    if _is_directory(kubeconfig):
        return _server(kubeconfig / node, "", outside)  # type: ignore[operator]  # it is there
    server = _server(kubeconfig, node, outside)
    if await _whoami(server) == f"{NODE_USER}{node}":
        return server
    return msgspec.structs.replace(server, credentials=_Impersonating(server, node))


def _is_directory(kubeconfig: Path | None) -> bool:
    return kubeconfig is not None and kubeconfig.is_dir()


def _server(kubeconfig: Path | None, node: str, outside: Outside) -> ServerAddress:
    files = find_files(kubeconfig, os.environ)
    if not files:
        raise BadKubeconfig("no kubeconfig: name one with --kubeconfig, or set KUBECONFIG")
    try:
        context = read_context(files, node)
    except BadKubeconfig:
        context = read_context(files)
    return server_of(context, clock=outside.clock, environ=os.environ)


def authority_of(kubeconfig: Path | None, node: str) -> bytes:
    """The cluster's CA, as PEM; empty if the kubeconfig has none."""
    file = kubeconfig / node if kubeconfig is not None and _is_directory(kubeconfig) else kubeconfig
    cluster: Mapping[str, Any] = read_context(find_files(file, os.environ)).cluster
    if inline := cluster.get("certificate-authority-data"):
        return base64.b64decode(str(inline))
    if named := cluster.get("certificate-authority"):
        return Path(str(named)).read_bytes()
    return b""


class _Impersonating:
    """Credentials that impersonate a node."""

    def __init__(self, server: ServerAddress, node: str) -> None:
        self._server = server
        self._headers = (("impersonate-user", f"{NODE_USER}{node}"), ("impersonate-group", NODES))

    def __call__(self) -> tuple[tuple[str, str], ...]:
        return (*self._server.credentials(), *self._headers)


async def _whoami(server: ServerAddress) -> str:
    """Our user name, asked until the API server answers, so that we never impersonate by mistake."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    timeout = aiohttp.ClientTimeout(total=30, sock_connect=5)
    connector = aiohttp.TCPConnector(ssl=server.tls)
    failures = 0
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        while True:
            try:
                if server.renewing is not None:
                    await server.renewing.renew()
                async with session.post(
                    server.url + WHO, json=body, headers=server.credentials(),
                    server_hostname=server.server_name or None,
                ) as response:  # fmt: skip
                    answer = await response.json(content_type=None)
                    if response.status == 201:
                        return str(answer["status"]["userInfo"]["username"])
                    if response.status in {401, 403}:
                        raise BadKubeconfig(f"{server.url} rejected the credentials: {answer.get('message')}")
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError, NoCredentials):
                pass  # The server may still be starting.
            failures += 1
            await asyncio.sleep(ASK_AGAIN.whole_s(failures))


# One node.


class LiveNode:
    def __init__(
        self, name: str, journal: DiskJournal | None = None, traces: SpanQueue | None = None
    ) -> None:
        self.name = name
        self._traces = traces  # Shared too.
        self._journal = journal  # Shared by all nodes of the process, which closes it.
        self.flight: RecordedProcess
        self._closing: list[Callable[[], Any]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._reported = NodeUsage(name, 0, 0, 0, 0)  # Reported by simulated containers.
        self.registry = Registry()  # One per node, as each is its own agent.

    async def open(
        self, wanted: AgentsWanted, node: NodeWanted, server: ServerAddress, machine: AgentMachine
    ) -> None:
        log = machine.log
        directory = wanted.data / node.name
        lock = lock_node(directory, node.name)
        self._closing.append(lambda: os.close(lock))
        claimed = claim_range(directory, node.name)
        self._closing.append(claimed.lock.close)
        address = wanted.address or node_address(claimed.pod_range)
        driver = await self._driver(wanted, server, machine, claimed.pod_range)
        port, certificate = await self._endpoint(wanted, directory, address, driver, log)
        settings = AgentSettings(
            node=node.name, driver=wanted.driver, zone=node.zone, region=node.region, labels=node.labels,
            capacity=machine.capacity, pod_range=claimed.pod_range, address=address, port=port,
            certificate=certificate, facts=machine.facts, notice=machine.notice, target=server.url,
            user_agent=f"fathom-agent/{__version__}", script=wanted.script,
            bookmark_s=SIMULATED_BOOKMARK_S if wanted.driver == "simulated" else 2.0,
        )  # fmt: skip

        calls = None
        if self._traces is not None:
            calls = TracedCalls(self._traces.of("agent"), node.name, machine.outside.clock)
            self.registry.register("traces", self._traces.collect)

        def connect(host: Host) -> AgentBackend:
            http = HttpBackend(host, server)
            return AgentBackend(host, http, driver, log, used=self._used, traces=calls)

        tape = None
        if wanted.record:
            kept = KeptWindows(wanted.record.parent, node.name)
            tape = DiskTape(wanted.record / node.name, log=log, kept=kept)
        if tape is not None:
            self._closing.append(tape.close)
        metrics = self.registry.part("agent")
        measure_records(metrics, self._journal, tape)
        self.registry.register("process", process_metrics(restarts=wanted.restarts, version=__version__))
        self.flight = RecordedProcess(
            ENTRY, msgspec.to_builtins(settings), connect=connect, outside=machine.outside, tape=tape,
            about={"server": server.url}, journal=traced(self._journal or NoJournal(), self._traces, "agent"),
            log=log, grace_s=settings.drain_s + 5.0, metrics=metrics,
        )  # fmt: skip

    async def _driver(
        self, wanted: AgentsWanted, server: ServerAddress, machine: AgentMachine, pod_range: str
    ) -> ProcessDriver | None:
        if wanted.driver != "process":
            return None
        settings = DriverSettings(
            self.name, wanted.data / self.name, pod_range, node_address(pod_range), wanted.images,
            machine.rights, machine.means, machine.capacity, wanted.log_bytes,
        )  # fmt: skip
        fetcher = Fetcher(server)
        driver = ProcessDriver(settings, fetcher, machine.log)
        self._closing += [driver.close, fetcher.close]
        self._tasks.append(asyncio.create_task(_refresh(driver, machine.log)))
        return driver

    async def _endpoint(
        self, wanted: AgentsWanted, directory: Path, address: str, driver: ProcessDriver | None, log: Log
    ) -> tuple[int, str]:
        """Start the node's endpoint; its port and its certificate."""
        authority = authority_of(wanted.kubeconfig, self.name)
        if not authority:
            log.warn(
                "agent",
                warning="the kubeconfig has no certificate-authority: logs and metrics are not served",
            )
            return 0, ""
        sampler = Sampler(self.name, driver.records) if driver is not None else None
        if sampler is not None:
            self._tasks.append(asyncio.create_task(_sample(sampler, log)))
        endpoint = AgentEndpoint(
            driver.records if driver is not None else None,
            (lambda: sampler.usage) if sampler is not None else (lambda: self._reported),
            self.registry,
            self.name,
        )
        own = make_certificate(self.name, address, directory)
        port = await endpoint.listen(address, 0, tls_context(own, authority))
        self._closing.append(endpoint.close)
        return port, own.certificate

    def _used(self, usage: NodeUsage) -> None:
        self._reported = usage

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for close in reversed(self._closing):
            answer = close()
            if asyncio.iscoroutine(answer):
                await answer


async def _refresh(driver: ProcessDriver, log: Log) -> None:
    while True:
        await asyncio.sleep(REFRESH_S)
        try:
            await driver.refresh()
        except OSError as error:  # Out of file descriptors, for example: may be temporary.
            log.warn("volumes could not be refreshed", error=str(error))


async def _sample(sampler: Sampler, log: Log) -> None:
    while True:
        try:
            sampler.sample()
        except OSError as error:
            log.warn("usage could not be measured", error=str(error))
        await asyncio.sleep(SAMPLE_S)


__all__ = ["AgentsWanted", "AlreadyRuns", "NodeWanted", "Records", "named_nodes", "run_agents_live"]
