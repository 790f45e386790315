"""Every single change that might give the pod a node, from the objects alone.

Kinds, the smaller first (docs/why.md has the same order in words): what somebody grants; less of what the pod
requests; what else the pod asks for; where it may run; what concerns other pods too. Last, and never called
smaller than another change: to end pods that run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

import msgspec

from fathom.model.objects import Key, Obj, key_of, labels_of, lookup
from fathom.sim.single_changes.random_cluster import CPU_STEP, MEMORY_STEP, POD, TENANT
from fathom.sim.single_changes.resources import CLASSES, NODES, OVERRIDES, PODS, QUOTAS, ROLLOUTS
from fathom.sim.single_changes.typed import ApiChange, patch
from fathom.sim.world.world import World

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPREADS = "topologySpreadConstraints"
SKEW_MOST = 16
GRANTED_MOST = {"cpu": 16_000, "memory": 16_384, "pods": 64}
STEPS = {"cpu": CPU_STEP, "memory": MEMORY_STEP, "pods": 1}


class Kind(IntEnum):
    GRANT = 0
    ROOM = 1
    SPEC = 2
    ELSEWHERE = 3
    SHARED = 4
    OTHER_PODS = 5


class Candidate(msgspec.Struct, frozen=True):
    """A single change. Where it has an amount: `change_to` gives the change for an amount, and the search
    goes from the present amount, which does not help, to the one that surely does if any does."""

    kind: Kind
    change: ApiChange  # With the amount that surely helps if any does.
    now: int = 0
    sure: int = 0
    step: int = 0  # 0: it has no amount.
    change_to: Callable[[int], ApiChange] | None = None
    share_of: int = 0  # For requests: the pod's total, to say how much of it is given up.
    amount: float = 1.0  # Entries of a list that go at once.


def candidates(world: World) -> Iterator[Candidate]:
    pod = world.get("pods", POD) or {}
    nodes = world.list("nodes")
    yield from _gates(pod)
    yield from _grants(world)
    yield from _requests(pod)
    yield from _tolerations(pod, nodes)
    yield from _spreads(pod)
    yield from _removals(pod)
    yield from _whole_lists(pod)
    yield from _node_changes(pod, nodes)
    yield from _other_pods(world, pod)


def remove(path: str) -> Obj:
    return {"op": "remove", "path": path}


def _pod_patch(*operations: Obj) -> ApiChange:
    """A field that the API lets a pod change in place."""
    return ApiChange("patch", PODS, POD, operations)


def _pod_replaced(*operations: Obj) -> ApiChange:
    return ApiChange("replace", PODS, POD, operations)


def _items(pod: Obj, *path: str) -> Iterator[tuple[int, Any]]:
    yield from enumerate(lookup(pod, "spec", *path) or ())


# Grants.


def _gates(pod: Obj) -> Iterator[Candidate]:
    """One of several gates never helps: all go at once."""
    if lookup(pod, "spec", "schedulingGates"):
        yield Candidate(Kind.GRANT, _pod_patch(remove("/spec/schedulingGates")))


def _grants(world: World) -> Iterator[Candidate]:
    for node in world.list("nodes"):
        if lookup(node, "spec", "unschedulable"):
            yield Candidate(Kind.GRANT, patch(NODES, key_of(node), remove("/spec/unschedulable")))
    for override in world.list(OVERRIDES.name):
        yield Candidate(Kind.GRANT, ApiChange("delete", OVERRIDES, key_of(override)))
    for quota in world.list(QUOTAS.name):
        yield from _limits(quota)
    for rollout in world.list(ROLLOUTS.name):  # Pods are placed by the built-in policy then.
        yield Candidate(Kind.SHARED, ApiChange("delete", ROLLOUTS, key_of(rollout)))
    for capacity_class in world.list(CLASSES.name):
        yield Candidate(Kind.GRANT, _class_allowed(key_of(capacity_class).name))
        admitted = {"op": "add", "path": "/spec/tenants", "value": [TENANT]}
        yield Candidate(Kind.GRANT, patch(CLASSES, key_of(capacity_class), admitted))


def _class_allowed(name: str) -> ApiChange:
    spec: Obj = {"target": f"workload/{POD.name}", "scope": "cluster", "reason": "tried"}
    spec["expiresAfter"] = "1h"
    spec["changes"] = {"allowReservedCapacityClass": name}
    meta = {"name": f"{POD.name}-uses-{name}", "namespace": POD.namespace}
    kind = {"apiVersion": "fathom.dev/v1alpha1", "kind": "SchedulerOverride"}
    key = Key(POD.namespace, meta["name"])
    return ApiChange("create", OVERRIDES, key, objects=({**kind, "metadata": meta, "spec": spec},))


def _limits(quota: Obj) -> Iterator[Candidate]:
    for index, limit in enumerate(quota["spec"]["limits"]):
        for name, amount in limit["resources"].items():
            path = f"/spec/limits/{index}/resources/{name}"
            yield _raised_limit(key_of(quota), path, name, _number(name, amount))


def _raised_limit(quota: Key, path: str, name: str, now: int) -> Candidate:
    def change_to(amount: int) -> ApiChange:
        return patch(QUOTAS, quota, {"op": "replace", "path": path, "value": _text(name, amount)})

    sure, step = now + GRANTED_MOST[name], STEPS[name]
    return Candidate(Kind.GRANT, change_to(sure), now, sure, step, change_to)


def _number(name: str, amount: Any) -> int:
    """In millis of a CPU, mebibytes, pods."""
    text = str(amount)
    if name == "cpu":
        return int(text[:-1]) if text.endswith("m") else int(text) * 1000
    if name == "memory":
        return int(text[:-2]) * (1024 if text.endswith("Gi") else 1)
    return int(text)


def _text(name: str, amount: int) -> str:
    return {"cpu": f"{amount}m", "memory": f"{amount}Mi"}.get(name, str(amount))


# The pod's own spec.


def _requests(pod: Obj) -> Iterator[Candidate]:
    totals: dict[str, int] = {}
    for _, container in _items(pod, "containers"):
        for name, amount in container["resources"]["requests"].items():
            totals[name] = totals.get(name, 0) + _number(name, amount)
    for index, container in _items(pod, "containers"):
        for name, amount in container["resources"]["requests"].items():
            yield _lowered(index, name, _number(name, amount), totals[name])


def _lowered(index: int, name: str, now: int, total: int) -> Candidate:
    path = f"/spec/containers/{index}/resources/requests/{name}"

    def change_to(amount: int) -> ApiChange:
        return _pod_replaced({"op": "replace", "path": path, "value": _text(name, amount)})

    step = STEPS[name]
    return Candidate(Kind.ROOM, change_to(step), now, step, step, change_to, total)


def _tolerations(pod: Obj, nodes: list[Obj]) -> Iterator[Candidate]:
    taints = {
        (taint["key"], taint.get("value", ""), taint["effect"])
        for node in nodes
        for taint in lookup(node, "spec", "taints") or ()
        if not taint["key"].startswith("node.kubernetes.io/")
    }
    some = bool(lookup(pod, "spec", "tolerations"))
    for key, value, effect in sorted(taints):
        toleration = {"key": key, "effect": effect}
        toleration |= {"operator": "Equal", "value": value} if value else {"operator": "Exists"}
        path, added = ("/spec/tolerations/-", toleration) if some else ("/spec/tolerations", [toleration])
        yield Candidate(Kind.SPEC, _pod_patch({"op": "add", "path": path, "value": added}))


def _spreads(pod: Obj) -> Iterator[Candidate]:
    for index, constraint in _items(pod, SPREADS):
        path = f"/spec/{SPREADS}/{index}/maxSkew"
        yield _raised_skew(path, constraint["maxSkew"])
        whole = _pod_replaced(remove(path.removesuffix("/maxSkew")))
        yield Candidate(Kind.SPEC, whole, amount=1.5)  # More than to relax it.


def _raised_skew(path: str, now: int) -> Candidate:
    def change_to(amount: int) -> ApiChange:
        return _pod_replaced({"op": "replace", "path": path, "value": amount})

    return Candidate(Kind.SPEC, change_to(SKEW_MOST), now, SKEW_MOST, 1, change_to)


def _whole_lists(pod: Obj) -> Iterator[Candidate]:
    """Lists that may go as a whole."""
    lists = {
        SPREADS: Kind.SPEC,
        f"affinity/podAffinity/{REQUIRED}": Kind.SPEC,
        f"affinity/podAntiAffinity/{REQUIRED}": Kind.SPEC,
        f"affinity/nodeAffinity/{REQUIRED}": Kind.ELSEWHERE,
        "nodeSelector": Kind.ELSEWHERE,
    }
    for path, kind in lists.items():
        entries = _entries(lookup(pod, "spec", *path.split("/")))
        if entries > 1 or (entries and path != "nodeSelector"):
            # To drop a list is more than to drop an entry, and to drop a spread more than to relax it.
            amount = 1.0 if entries == 1 and path != SPREADS else 1.0 + entries
            yield Candidate(kind, _pod_replaced(remove(f"/spec/{path}")), amount=amount)


def _entries(value: Any) -> int:
    if isinstance(value, dict) and "nodeSelectorTerms" in value:
        return sum(len(term["matchExpressions"]) for term in value["nodeSelectorTerms"])
    return len(value or ())


def _removals(pod: Obj) -> Iterator[Candidate]:
    for index, container in _items(pod, "containers"):
        for port, _ in enumerate(container.get("ports") or ()):
            yield Candidate(
                Kind.SPEC, _pod_replaced(remove(f"/spec/containers/{index}/ports/{port}/hostPort"))
            )
    for name in ("podAffinity", "podAntiAffinity"):
        terms = list(_items(pod, "affinity", name, REQUIRED))
        for index, _ in terms if len(terms) > 1 else ():
            yield Candidate(Kind.SPEC, _pod_replaced(remove(f"/spec/affinity/{name}/{REQUIRED}/{index}")))
    for key in lookup(pod, "spec", "nodeSelector") or {}:
        yield Candidate(Kind.ELSEWHERE, _pod_replaced(remove(f"/spec/nodeSelector/{key.replace('/', '~1')}")))
    for at, term in _items(pod, "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"):
        path = f"/spec/affinity/nodeAffinity/{REQUIRED}"
        for index, _ in enumerate(term["matchExpressions"]):
            if len(term["matchExpressions"]) == 1:
                continue  # A term without any matches no node.
            place = f"{path}/nodeSelectorTerms/{at}/matchExpressions/{index}"
            yield Candidate(Kind.ELSEWHERE, _pod_replaced(remove(place)))


# What concerns others too.


def _node_changes(pod: Obj, nodes: list[Obj]) -> Iterator[Candidate]:
    for node in nodes:
        key = key_of(node)
        for index, taint in enumerate(lookup(node, "spec", "taints") or ()):
            if not taint["key"].startswith("node.kubernetes.io/"):
                yield Candidate(Kind.SHARED, patch(NODES, key, remove(f"/spec/taints/{index}")))
        for name, value in (lookup(pod, "spec", "nodeSelector") or {}).items():
            if labels_of(node).get(name) != value:
                path = f"/metadata/labels/{name.replace('/', '~1')}"
                yield Candidate(Kind.SHARED, patch(NODES, key, {"op": "add", "path": path, "value": value}))


def _other_pods(world: World, pod: Obj) -> Iterator[Candidate]:
    for other in world.list("pods"):
        if key_of(other) != POD and lookup(other, "spec", "nodeName"):
            yield Candidate(Kind.OTHER_PODS, ApiChange("delete", PODS, key_of(other)))
    if lookup(pod, "spec", "priorityClassName") != "high":
        path = "/spec/priorityClassName"
        operations = [{"op": "add", "path": path, "value": "high"}, remove("/spec/priority")]
        yield Candidate(Kind.OTHER_PODS, _pod_replaced(*operations))
