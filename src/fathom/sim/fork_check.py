"""Checks what `why` proposes: the smallest change for each waiting pod is made in a fork, and admits it.

For a world at rest. Each pod gets a fork of its own; the change is made through the API, by code that shares
nothing with the remedies but their words: rule, node, what is to change and by how much.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from fathom.client.api import Resource, own_resource
from fathom.client.outcomes import Committed
from fathom.kinds import scheduler_override, scheduling_policy, tenant_quota
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata
from fathom.model.pod_phase import is_terminal
from fathom.model.quantity import BINARY, of_milli, of_value
from fathom.schedule.decide.remedies import SYSTEM
from fathom.schedule.decide.remedy import Remedy, remedies
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.schedule.loop.watched_kinds import KINDS
from fathom.sim.fork import end, fork, perform, run_for
from fathom.sim.fork_state import ClusterState, state_of_world
from fathom.sim.world.world import World

# Virtual time in which a pod must be bound after the change.
BOUND_S = 60.0
# For changes that are to wait.
WAIT_S = 600.0

PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes", namespaced=False)
QUOTAS = own_resource(tenant_quota.DEFINITION)
OVERRIDES = own_resource(scheduler_override.DEFINITION)
POLICIES = own_resource(scheduling_policy.DEFINITION)

# Fields of a pod that the server writes: a pod with another spec is created without them.
SERVER_FIELDS = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
)


class CheckedProposal(msgspec.Struct, frozen=True):
    pod: str
    rule: str
    change: str  # As `why` says it.
    made: bool  # False: nobody can make the change through the API (add a node, bind a volume).
    bound: bool


class CannotMake(Exception):
    """The proposal names no change that the API can make."""


def waiting_pods(world: World) -> list[Obj]:
    pods = world.list("pods")
    return [pod for pod in pods if not lookup(pod, "spec", "nodeName") and not _is_over(pod)]


def _is_over(pod: Obj) -> bool:
    return is_deleting(pod) or is_terminal(pod) or bool(lookup(pod, "spec", "schedulingGates"))


def check_proposals(world: World, seed: str = "0") -> list[CheckedProposal]:
    """One for each waiting pod whose smallest change is known. Pods that fit already have none."""
    state = state_of_world(world)
    proposals = {key_of(pod): proposal for pod in waiting_pods(world) if (proposal := proposed(world, pod))}
    return [check_proposal(state, key, remedy, seed) for key, remedy in proposals.items()]


def proposed(world: World, pod: Obj) -> Remedy | None:
    """The smallest change that would admit the pod, by the pure decider on the world's objects."""
    cluster = cluster_view(world)
    view = cluster.view(pod)
    context = cluster.context(view, now_ns=world.engine.epoch_ns + world.engine.now_ns)
    changes = remedies(view.shape, cluster.table, context, cluster.decider.rules)
    return changes[0] if changes else None


def cluster_view(world: World) -> ClusterView:
    cluster = ClusterView()
    for kind in sorted(KINDS, key=lambda kind: kind.name == "Pod"):  # Pods last: namespaces name tenants.
        for obj in world.list(kind.resource.name):
            if kind.name == "Pod":
                cluster.put_pod(obj)
            else:
                cluster.put(kind.name, None, obj)
    return cluster


def check_proposal(state: ClusterState, key: Key, remedy: Remedy, seed: str = "0") -> CheckedProposal:
    world = fork(state, seed)
    name, bound = "/".join(key), False
    try:
        perform(world, lambda world: make(world, key, remedy))
        run_for(world, WAIT_S if remedy.by == "time" else BOUND_S)
        pod = world.get("pods", key)
        bound = pod is not None and bool(lookup(pod, "spec", "nodeName"))
    except CannotMake:
        return CheckedProposal(name, remedy.rule, remedy.change, made=False, bound=False)
    finally:
        end(world)
    return CheckedProposal(name, remedy.rule, remedy.change, made=True, bound=bound)


# Making a change through the API.


async def make(world: World, key: Key, remedy: Remedy) -> None:
    """Raises CannotMake."""
    if remedy.parts:
        for part in remedy.parts:
            await make(world, key, part)
        return
    if remedy.by == "time":
        return
    change = CHANGES.get(remedy.rule)
    if change is None:
        raise CannotMake(remedy.change)
    await change(world, key, remedy)


async def _uncordon(world: World, key: Key, remedy: Remedy) -> None:
    node = _node(world, remedy)
    left = [taint for taint in lookup(node, "spec", "taints") or () if "unschedulable" not in taint["key"]]
    await _patch(world, NODES, Key("", remedy.node), {"spec": {"unschedulable": None, "taints": left}})


async def _lift_taint(world: World, key: Key, remedy: Remedy) -> None:
    name, value, effect = remedy.about
    if name.startswith(SYSTEM):  # The change is to repair the node, which no request can do.
        raise CannotMake(remedy.change)
    toleration = {"key": name, "operator": "Equal", "value": value, "effect": effect}

    def tolerating(spec: Obj) -> Obj:
        return {**spec, "tolerations": [*(spec.get("tolerations") or ()), toleration]}

    await _create_again(world, key, tolerating)


async def _label_node(world: World, key: Key, remedy: Remedy) -> None:
    if len(remedy.about) != 2:
        raise CannotMake(remedy.change)
    name, value = remedy.about
    await _patch(world, NODES, Key("", remedy.node), {"metadata": {"labels": {name: value}}})


async def _end_overrides(world: World, key: Key, remedy: Remedy) -> None:
    for override in world.list(OVERRIDES.name):
        place = key_of(override)
        if place.name in remedy.about or "/".join(place) in remedy.about:
            await world.delete(OVERRIDES, place.name, place.namespace)


async def _raise_quota(world: World, key: Key, remedy: Remedy) -> None:
    for reason, (resource, _, amount) in zip(remedy.about, remedy.short, strict=True):
        for quota in world.list(QUOTAS.name):
            name = str(metadata(quota)["name"])
            limits = [_raised(limit, name, reason, resource, amount) for limit in quota["spec"]["limits"]]
            if limits != quota["spec"]["limits"]:
                await _patch(world, QUOTAS, Key("", name), {"spec": {"limits": limits}})


def _raised(limit: Obj, tenant: str, reason: str, resource: str, amount: int) -> Obj:
    places = (tenant, limit.get("zone"), limit.get("capacityClass"))
    if reason != "quota/" + "-".join(place for place in places if place):
        return limit
    return {**limit, "resources": {**limit["resources"], resource: _quantity(resource, amount)}}


async def _free_ports(world: World, key: Key, remedy: Remedy) -> None:
    pod = world.get("pods", key) or {}
    wanted = _host_ports(pod)
    for other in world.list("pods"):
        if lookup(other, "spec", "nodeName") == remedy.node and _host_ports(other) & wanted:
            place = key_of(other)
            await world.delete(PODS, place.name, place.namespace)


def _host_ports(pod: Obj) -> set[tuple[int, str]]:
    containers = lookup(pod, "spec", "containers") or ()
    ports = [port for container in containers for port in container.get("ports") or ()]
    return {(port["hostPort"], port.get("protocol", "TCP")) for port in ports if port.get("hostPort")}


async def _lower_requests(world: World, key: Key, remedy: Remedy) -> None:
    """Of the first container that asks for enough of it, down to what is free."""
    if not remedy.short or any(resource == "pods" for resource, _, _ in remedy.short):
        raise CannotMake(remedy.change)

    def lower(spec: Obj) -> Obj:
        first, *others = spec["containers"]
        if others:
            raise CannotMake(remedy.change)
        requests = dict(lookup(first, "resources", "requests") or {})
        requests |= {resource: _quantity(resource, free) for resource, _, free in remedy.short}
        return {**spec, "containers": [{**first, "resources": {"requests": requests}}]}

    await _create_again(world, key, lower)


async def _relax_spread(world: World, key: Key, remedy: Remedy) -> None:
    if len(remedy.about) != 3:
        raise CannotMake(remedy.change)
    topology_key, _, most = remedy.about
    if most == "0":
        raise CannotMake(remedy.change)

    def relaxed(spec: Obj) -> Obj:
        constraints = [
            {**constraint, "maxSkew": int(most)} if constraint["topologyKey"] == topology_key else constraint
            for constraint in spec.get("topologySpreadConstraints") or ()
        ]
        return {**spec, "topologySpreadConstraints": constraints}

    await _create_again(world, key, relaxed)


async def _raise_zone_skew(world: World, key: Key, remedy: Remedy) -> None:
    name, _, most = remedy.about
    await _patch(world, POLICIES, Key("", name), {"spec": {"maxZoneSkew": int(most)}})


async def _move_pods(world: World, key: Key, remedy: Remedy) -> None:
    if not remedy.about:
        raise CannotMake(remedy.change)
    for blocker in remedy.about:
        namespace, _, name = blocker.partition("/")
        await world.delete(PODS, name, namespace)


CHANGES: Mapping[str, Callable[[World, Key, Remedy], Awaitable[None]]] = {
    "NodeUnschedulable": _uncordon,
    "TaintToleration": _lift_taint,
    "NodeAffinity": _label_node,
    "Override": _end_overrides,
    "TenantQuota": _raise_quota,
    "NodePorts": _free_ports,
    "NodeResourcesFit": _lower_requests,
    "PodTopologySpread": _relax_spread,
    "MaxZoneSkew": _raise_zone_skew,
    "InterPodAffinity": _move_pods,
}


def _node(world: World, remedy: Remedy) -> Obj:
    node = world.get("nodes", Key("", remedy.node))
    if node is None:
        raise CannotMake(remedy.change)
    return node


async def _patch(world: World, resource: Resource, key: Key, patch: Obj) -> None:
    outcome = await world.api.patch(resource, key.namespace, key.name, patch)
    if not isinstance(outcome, Committed):
        raise CannotMake(f"{resource.name} {key.name}: {outcome}")


async def _create_again(world: World, key: Key, change: Callable[[Obj], Obj]) -> None:
    """A pod's spec cannot be changed: the same pod with another spec, under the same name, by itself."""
    pod = world.get("pods", key)
    if pod is None:
        raise CannotMake(f"pod {key.name} is gone")
    spec = change(dict(pod["spec"]))
    kept = {name: value for name, value in metadata(pod).items() if name not in SERVER_FIELDS}
    if metadata(pod).get("ownerReferences"):
        raise CannotMake("its controller would create it with the old spec")
    await world.delete(PODS, key.name, key.namespace)
    again: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec}
    outcome = await world.api.create(PODS, key.namespace, again)
    if not isinstance(outcome, Committed):
        raise CannotMake(f"pod {key.name}: {outcome}")


def _quantity(resource: str, amount: int) -> str:
    if resource == "cpu":
        return str(of_milli(amount))
    return str(of_value(amount, BINARY if resource == "memory" else "DecimalSI"))


def unmet(checked: Iterable[CheckedProposal]) -> list[CheckedProposal]:
    """Proposals that were made and did not admit their pod."""
    return [proposal for proposal in checked if proposal.made and not proposal.bound]
