"""A pod's total requests and limits, as the scheduler, quotas and limit ranges count them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fathom.model.objects import Obj
from fathom.model.quantity import Quantity, parse

Amounts = dict[str, Quantity]

REQUESTS, LIMITS = "requests", "limits"

# What may be set for the pod as a whole instead of its containers.
_POD_LEVEL = frozenset({"cpu", "memory"})


def amounts(listed: Mapping[str, Any] | None) -> Amounts:
    """A resource list, parsed. Decoding has checked its quantities."""
    return {name: parse(value) for name, value in listed.items()} if listed else {}


def container_amounts(container: Obj, field: str) -> Amounts:
    return amounts((container.get("resources") or {}).get(field))


def pod_amounts(pod: Obj, field: str) -> Amounts:
    """Containers and sidecars run together; init containers one after the other, each beside the sidecars
    started before it. The pod needs the larger of the two, and its overhead."""
    spec = pod.get("spec") or {}
    total = summed(container_amounts(container, field) for container in spec.get("containers") or ())
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = container_amounts(container, field)
        if container.get("restartPolicy") == "Always":
            total, sidecars = added(total, own), added(sidecars, own)
            starting = larger(starting, sidecars)
        else:
            starting = larger(starting, added(own, sidecars))
    total = larger(total, starting) if starting else total
    total |= _pod_level(spec, field)
    return _with_overhead(total, amounts(spec.get("overhead")), field)


def _pod_level(spec: Obj, field: str) -> Amounts:
    listed = amounts((spec.get("resources") or {}).get(field))
    return {
        name: amount for name, amount in listed.items() if name in _POD_LEVEL or name.startswith("hugepages-")
    }


def _with_overhead(total: Amounts, overhead: Amounts, field: str) -> Amounts:
    """A limit that is not set stays unlimited, whatever the overhead."""
    counted = {name: amount for name, amount in overhead.items() if field == REQUESTS or total.get(name)}
    return added(total, counted) if counted else total


def summed(many: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for addend in many:
        total = added(total, addend)
    return total


def added(first: Amounts, second: Amounts) -> Amounts:
    if not first or not second:
        return dict(first or second)
    return {
        **first,
        **{name: first[name] + amount if name in first else amount for name, amount in second.items()},
    }


def subtracted(minuend: Amounts, subtrahend: Amounts) -> Amounts:
    zero = Quantity(0)
    return {**minuend, **{name: minuend.get(name, zero) - amount for name, amount in subtrahend.items()}}


def larger(first: Amounts, second: Amounts) -> Amounts:
    return {
        **first,
        **{name: max(first[name], amount) if name in first else amount for name, amount in second.items()},
    }


def is_best_effort(pod: Obj) -> bool:
    """Whether the pod has no requests and no limits: such pods are evicted first when a node is short."""
    spec = pod.get("spec") or {}
    holders = [spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return not any(
        amount
        for holder in holders
        for field in (REQUESTS, LIMITS)
        for name, amount in container_amounts(holder, field).items()
        if name in {"cpu", "memory"}
    )
