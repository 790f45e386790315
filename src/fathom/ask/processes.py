"""The processes that can be asked: found as their metrics are found, each by its own certificate.

The scheduler, the controllers and the gateway publish an EndpointSlice in `fathom-system`, which only the
accounts of fathom and administrators may write; an agent publishes its address in its Node, which no other
agent may write. The certificate beside the address is the only one that is trusted.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.api.agent_connections import AgentAddress, address_of
from fathom.api.process_pages import process_address
from fathom.explain.evidence import Objects
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, key_of, labels_of, lookup, metadata
from fathom.model.processes import PREFIX, PROCESS, parts_of, short_name
from fathom.model.resource_names import SLICES


class RegisteredProcess(msgspec.Struct, frozen=True):
    name: str  # 'deciders'
    parts: tuple[str, ...]
    address: AgentAddress | None
    why: str = ""  # Why it has no address.


def registered_processes(objects: Objects) -> list[RegisteredProcess]:
    """By name. Several of one name have the names of their slices."""
    slices = [
        slice_
        for slice_ in objects.list(SLICES, SYSTEM_NAMESPACE)
        if str(metadata(slice_)["name"]).startswith(PREFIX)
    ]
    names = [labels_of(slice_).get(PROCESS, "") for slice_ in slices]
    return [
        _process(name if name and names.count(name) == 1 else short_name(slice_), slice_)
        for name, slice_ in zip(names, slices, strict=True)
    ]


def _process(name: str, slice_: Obj) -> RegisteredProcess:
    try:
        return RegisteredProcess(name, parts_of(slice_), process_address(slice_))
    except ApiError as error:
        return RegisteredProcess(name, parts_of(slice_), None, error.message)


def agents_of(objects: Objects, nodes: Iterable[str]) -> list[RegisteredProcess]:
    agents = []
    for name in sorted(set(nodes)):
        node = objects.get("nodes", Key("", name))
        if node is None:
            continue
        try:
            agents.append(RegisteredProcess(f"agent of {name}", ("agent",), address_of(node)))
        except ApiError as error:
            agents.append(RegisteredProcess(f"agent of {name}", ("agent",), None, error.message))
    return agents


def nodes_with_agents(objects: Objects) -> list[str]:
    """Names of the nodes whose agent can be asked: another kubelet publishes no address for questions."""
    return [key_of(node).name for node in objects.list("nodes") if _can_be_asked(node)]


def concerned_agents(objects: Objects, namespace: str) -> list[str]:
    """Names of the nodes whose agents may have decided about objects of the namespace, as lists have it: ''
    is all of them, and decisions about nodes are in `fathom-system`."""
    nodes = nodes_with_agents(objects)
    if namespace in {"", SYSTEM_NAMESPACE}:
        return nodes
    used = {lookup(pod, "spec", "nodeName") for pod in objects.list("pods", namespace)}
    return [name for name in nodes if name in used]


def _can_be_asked(node: Obj) -> bool:
    try:
        address_of(node)
    except ApiError:
        return False
    return True
