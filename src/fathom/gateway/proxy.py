"""The TCP proxy: listens at Service addresses, connects to picked endpoints, probes all endpoints.

The only file of the gateway with sockets; it decides nothing.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from functools import partial

import msgspec

from fathom.gateway.actor import POLL_S
from fathom.gateway.balance import Balancer
from fathom.gateway.routes import RouteEndpoint, Table
from fathom.gateway.service_counts import Result, ServiceNumbers
from fathom.gateway.streams import Exchange, Peer, break_off
from fathom.kept_sockets import KeptSockets
from fathom.seams.log import Log
from fathom.seams.loop_clock import loop_now_s

CONNECT_S = 2.0
SOON_S = 0.1  # Doubled each time.
PROBES_AT_ONCE = 64
BACKLOG = 4096  # Clients that may connect within one turn of the loop; the kernel has its own bound.
# So many probes in a row must fail: a single one may hit a full backlog.
UNSEEN_MAX = 3

Address = tuple[str, int]
Pod = tuple[str, str]  # Its name and its uid.
# (pod, uid, whether it can be reached)
Observe = Callable[[str, str, bool], None]


class AppliedRoutes(msgspec.Struct, frozen=True):
    """The result of applying a table."""

    listening: int
    failed: dict[str, str]  # Service -> why its address cannot be listened on.


class ProxyReport(msgspec.Struct, frozen=True):
    """Which pods the proxy reaches, and the connections of each Service until now."""

    reached: dict[str, bool] = {}  # Pod's UID -> whether it is reached; unknown pods are absent.
    totals: dict[str, tuple[int, int]] = {}  # Service -> connections carried, and those without an endpoint.


class ProxyNumbers(msgspec.Struct):
    """Sums over all Services since the start: there may be any number of Services."""

    carried: int = 0
    nobody: int = 0  # Connections for which no endpoint could be reached.
    connect_failures: int = 0  # Endpoints that refused or timed out; another was tried.
    listeners_failed: int = 0  # Services whose address could not be listened on, of the last table.


def _name_of(where: Address) -> str:
    address, port = where
    return f"{address} {port}"


class Proxy:
    def __init__(self, observe: Observe, log: Log, kept: KeptSockets | None = None) -> None:
        self._observe = observe
        self._log = log
        self._kept = kept or KeptSockets()
        self._balancers: dict[Address, Balancer] = {}
        self._servers: dict[Address, asyncio.Server] = {}
        self._unseen: dict[RouteEndpoint, int] = {}  # Failed probes in a row; 0: it was reached.
        self._ports: dict[Pod, list[RouteEndpoint]] = {}  # By pod: its endpoints behind Services.
        self._reported: dict[Pod, bool] = {}  # The last observation reported for the pod.
        self._totals: dict[str, tuple[int, int]] = {}
        self.numbers = ProxyNumbers()
        self.services = ServiceNumbers(loop_now_s())
        self._connections: set[asyncio.Task[None]] = set()
        self._table_changed = asyncio.Event()  # A new table whose endpoints are not probed yet.
        self._first_probes: set[RouteEndpoint] = set()  # New endpoints in their first probe.
        self._probe_slots = asyncio.Semaphore(PROBES_AT_ONCE)

    # The table.

    async def apply(self, table: Table) -> AppliedRoutes:
        wanted = {(each.address, each.port): each for each in table}
        self.services.change(table)
        for where in [where for where in self._servers if where not in wanted]:
            self._servers.pop(where).close()
            del self._balancers[where]
            self._kept.drop(_name_of(where))
        failed: dict[str, str] = {}
        for where, listener in wanted.items():
            if where in self._balancers:
                self._balancers[where].change(listener)
            elif why := await self._listen(where, Balancer(listener)):
                before = failed.get(listener.service)
                failed[listener.service] = f"{before}; {why}" if before else why
        for name in self._kept.unclaimed:  # Of Services that went while this process was restarted.
            self._kept.drop(name)
        endpoints = {endpoint for listener in table for endpoint in listener.endpoints}
        self._unseen = {each: count for each, count in self._unseen.items() if each in endpoints}
        self._ports = {}
        for each in sorted(endpoints):
            self._ports.setdefault((each.pod, each.uid), []).append(each)
        self._reported = {pod: reached for pod, reached in self._reported.items() if pod in self._ports}
        self._table_changed.set()
        self.numbers.listeners_failed = len(failed)
        return AppliedRoutes(len(self._servers), failed)

    async def _listen(self, where: Address, balancer: Balancer) -> str:
        address, port = where
        carry = partial(self._carry, balancer)
        there = self._kept.take(_name_of(where))
        try:
            if there is not None:
                server = await asyncio.start_server(carry, sock=there, backlog=BACKLOG)
            else:
                server = await asyncio.start_server(carry, address, port, reuse_address=True, backlog=BACKLOG)
                self._kept.keep(_name_of(where), server.sockets[0].fileno())
        except OSError as error:
            return f"{address}:{port}: {why_not(error, port)}"
        self._servers[where] = server
        self._balancers[where] = balancer
        return ""

    async def close(self) -> None:
        for where, server in self._servers.items():
            self._kept.put_back(_name_of(where), server.sockets[0].fileno())
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    # Connections.

    async def _carry(
        self, balancer: Balancer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            client = str((writer.get_extra_info("peername") or ("",))[0])
            await self._with_endpoint(balancer, client, reader, writer)
        except asyncio.CancelledError:
            pass  # The proxy stops; nothing awaits this task.
        finally:
            self._connections.discard(task)
            writer.close()

    async def _with_endpoint(
        self, balancer: Balancer, client: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Without an endpoint the connection is reset: a normal close might pass for an empty answer."""
        tried: list[RouteEndpoint] = []
        while (endpoint := balancer.pick(client, now_s=loop_now_s(), tried=tried)) is not None:
            tried.append(endpoint)
            try:
                async with asyncio.timeout(CONNECT_S):
                    far_reader, far_writer = await asyncio.open_connection(endpoint.address, endpoint.port)
            except (OSError, TimeoutError) as error:
                if is_own_want(error):
                    self._ended(balancer, "gateway_full")
                    return
                self.numbers.connect_failures += 1
                balancer.failed(endpoint, now_s=loop_now_s())
                continue
            self._record_reached(endpoint, True)
            self._count(balancer, carried=1)
            balancer.connected(endpoint)
            exchange = Exchange(
                Peer("client", reader, writer), Peer("endpoint", far_reader, far_writer), loop_now_s()
            )
            try:
                await exchange.carry()
            finally:
                balancer.closed(endpoint)
                far_writer.close()
            broken = exchange.broken_by == "endpoint"
            self._ended(balancer, "reset" if broken else "carried", exchange.response_s)
            return
        self._count(balancer, failed=1)
        self._ended(balancer, "no_endpoint")
        break_off(writer)

    def _count(self, balancer: Balancer, *, carried: int = 0, failed: int = 0) -> None:
        self.numbers.carried += carried
        self.numbers.nobody += failed
        service = balancer.listener.service
        before = self._totals.get(service, (0, 0))
        self._totals[service] = (before[0] + carried, before[1] + failed)

    def _ended(self, balancer: Balancer, result: Result, response_s: float | None = None) -> None:
        service = balancer.listener.service
        self.services.count(service, result, loop_now_s())
        if response_s is not None:
            self.services.responded(service, response_s)

    @property
    def connections(self) -> int:
        """Connections open now."""
        return len(self._connections)

    @property
    def listeners(self) -> int:
        return len(self._servers)

    def endpoints(self) -> tuple[int, int]:
        """How many endpoints there are, and how many of them cannot be reached."""
        all_endpoints = self._endpoints()
        return len(all_endpoints), sum(self._unseen.get(each, 0) >= UNSEEN_MAX for each in all_endpoints)

    # Probing.

    def proxy_report(self) -> ProxyReport:
        """Which pods are reached, of those on real nodes: connecting to a simulated node's pod proves
        nothing."""
        services = {balancer.listener.service for balancer in self._balancers.values()}
        self._totals = {name: counts for name, counts in self._totals.items() if name in services}
        reached = {}
        for (_, uid), endpoints in self._ports.items():
            counts = [self._unseen.get(each) for each in endpoints if each.real]
            if any(count == 0 for count in counts):
                reached[uid] = True
            elif counts and all(count is not None and count >= UNSEEN_MAX for count in counts):
                reached[uid] = False
        return ProxyReport(reached, dict(self._totals))

    async def probe_for_ever(self) -> None:
        """Probe new endpoints at once, all others every POLL_S."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._probe_all())
            while True:
                await self._table_changed.wait()
                self._table_changed.clear()
                for each in self._endpoints():
                    if each not in self._unseen and each not in self._first_probes:
                        self._first_probes.add(each)
                        group.create_task(self._probe_new(each))

    async def _probe_all(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            await asyncio.gather(*(self._look(each) for each in self._endpoints() if each in self._unseen))

    async def _probe_new(self, endpoint: RouteEndpoint) -> None:
        """A pod may report ready a moment before it listens: until it is reached it is probed more often.
        Such a probe counts only if it succeeds."""
        await self._look(endpoint)
        self._first_probes.discard(endpoint)
        pause_s = SOON_S
        while pause_s < POLL_S:
            await asyncio.sleep(pause_s)
            pause_s *= 2
            if not self._unseen.get(endpoint):
                return  # It was reached, or has left the table.
            if await self._accepts(endpoint):
                self._record_reached(endpoint, True)

    def _endpoints(self) -> list[RouteEndpoint]:
        balancers = self._balancers.values()
        return list(dict.fromkeys(each for balancer in balancers for each in balancer.listener.endpoints))

    async def _look(self, endpoint: RouteEndpoint) -> None:
        reached = await self._accepts(endpoint)
        if reached is not None:
            self._record_reached(endpoint, reached)

    async def _accepts(self, endpoint: RouteEndpoint) -> bool | None:
        """Whether a connection succeeds; None if we lack resources to try."""
        if not endpoint.real:
            return True
        async with self._probe_slots:
            try:
                async with asyncio.timeout(CONNECT_S):
                    _, writer = await asyncio.open_connection(endpoint.address, endpoint.port)
            except (OSError, TimeoutError) as error:
                return None if is_own_want(error) else False
        writer.close()
        return True

    def _record_reached(self, endpoint: RouteEndpoint, reached: bool) -> None:
        """A pod is reached when one of its ports is: not every program listens on all ports that Services
        name."""
        count = self._unseen[endpoint] = 0 if reached else self._unseen.get(endpoint, 0) + 1
        pod = (endpoint.pod, endpoint.uid)
        another_reached = any(self._unseen.get(each) == 0 for each in self._ports.get(pod, ()))
        if (
            not endpoint.pod
            or self._reported.get(pod) == (reached or another_reached)
            or 0 < count < UNSEEN_MAX
        ):
            return
        self._reported[pod] = reached or another_reached
        self._observe(endpoint.pod, endpoint.uid, reached or another_reached)


def is_own_want(error: OSError | TimeoutError) -> bool:
    """Whether we ran out of file descriptors or memory, which says nothing about the endpoint."""
    return error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


def why_not(error: OSError, port: int) -> str:
    if error.errno == errno.EACCES and port < 1024:
        allow = f"sudo sysctl net.ipv4.ip_unprivileged_port_start={port}"
        return f"ports below 1024 need root: give the service another port, or allow this one: {allow}"
    return os.strerror(error.errno) if error.errno else str(error)
