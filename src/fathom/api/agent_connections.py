"""The protocol by which the API server asks node agents for logs, usage and reachability.

A protocol, because the core has no sockets. Agents' addresses are in the Node objects, which only the agents
may write; the certificate there is the one to trust.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

from fathom.api.request import StreamSource, Tunnel
from fathom.model.errors import ApiError, unavailable
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.well_known import CERTIFICATE_ANNOTATION


class AgentAddress(msgspec.Struct, frozen=True):
    node: str
    host: str
    port: int
    certificate: str  # PEM
    whose: str = "the agent of node"  # The words before the name in messages.


class LogAsk(msgspec.Struct, frozen=True):
    namespace: str
    pod: str
    uid: str
    container: str
    options: tuple[tuple[str, str], ...]  # Named as at the agent's endpoint.


class ConnectAsk(msgspec.Struct, frozen=True):
    """One connection into a pod, and the client's own part of the WebSocket handshake."""

    action: str  # exec, attach, portforward
    namespace: str
    pod: str
    uid: str
    container: str  # '' for port-forward.
    options: tuple[tuple[str, str], ...]  # Named as in Kubernetes; `command` and `ports` may be repeated.
    key: str  # Sec-WebSocket-Key
    protocol: str  # The subprotocol that was chosen.


class ReachedAgent(msgspec.Struct, frozen=True):
    """The result of trying to reach a node. `alive`: its agent answered. `unsure`: the machine answered and
    the agent did not, so pods may still run there. `gone`: nothing answered. `unknown`: it could not be
    tried."""

    verdict: Literal["alive", "unsure", "gone", "unknown"]
    message: str = ""


class Agents(Protocol):
    async def logs(self, at: AgentAddress, ask: LogAsk) -> StreamSource:
        """Raises ApiError."""
        ...

    async def connect(self, at: AgentAddress, ask: ConnectAsk) -> tuple[Tunnel, tuple[tuple[str, str], ...]]:
        """A connection on which the agent speaks WebSocket with the client, and the headers of its answer.
        Raises ApiError."""
        ...

    async def usage(self, at: AgentAddress) -> dict[str, Any]:
        """What the node's containers use, as its agent reports it. Raises ApiError."""
        ...

    async def page(self, at: AgentAddress, path: str) -> tuple[int, bytes]:
        """A page of an agent or another process: status and text. Raises ApiError."""
        ...

    async def reach(self, node: Obj) -> ReachedAgent:
        """Whether the node's machine and agent answer, tried now."""
        ...


class NoAgents:
    """For simulations, where agents cannot be reached."""

    async def logs(self, at: AgentAddress, ask: LogAsk) -> StreamSource:
        raise _unreachable(at.node, "this server cannot connect to agents")

    async def connect(self, at: AgentAddress, ask: ConnectAsk) -> tuple[Tunnel, tuple[tuple[str, str], ...]]:
        raise _unreachable(at.node, f"this server cannot connect to agents, so there is no {ask.action}")

    async def usage(self, at: AgentAddress) -> dict[str, Any]:
        raise _unreachable(at.node, "this server cannot connect to agents")

    async def page(self, at: AgentAddress, path: str) -> tuple[int, bytes]:
        raise _unreachable(at.node, "this server cannot connect to agents")

    async def reach(self, node: Obj) -> ReachedAgent:
        return ReachedAgent("unknown", "this server cannot connect to agents")


def address_of(node: Obj) -> AgentAddress:
    """Raises ApiError if the node has no address."""
    name = str(metadata(node).get("name"))
    port = lookup(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port") or 0
    certificate = (metadata(node).get("annotations") or {}).get(CERTIFICATE_ANNOTATION, "")
    hosts = [
        address["address"]
        for address in lookup(node, "status", "addresses") or ()
        if address.get("type") == "InternalIP" and address.get("address")
    ]
    if not port or not certificate or not hosts:
        raise _unreachable(name, "its agent serves neither logs nor metrics")
    return AgentAddress(name, str(hosts[0]), int(port), str(certificate))


def _unreachable(node: str, why: str) -> ApiError:
    return unavailable(f"the agent of node {node} cannot be reached: {why}")
