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


def container_amounts(container: Obj, what: str) -> Amounts:
    return amounts((container.get("resources") or {}).get(what))


def pod_amounts(pod: Obj, what: str) -> Amounts:
    """Containers and sidecars run together; init containers one after the other, each beside the sidecars
    started before it. The pod needs the larger of the two, and its overhead."""
    spec = pod.get("spec") or {}
    total = summed(container_amounts(one, what) for one in spec.get("containers") or ())
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = container_amounts(container, what)
        if container.get("restartPolicy") == "Always":
            total, sidecars = added(total, own), added(sidecars, own)
            starting = larger(starting, sidecars)
        else:
            starting = larger(starting, added(own, sidecars))
    total = larger(total, starting) if starting else total
    total |= _pod_level(spec, what)
    return _with_overhead(total, amounts(spec.get("overhead")), what)


def _pod_level(spec: Obj, what: str) -> Amounts:
    listed = amounts((spec.get("resources") or {}).get(what))
    return {name: one for name, one in listed.items() if name in _POD_LEVEL or name.startswith("hugepages-")}


def _with_overhead(total: Amounts, overhead: Amounts, what: str) -> Amounts:
    """A limit that is not set stays unlimited, whatever the overhead."""
    counted = {name: one for name, one in overhead.items() if what == REQUESTS or total.get(name)}
    return added(total, counted) if counted else total


def summed(many: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for one in many:
        total = added(total, one)
    return total


def added(one: Amounts, other: Amounts) -> Amounts:
    if not one or not other:
        return dict(one or other)
    return {**one, **{name: one[name] + amount if name in one else amount for name, amount in other.items()}}


def subtracted(one: Amounts, other: Amounts) -> Amounts:
    zero = Quantity(0)
    return {**one, **{name: one.get(name, zero) - amount for name, amount in other.items()}}


def larger(one: Amounts, other: Amounts) -> Amounts:
    return {
        **one,
        **{name: max(one[name], amount) if name in one else amount for name, amount in other.items()},
    }


def is_best_effort(pod: Obj) -> bool:
    """Whether the pod has no requests and no limits: such pods are evicted first when a node is short."""
    spec = pod.get("spec") or {}
    asked = [spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return not any(
        amount
        for one in asked
        for what in (REQUESTS, LIMITS)
        for name, amount in container_amounts(one, what).items()
        if name in {"cpu", "memory"}
    )
