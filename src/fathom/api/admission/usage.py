"""What one object counts for in a quota, by the names that a ResourceQuota uses:

count/deployments.apps, configmaps, services.nodeports      objects
pods, requests.cpu, cpu, limits.memory, requests.acme.com/gpu      pods that have not ended, reservations
requests.storage, gold.storageclass.storage.k8s.io/requests.storage      claims
"""

from __future__ import annotations

from collections.abc import Callable

from fathom.api.ledger.holdings import reservation_holding
from fathom.kinds.reservation import CHARGED_WITH, RESERVATIONS
from fathom.model.objects import Obj, lookup
from fathom.model.pod_phase import is_terminal
from fathom.model.podresources import LIMITS, REQUESTS, Amounts, amounts, container_amounts, pod_amounts
from fathom.model.quantity import of_value

PODS, SERVICES, CLAIMS = "pods", "services", "persistentvolumeclaims"
ONE = of_value(1)

# Counted under their own names since before `count/` existed.
PLAIN_COUNTS = frozenset({"configmaps", "replicationcontrollers", "resourcequotas", "secrets"})

_SHORT_REQUESTS = frozenset({"cpu", "memory", "ephemeral-storage"})
_CLASS = ".storageclass.storage.k8s.io/"

# If a quota counts one of these, every container must request it: Kubernetes' rule since its first quotas.
MUST_BE_ASKED = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})


def counted_by(name: str) -> tuple[str, ...]:
    """The resources whose objects a quota's number sums up."""
    if name.startswith("count/"):
        return (name.removeprefix("count/"),)
    if name in PLAIN_COUNTS:
        return (name,)
    if name.partition(".")[0] == SERVICES:
        return (SERVICES,)
    if name in {CLAIMS, "requests.storage"} or _CLASS in name:
        return (CLAIMS,)
    return (PODS, RESERVATIONS)


def usage_of(resource: str, obj: Obj) -> Amounts:
    used = {f"count/{resource}": ONE}
    if resource in PLAIN_COUNTS:
        used[resource] = ONE
    special = _USAGE.get(resource)
    return used | special(obj) if special else used


def _pod_usage(pod: Obj) -> Amounts:
    """A pod that has ended still counts as an object, but uses nothing."""
    if is_terminal(pod):
        return {}
    return {PODS: ONE, **compute_names(pod_amounts(pod, REQUESTS), pod_amounts(pod, LIMITS))}


def _reservation_usage(reservation: Obj) -> Amounts:
    """What it keeps on a node, like a pod with the same requests; nothing if its pod is already charged."""
    if reservation_holding(reservation) is None or CHARGED_WITH in (
        lookup(reservation, "metadata", "annotations") or ()
    ):
        return {}
    requests = amounts(lookup(reservation, "spec", "resources"))
    places = requests.pop(PODS, ONE)
    return {PODS: places, **compute_names(requests, {})}


def compute_names(requests: Amounts, limits: Amounts) -> Amounts:
    """The same amounts under all their names in quotas."""
    used: Amounts = {}
    for name, amount in requests.items():
        used[f"requests.{name}"] = amount
        if name in _SHORT_REQUESTS or name.startswith("hugepages-"):
            used[name] = amount
    return used | {f"limits.{name}": amount for name, amount in limits.items() if name in _SHORT_REQUESTS}


def unasked(pod: Obj, names: frozenset[str]) -> dict[str, list[str]]:
    """The required names that are not requested, with the containers that lack them; in name order."""
    spec = pod.get("spec") or {}
    missing: dict[str, list[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        requested = compute_names(
            container_amounts(container, REQUESTS), container_amounts(container, LIMITS)
        )
        for name in sorted(names & MUST_BE_ASKED - requested.keys()):
            missing.setdefault(name, []).append(str(container.get("name")))
    return {name: sorted(missing[name]) for name in sorted(missing)}


def _service_usage(service: Obj) -> Amounts:
    spec = service.get("spec") or {}
    ports = spec.get("ports") or []
    kind = spec.get("type")
    balanced = kind == "LoadBalancer"
    if balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(1 for port in ports if port.get("nodePort"))
    else:
        node_ports = len(ports) if kind in {"NodePort", "LoadBalancer"} else 0
    return {
        SERVICES: ONE,
        "services.nodeports": of_value(node_ports),
        "services.loadbalancers": of_value(int(balanced)),
    }


def _claim_usage(claim: Obj) -> Amounts:
    spec = claim.get("spec") or {}
    used = {CLAIMS: ONE}
    storage = container_amounts(spec, REQUESTS).get("storage")
    if storage is not None:
        used["requests.storage"] = storage
    name = spec.get("storageClassName")
    return (
        used | {f"{name}{_CLASS}{short_name}": amount for short_name, amount in used.items()}
        if name
        else used
    )


_USAGE: dict[str, Callable[[Obj], Amounts]] = {
    PODS: _pod_usage,
    SERVICES: _service_usage,
    CLAIMS: _claim_usage,
    RESERVATIONS: _reservation_usage,
}

# Kinds whose usage an update can change; of all others only existence counts.
CHANGEABLE = frozenset(_USAGE)
