"""What a pod can wait for, one case at a time: the obstacle, and what removes it. The scenario is in
`waking`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fathom.client.api import Resource
from fathom.model.objects import Key, Obj, is_deleting, uid_of
from fathom.model.resources import NAMESPACES, NODES, PODS
from fathom.model.tenancy import TENANT
from fathom.sim.scenarios.overriding import CAPACITY_CLASSES, OVERRIDES, override
from fathom.sim.scenarios.own_requests import until_committed
from fathom.sim.scenarios.scheduling import QUOTAS, node, own, pod, quota
from fathom.sim.world.world import World

RESERVED = Resource("fathom.dev", "v1alpha1", "reservations")
HOST, NEIGHBOUR, OTHERS = "kubernetes.io/hostname", "neighbour", "others"
FULL = "4"
DEAF_AT_S, DEAF_S = 5.0, 6.0  # When the scheduler receives no events of pods.
TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}

Step = Callable[[World, str], Awaitable[None]]

# Obstacles. Each case has a node of its own, with its name.


def node_of(name: str, **more: object) -> Obj:
    obj = node(name, zone=f"zone-{name}")
    obj["spec"] |= more
    return obj


def pod_of(name: str, cpu: str = "1", /, **spec: object) -> Obj:
    obj = pod(name, cpu=cpu)
    obj["spec"] |= {"nodeSelector": {HOST: name}, **spec}
    return obj


def _pod_on_node(name: str, *, cpu: str = "1", **spec: object) -> Obj:
    """A pod that is on the node already."""
    obj = pod(f"{name}-{NEIGHBOUR}", cpu=cpu, labels={"app": name})
    obj["spec"] |= {"nodeName": name, **spec}
    return obj


def of_tenant(obj: Obj, tenant: str) -> Obj:
    obj["metadata"]["labels"][TENANT] = tenant
    return obj


async def waits_there(world: World, obj: Obj) -> None:
    """Create the pod when every process has seen the obstacle."""
    await world.sleep(0.7)
    await world.apply(PODS, obj)


def _ports() -> list[Obj]:
    containers = pod("x")["spec"]["containers"]
    return [{**container, "ports": [{"containerPort": 80, "hostPort": 8080}]} for container in containers]


def _affinity(name: str, kind: str, **more: object) -> Obj:
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": HOST, **more}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _pod_and_node(node_spec: Obj | None = None, **spec: object) -> Step:
    async def prepare(world: World, name: str) -> None:
        await world.apply(NODES, node_of(name, **(node_spec or {})))
        await waits_there(world, pod_of(name, **spec))

    return prepare


def _full_node(cpu: str = FULL, *, ports: bool = False) -> Step:
    async def prepare(world: World, name: str) -> None:
        await world.apply(NODES, node_of(name))
        taken: dict[str, object] = {"containers": _ports()} if ports else {}
        await world.apply(PODS, _pod_on_node(name, cpu=cpu, **taken))
        await waits_there(world, pod_of(name, **taken))

    return prepare


async def _equal_pods(world: World, name: str) -> None:
    """Several equal pods: what helps the first of them helps all."""
    await world.apply(NODES, node_of(name, unschedulable=True))
    for obj in [pod_of(f"{name}-{number}", nodeSelector={HOST: name}) for number in (1, 2)]:
        await world.apply(PODS, obj)
    await waits_there(world, pod_of(name))


async def _no_node(world: World, name: str) -> None:
    await waits_there(world, pod_of(name))


async def _node_without_label(world: World, name: str) -> None:
    await world.apply(NODES, node_of(name))
    await waits_there(world, pod_of(name, nodeSelector={HOST: name, "pool": "red"}))


async def _node_without_capacity(world: World, name: str) -> None:
    small = node_of(name)
    small["status"] = {"capacity": {"pods": "110"}, "allocatable": {"pods": "110"}}
    await world.apply(NODES, small)
    await waits_there(world, pod_of(name))


def _quota_exhausted(*, spent: bool) -> Step:
    """A pod of a tenant whose quota is zero, or used up."""

    async def prepare(world: World, name: str) -> None:
        await world.apply(NODES, node_of(name))
        await world.apply(QUOTAS, quota(name, cpu="1" if spent else "0"))
        for obj in [_pod_on_node(name), pod_of(name)] if spent else [pod_of(name)]:
            await waits_there(world, of_tenant(obj, name))

    return prepare


async def _class_reserved(world: World, name: str) -> None:
    await world.apply(CAPACITY_CLASSES, own("CapacityClass", name, {"nodeSelector": {HOST: name}}))
    await world.apply(NODES, node_of(name))
    obj = pod_of(name)
    obj["metadata"]["annotations"] = {"fathom.dev/capacity-class": name}
    await waits_there(world, obj)


async def _zone_avoided(world: World, name: str) -> None:
    await world.apply(NODES, node_of(name))
    await world.apply(OVERRIDES, override(name, {"avoidZones": [f"zone-{name}"]}, lasts_s=600))
    await waits_there(world, pod_of(name))


async def _room_reserved(world: World, name: str) -> None:
    await world.apply(NODES, node_of(name))
    spec = {"workload": {"name": name, "uid": name}, "intent": "x", "nodeName": name}
    room = {"resources": {"cpu": FULL, "pods": "1"}}
    await world.apply(RESERVED, own("Reservation", name, {**spec, **room}))
    await waits_there(world, pod_of(name))


async def _friend_in_other_namespace(world: World, name: str) -> None:
    """The pod that it wants to be near is in a namespace that its selector does not match yet."""
    await world.apply(NODES, node_of(name))
    friend = _pod_on_node(name)
    friend["metadata"]["namespace"] = OTHERS
    await world.apply(PODS, friend, OTHERS)
    selector = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    await waits_there(world, pod_of(name, affinity=_affinity(name, "podAffinity", **selector)))


async def _anti_affinity(world: World, name: str) -> None:
    await world.apply(NODES, node_of(name))
    await world.apply(PODS, _pod_on_node(name))
    await waits_there(world, pod_of(name, affinity=_affinity(name, "podAntiAffinity")))


async def refused(world: World, name: str) -> None:
    """While the scheduler receives no events of pods, it binds one to a full node, is refused, and avoids the
    node from then on."""
    await world.apply(NODES, node_of(name, unschedulable=True))
    await waits_there(world, pod_of(name))
    await world.sleep(DEAF_AT_S + 0.5 - world.now_s)
    await world.apply(PODS, _pod_on_node(name, cpu=FULL))
    await world.apply(NODES, node_of(name))
    await world.sleep(DEAF_S + 2)


# What removes the obstacles.


async def comes(world: World, name: str) -> None:
    """The node comes, or becomes as it should be."""
    obj = node_of(name)
    obj["spec"]["taints"] = None
    obj["metadata"]["labels"]["pool"] = "red"
    await world.apply(NODES, obj)


async def _node_grows(world: World, name: str) -> None:
    room = node(name)["status"]
    await _patch(world, NODES, Key("", name), {"status": room}, subresource="status")


async def leaves(world: World, name: str) -> None:
    await world.delete(PODS, f"{name}-{NEIGHBOUR}")


async def _neighbour_ends(world: World, name: str) -> None:
    patch = {"status": {"phase": "Succeeded"}}
    await _patch(world, PODS, Key("default", f"{name}-{NEIGHBOUR}"), patch, subresource="status")


async def _neighbour_is_relabelled(world: World, name: str) -> None:
    patch = {"metadata": {"labels": {"app": "other"}}}
    await _patch(world, PODS, Key("default", f"{name}-{NEIGHBOUR}"), patch)


async def _friend_comes(world: World, name: str) -> None:
    await world.apply(PODS, _pod_on_node(name))


async def _namespace_is_labelled(world: World, name: str) -> None:
    await world.apply(NAMESPACES, {"metadata": {"name": OTHERS, "labels": {"team": "a"}}})


async def _quota_is_raised(world: World, name: str) -> None:
    await world.apply(QUOTAS, quota(name, cpu="8"))


async def _override_allows_class(world: World, name: str) -> None:
    await world.apply(OVERRIDES, override(name, {"allowReservedCapacityClass": name}, lasts_s=600))


async def _class_is_opened(world: World, name: str) -> None:
    spec = {"nodeSelector": {HOST: name}, "tenants": ["*"]}
    await world.apply(CAPACITY_CLASSES, own("CapacityClass", name, spec))


async def _override_is_deleted(world: World, name: str) -> None:
    """No controller of overrides runs here, so its finalizer stays. It has ended all the same."""
    key = Key("default", name)
    while not is_deleting(stored := world.get(OVERRIDES.name, key) or {}):
        await world.api.delete(OVERRIDES, *key, uid=uid_of(stored))
        await world.sleep(0.2)


async def _reservation_is_released(world: World, name: str) -> None:
    patch = {"status": {"phase": "Released"}}
    await _patch(world, RESERVED, Key("default", name), patch, subresource="status")


async def _pod_tolerates(world: World, name: str) -> None:
    tolerations = [{"key": TAINT["key"], "operator": "Exists"}]
    await _patch(world, PODS, Key("default", name), {"spec": {"tolerations": tolerations}})


async def _gate_is_removed(world: World, name: str) -> None:
    await _patch(world, PODS, Key("default", name), {"spec": {"schedulingGates": None}})


async def _patch(world: World, resource: Resource, key: Key, patch: Obj, *, subresource: str = "") -> None:
    await until_committed(world, lambda: world.api.patch(resource, *key, patch, subresource=subresource))


WAITS: dict[str, tuple[Step, Step]] = {
    "uncordoned": (_pod_and_node({"unschedulable": True}), comes),
    "all-uncordoned": (_equal_pods, comes),
    "untainted": (_pod_and_node({"taints": [TAINT]}), comes),
    "tolerated": (_pod_and_node({"taints": [TAINT]}), _pod_tolerates),
    "labelled": (_node_without_label, comes),
    "grown": (_node_without_capacity, _node_grows),
    "new": (_no_node, comes),
    "left": (_full_node(), leaves),
    "ended": (_full_node(), _neighbour_ends),
    "port-left": (_full_node("1", ports=True), leaves),
    "port-ended": (_full_node("1", ports=True), _neighbour_ends),
    "quota-raised": (_quota_exhausted(spent=False), _quota_is_raised),
    "quota-freed": (_quota_exhausted(spent=True), leaves),
    "let-in": (_class_reserved, _override_allows_class),
    "for-everyone": (_class_reserved, _class_is_opened),
    "not-avoided": (_zone_avoided, _override_is_deleted),
    "not-reserved": (_room_reserved, _reservation_is_released),
    "friend-came": (_pod_and_node(affinity=_affinity("friend-came", "podAffinity")), _friend_comes),
    "friend-joined": (_friend_in_other_namespace, _namespace_is_labelled),
    "foe-left": (_anti_affinity, leaves),
    "foe-changed": (_anti_affinity, _neighbour_is_relabelled),
    "ungated": (_pod_and_node(schedulingGates=[{"name": "example.com/gate"}]), _gate_is_removed),
}
