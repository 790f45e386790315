"""What a pod can wait for, one thing at a time: what is in its way, and what helps. Told in `waking`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fathom.client.api import Resource
from fathom.model.objects import Obj
from fathom.model.tenancy import TENANT
from fathom.sim.scenarios.objects import NAMESPACES, NODES, PODS
from fathom.sim.scenarios.overriding import CAPACITY_CLASSES, OVERRIDES, override
from fathom.sim.scenarios.scheduling import QUOTAS, node, own, pod, quota
from fathom.sim.world.world import World

RESERVED = Resource("fathom.dev", "v1alpha1", "reservations")
HOST, NEIGHBOUR, OTHERS = "kubernetes.io/hostname", "neighbour", "others"
FULL = "4"
DEAF_AT_S, DEAF_S = 5.0, 6.0  # When the scheduler hears of no pods.
TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}

Step = Callable[[World, str], Awaitable[None]]

# What is there before: each step has a node of its own, with its name.


def node_of(name: str, **more: object) -> Obj:
    made = node(name, zone=f"zone-{name}")
    made["spec"] |= more
    return made


def pod_of(name: str, cpu: str = "1", /, **spec: object) -> Obj:
    made = pod(name, cpu=cpu)
    made["spec"] |= {"nodeSelector": {HOST: name}, **spec}
    return made


def _beside(name: str, *, cpu: str = "1", **spec: object) -> Obj:
    """Somebody who is there already."""
    made = pod(f"{name}-{NEIGHBOUR}", cpu=cpu, labels={"app": name})
    made["spec"] |= {"nodeName": name, **spec}
    return made


def of_tenant(made: Obj, tenant: str) -> Obj:
    made["metadata"]["labels"][TENANT] = tenant
    return made


async def waits_there(world: World, made: Obj) -> None:
    """Everybody has heard of what is in its way when it comes."""
    await world.sleep(0.7)
    await world.apply(PODS, made)


def _ports() -> list[Obj]:
    made = pod("x")["spec"]["containers"]
    return [{**one, "ports": [{"containerPort": 80, "hostPort": 8080}]} for one in made]


def _near(name: str, kind: str, **more: object) -> Obj:
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": HOST, **more}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _waits(node_spec: Obj | None = None, **spec: object) -> Step:
    async def prepare(world: World, name: str) -> None:
        await world.apply(NODES, node_of(name, **(node_spec or {})))
        await waits_there(world, pod_of(name, **spec))

    return prepare


def _crowded(cpu: str = FULL, *, ports: bool = False) -> Step:
    async def prepare(world: World, name: str) -> None:
        await world.apply(NODES, node_of(name))
        taken: dict[str, object] = {"containers": _ports()} if ports else {}
        await world.apply(PODS, _beside(name, cpu=cpu, **taken))
        await waits_there(world, pod_of(name, **taken))

    return prepare


async def _several(world: World, name: str) -> None:
    """Of one kind: what helps the first of them helps all."""
    await world.apply(NODES, node_of(name, unschedulable=True))
    for made in [pod_of(f"{name}-{number}", nodeSelector={HOST: name}) for number in (1, 2)]:
        await world.apply(PODS, made)
    await waits_there(world, pod_of(name))


async def _nowhere(world: World, name: str) -> None:
    await waits_there(world, pod_of(name))


async def _unlabelled(world: World, name: str) -> None:
    await world.apply(NODES, node_of(name))
    await waits_there(world, pod_of(name, nodeSelector={HOST: name, "pool": "red"}))


async def _small(world: World, name: str) -> None:
    made = node_of(name)
    made["status"] = {"capacity": {"pods": "110"}, "allocatable": {"pods": "110"}}
    await world.apply(NODES, made)
    await waits_there(world, pod_of(name))


def _poor(*, spent: bool) -> Step:
    """Of a tenant whose quota is nothing, or in use."""

    async def prepare(world: World, name: str) -> None:
        await world.apply(NODES, node_of(name))
        await world.apply(QUOTAS, quota(name, cpu="1" if spent else "0"))
        for made in [_beside(name), pod_of(name)] if spent else [pod_of(name)]:
            await waits_there(world, of_tenant(made, name))

    return prepare


async def _set_aside(world: World, name: str) -> None:
    await world.apply(CAPACITY_CLASSES, own("CapacityClass", name, {"nodeSelector": {HOST: name}}))
    await world.apply(NODES, node_of(name))
    made = pod_of(name)
    made["metadata"]["annotations"] = {"fathom.dev/capacity-class": name}
    await waits_there(world, made)


async def _avoided(world: World, name: str) -> None:
    await world.apply(NODES, node_of(name))
    await world.apply(OVERRIDES, override(name, {"avoidZones": [f"zone-{name}"]}, lasts_s=600))
    await waits_there(world, pod_of(name))


async def _reserved(world: World, name: str) -> None:
    await world.apply(NODES, node_of(name))
    spec = {"workload": {"name": name, "uid": name}, "intent": "x", "nodeName": name}
    room = {"resources": {"cpu": FULL, "pods": "1"}}
    await world.apply(RESERVED, own("Reservation", name, {**spec, **room}))
    await waits_there(world, pod_of(name))


async def _among_others(world: World, name: str) -> None:
    """Its friend is in a namespace that is none of theirs yet."""
    await world.apply(NODES, node_of(name))
    friend = _beside(name)
    friend["metadata"]["namespace"] = OTHERS
    await world.apply(PODS, friend, OTHERS)
    selector = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    await waits_there(world, pod_of(name, affinity=_near(name, "podAffinity", **selector)))


async def _at_odds(world: World, name: str) -> None:
    await world.apply(NODES, node_of(name))
    await world.apply(PODS, _beside(name))
    await waits_there(world, pod_of(name, affinity=_near(name, "podAntiAffinity")))


async def refused(world: World, name: str) -> None:
    """While the scheduler hears of no pods: it sends one to a node that is full, and doubts it from then."""
    await world.apply(NODES, node_of(name, unschedulable=True))
    await waits_there(world, pod_of(name))
    await world.sleep(DEAF_AT_S + 0.5 - world.now_s)
    await world.apply(PODS, _beside(name, cpu=FULL))
    await world.apply(NODES, node_of(name))
    await world.sleep(DEAF_S + 2)


# What helps.


async def comes(world: World, name: str) -> None:
    """The node, or the node as it should be."""
    made = node_of(name)
    made["spec"]["taints"] = None
    made["metadata"]["labels"]["pool"] = "red"
    await world.apply(NODES, made)


async def _grows(world: World, name: str) -> None:
    room = node(name)["status"]
    await world.api.patch(NODES, "", name, {"status": room}, subresource="status")


async def leaves(world: World, name: str) -> None:
    await world.delete(PODS, f"{name}-{NEIGHBOUR}")


async def _ends(world: World, name: str) -> None:
    patch = {"status": {"phase": "Succeeded"}}
    await world.api.patch(PODS, "default", f"{name}-{NEIGHBOUR}", patch, subresource="status")


async def _is_relabelled(world: World, name: str) -> None:
    patch = {"metadata": {"labels": {"app": "other"}}}
    await world.api.patch(PODS, "default", f"{name}-{NEIGHBOUR}", patch)


async def _friend(world: World, name: str) -> None:
    await world.apply(PODS, _beside(name))


async def _joins(world: World, name: str) -> None:
    await world.apply(NAMESPACES, {"metadata": {"name": OTHERS, "labels": {"team": "a"}}})


async def _is_given(world: World, name: str) -> None:
    await world.apply(QUOTAS, quota(name, cpu="8"))


async def _is_let_in(world: World, name: str) -> None:
    await world.apply(OVERRIDES, override(name, {"allowReservedCapacityClass": name}, lasts_s=600))


async def _is_everyones(world: World, name: str) -> None:
    spec = {"nodeSelector": {HOST: name}, "tenants": ["*"]}
    await world.apply(CAPACITY_CLASSES, own("CapacityClass", name, spec))


async def _is_taken_back(world: World, name: str) -> None:
    await world.delete(OVERRIDES, name)


async def _is_given_back(world: World, name: str) -> None:
    await world.api.patch(RESERVED, "default", name, {"status": {"phase": "Released"}}, subresource="status")


async def _tolerates(world: World, name: str) -> None:
    tolerations = [{"key": TAINT["key"], "operator": "Exists"}]
    await world.api.patch(PODS, "default", name, {"spec": {"tolerations": tolerations}})


async def _is_opened(world: World, name: str) -> None:
    await world.api.patch(PODS, "default", name, {"spec": {"schedulingGates": None}})


WAITS: dict[str, tuple[Step, Step]] = {
    "uncordoned": (_waits({"unschedulable": True}), comes),
    "all-uncordoned": (_several, comes),
    "untainted": (_waits({"taints": [TAINT]}), comes),
    "tolerated": (_waits({"taints": [TAINT]}), _tolerates),
    "labelled": (_unlabelled, comes),
    "grown": (_small, _grows),
    "new": (_nowhere, comes),
    "left": (_crowded(), leaves),
    "ended": (_crowded(), _ends),
    "port-left": (_crowded("1", ports=True), leaves),
    "port-ended": (_crowded("1", ports=True), _ends),
    "quota-raised": (_poor(spent=False), _is_given),
    "quota-freed": (_poor(spent=True), leaves),
    "let-in": (_set_aside, _is_let_in),
    "for-everyone": (_set_aside, _is_everyones),
    "not-avoided": (_avoided, _is_taken_back),
    "not-reserved": (_reserved, _is_given_back),
    "friend-came": (_waits(affinity=_near("friend-came", "podAffinity")), _friend),
    "friend-joined": (_among_others, _joins),
    "foe-left": (_at_odds, leaves),
    "foe-changed": (_at_odds, _is_relabelled),
    "ungated": (_waits(schedulingGates=[{"name": "example.com/gate"}]), _is_opened),
}
