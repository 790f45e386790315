"""Whether a pod that is bound to a node fits there: checked once, before any container starts. Pure.

A scheduler decides where pods go, but a user may set `nodeName` by hand, and another scheduler may bind at
the same time. As with kubelet, a pod that does not fit fails with the reason, and its controller creates
another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from fathom.model.objects import Obj, key_of, labels_of, lookup
from fathom.model.pod_phase import is_terminal
from fathom.model.podresources import REQUESTS, amounts, pod_amounts
from fathom.model.quantity import Quantity
from fathom.model.selectors import GREATER, LESS, NODE_OPERATORS, Requirement

CPU, PODS = "cpu", "pods"
FIRST = (PODS, CPU, "memory", "ephemeral-storage")  # kubelet's order; it names only the first that is short.
ANY_ADDRESS = "0.0.0.0"  # Of a host port; we do not listen there.
REJECTED = "Pod was rejected: "


class ClaimedPort(msgspec.Struct, frozen=True):
    port: int
    protocol: str
    address: str

    def clashes(self, other: ClaimedPort) -> bool:
        same = (self.port, self.protocol) == (other.port, other.protocol)
        return same and (ANY_ADDRESS in {self.address, other.address} or self.address == other.address)


class NodeClaim(msgspec.Struct, frozen=True):
    """The resources and host ports that a pod takes of its node."""

    amounts: dict[str, int]  # CPU in milli, the rest in units.
    ports: tuple[ClaimedPort, ...] = ()


class Rejection(msgspec.Struct, frozen=True):
    """Reason and message as kubelet writes them."""

    reason: str
    message: str


def claim_of(pod: Obj) -> NodeClaim:
    requests = {name: _units(name, quantity) for name, quantity in pod_amounts(pod, REQUESTS).items()}
    needed = {name: amount for name, amount in requests.items() if amount > 0}
    return NodeClaim({**needed, PODS: 1}, tuple(_host_ports(pod)))


def was_admitted(pod: Obj) -> bool:
    """Whether an agent has written that it admitted the pod, or that the pod has ended: then it is not
    checked again, whatever the node has free by then."""
    return bool(lookup(pod, "status", "startTime")) or is_terminal(pod)


def plan_admission(pod: Obj, node: Obj, admitted: Iterable[NodeClaim]) -> Rejection | None:
    """`admitted`: claims of the pods that were admitted earlier and are still here. None: the pod may run."""
    claim, claims = claim_of(pod), tuple(admitted)
    return _missing_resource(claim, node, claims) or _wrong_node(pod, node) or _ports_taken(claim, claims)


# Resources.


def _missing_resource(claim: NodeClaim, node: Obj, admitted: tuple[NodeClaim, ...]) -> Rejection | None:
    capacity = {name: _units(name, quantity) for name, quantity in amounts(_allocatable(node)).items()}
    for name in sorted(claim.amounts, key=lambda name: (name not in FIRST, _resource_order(name), name)):
        if "/" in name and name not in capacity:
            continue  # Not a node resource: its own controller counts it.
        wanted, has = claim.amounts[name], capacity.get(name, 0)
        used = sum(other.amounts.get(name, 0) for other in admitted)
        if wanted > has - used:
            message = f"requested: {wanted}, used: {used}, capacity: {has}"
            return Rejection(f"OutOf{name}", f"Node didn't have enough resource: {name}, {message}")
    return None


def _resource_order(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST)


def _allocatable(node: Obj) -> Mapping[str, str]:
    return lookup(node, "status", "allocatable") or lookup(node, "status", "capacity") or {}


def _units(name: str, amount: Quantity) -> int:
    return amount.milli if name == CPU else amount.value


# Labels.


def _wrong_node(pod: Obj, node: Obj) -> Rejection | None:
    labels, name = labels_of(node), key_of(node).name
    selector = lookup(pod, "spec", "nodeSelector") or {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    wanted = lookup(pod, "spec", "affinity", "nodeAffinity", required)
    terms = [] if wanted is None else wanted.get("nodeSelectorTerms") or ()
    if all(labels.get(label) == value for label, value in selector.items()) and (
        wanted is None or any(_matches(term, labels, name) for term in terms)
    ):
        return None
    message = "node(s) didn't match Pod's node affinity/selector"
    return Rejection("NodeAffinity", f"Predicate NodeAffinity failed: {message}")


def _matches(term: Obj, labels: Mapping[str, str], name: str) -> bool:
    """Whether all expressions of a term match; an empty term matches no node."""
    by_label, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    return bool(by_label or by_field) and (
        all(_expression_matches(expression, labels) for expression in by_label)
        and all(_expression_matches(expression, {"metadata.name": name}) for expression in by_field)
    )


def _expression_matches(expression: Obj, labels: Mapping[str, str]) -> bool:
    operator = NODE_OPERATORS.get(str(expression.get("operator")), "")
    values = tuple(sorted({str(value) for value in expression.get("values") or ()}))
    if operator in {GREATER, LESS} and not (len(values) == 1 and values[0].lstrip("+-").isdecimal()):
        return False
    key = str(expression.get("key") or "")
    return bool(operator) and Requirement(key, operator, values).matches(labels)


# Ports.


def _ports_taken(claim: NodeClaim, admitted: tuple[NodeClaim, ...]) -> Rejection | None:
    if not any(
        port.clashes(taken_port) for port in claim.ports for other in admitted for taken_port in other.ports
    ):
        return None
    message = "node(s) didn't have free ports for the requested pod ports"
    return Rejection("NodePorts", f"Predicate NodePorts failed: {message}")


def _host_ports(pod: Obj) -> Iterator[ClaimedPort]:
    """Host ports of all containers that run together: main containers and sidecars."""
    spec = pod.get("spec") or {}
    sidecars = [
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                address = str(port.get("hostIP") or ANY_ADDRESS)
                address = ANY_ADDRESS if address == "::" else address
                yield ClaimedPort(int(port["hostPort"]), str(port.get("protocol") or "TCP"), address)
