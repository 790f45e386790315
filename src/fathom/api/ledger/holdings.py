"""What one pod or reservation holds: on which node, on which account, how much.

Computed from the object alone, so that releasing it later finds what was charged then, whatever labels its
node and namespace have had since.

Amounts are whole numbers: thousandths of CPUs, whole units of all else, rounded up as kube-scheduler rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from fathom.kinds.capacity_class import CAPACITY_CLASS
from fathom.kinds.reservation import HOLDING
from fathom.model.objects import Obj, labels_of, lookup, metadata
from fathom.model.pod_phase import is_terminal
from fathom.model.podresources import REQUESTS, Amounts, amounts, pod_amounts
from fathom.model.quantity import Quantity
from fathom.model.tenancy import ACCOUNT, tenant_of
from fathom.model.well_known import ZONE_LABEL

Counts = dict[str, int]

PODS = "pods"

# More than any node has of anything, and small enough that a thousand of them still fit 64 bits.
COUNT_MAX = 2**53


class Account(NamedTuple):
    tenant: str
    zone: str = ""
    capacity_class: str = ""
    override: str = ""  # The UID of the override that let the pod into its class.

    @property
    def text(self) -> str:
        place = f"{self.tenant}/{self.zone}/{self.capacity_class}"
        return f"{place}/{self.override}" if self.override else place


class Holding(msgspec.Struct, frozen=True):
    node: str
    account: Account
    counts: Counts  # Never zero; always with `pods`.
    ports: tuple[str, ...] = ()  # 'TCP/0.0.0.0/80'


def count(name: str, amount: Quantity) -> int:
    return min(amount.milli if name == "cpu" else amount.value, COUNT_MAX)


def counts_of(listed: Mapping[str, Any] | None) -> Counts:
    """A resource list of an object: a node's allocatable, a quota's limit."""
    return {name: count(name, amount) for name, amount in amounts(listed).items()}


def pod_counts(pod: Obj) -> Counts:
    spec = pod.get("spec") or {}
    containers: Sequence[Obj] = spec.get("containers") or ()
    if len(containers) == 1 and not any(spec.get(field) for field in _MORE):
        # Most pods by far: one container, nothing to add up.
        requests = (containers[0].get("resources") or {}).get(REQUESTS)
        if not requests:
            return {PODS: 1}
        if len(requests) <= _REMEMBERED_REQUESTS_MAX:
            return dict(_counted(tuple(requests.items())))
    return _with_pod(pod_amounts(pod, REQUESTS))


_MORE = ("initContainers", "overhead", "resources")


# Bounds the size of the memo: no real pod requests as many resources.
_REMEMBERED_REQUESTS_MAX = 16


# A memo of a pure function: a million pods have a few hundred different requests.
@lru_cache(maxsize=4096)
def _counted(requests: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, int], ...]:
    return tuple(_with_pod(amounts(dict(requests))).items())


def _with_pod(requests: Amounts) -> Counts:
    counts = {name: count(name, amount) for name, amount in requests.items()}
    return {**{name: amount for name, amount in counts.items() if amount > 0}, PODS: 1}


def pod_holding(pod: Obj | None) -> Holding | None:
    """None: the pod has no node yet, or has ended. A pod that is being deleted still holds everything."""
    node = lookup(pod, "spec", "nodeName")
    if pod is None or not node or is_terminal(pod):
        return None
    return Holding(str(node), account_of(pod), pod_counts(pod), host_ports(pod))


def reservation_holding(reservation: Obj | None) -> Holding | None:
    """None: the reservation has no node yet, is void, or its pod has taken over the room."""
    node = lookup(reservation, "spec", "nodeName")
    if reservation is None or not node or (lookup(reservation, "status", "phase") or "") not in HOLDING:
        return None
    return Holding(str(node), account_of(reservation), reserved_counts(reservation))


def reserved_counts(reservation: Obj) -> Counts:
    """A reservation also takes one of the node's `pods`."""
    requests = counts_of(lookup(reservation, "spec", "resources"))
    return {PODS: 1, **{name: amount for name, amount in requests.items() if amount > 0}}


def account_of(obj: Obj) -> Account:
    """The account that the object was charged to. Objects from before the ledger: their namespace, in no
    zone."""
    text = lookup(obj, "metadata", "annotations", ACCOUNT)
    parts = text.split("/") if isinstance(text, str) else []
    if len(parts) not in {3, 4}:
        return Account(str(metadata(obj).get("namespace") or ""))
    return Account(*parts)


def account_for(obj: Obj, *, namespace: Obj | None, node: Obj | None) -> Account:
    """The account that the object would be charged to now; stamped on it when it gets its node."""
    zone = labels_of(node).get(ZONE_LABEL, "") if node is not None else ""
    return Account(tenant_of(obj, namespace), zone, class_of(obj))


def class_of(obj: Obj) -> str:
    named = lookup(obj, "spec", "capacityClass")  # Of reservations; pods have an annotation instead.
    return str(named or lookup(obj, "metadata", "annotations", CAPACITY_CLASS) or "")


def host_ports(pod: Obj) -> tuple[str, ...]:
    spec = pod.get("spec") or {}
    sidecars = [
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    return tuple(
        f"{port.get('protocol') or 'TCP'}/{port.get('hostIP') or '0.0.0.0'}/{port['hostPort']}"
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )
