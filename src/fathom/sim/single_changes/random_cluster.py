"""A random cluster at rest, with one pod that waits, often for several reasons at once.

The cluster begins with its nodes. All else is created through the API, in an order that people would take:
quotas and pods first, then what closes nodes, then the pod that is to wait.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from fathom.client.api import Resource
from fathom.model.objects import Key, Obj, lookup
from fathom.model.times import micro_timestamp, timestamp
from fathom.sim.fork import ForkFailed, end, fork, perform, run_for
from fathom.sim.fork_state import ClusterState, state_from_objects, state_of_world
from fathom.sim.single_changes.resources import (
    CLAIMS,
    CLASSES,
    NAMESPACES,
    NODES,
    OVERRIDES,
    PODS,
    POLICIES,
    PRIORITY_CLASSES,
    QUOTAS,
    RESOURCE_QUOTAS,
    ROLLOUTS,
    VOLUMES,
)
from fathom.sim.world.world import World

NAMESPACE, TENANT = "shop", "red"
POD = Key(NAMESPACE, "waiting")
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES, DISKS, APPS = ("zone-a", "zone-b"), ("ssd", "hdd"), ("web", "db")
BEGIN_NS = 1_767_225_600 * 10**9
CPU_STEP, MEMORY_STEP = 50, 64  # Millis and mebibytes: all amounts are multiples of these.
REST_S = 30.0  # Longer than the scheduler and the controllers need for a dozen pods.

TAINTS = (
    {"key": "team", "value": "a", "effect": "NoSchedule"},
    {"key": "spot", "effect": "NoSchedule"},
    {"key": "gpu", "value": "yes", "effect": "NoExecute"},
)
TOLERATES_ALL = [{"operator": "Exists"}]


class WaitingPod(msgspec.Struct, frozen=True):
    """A cluster at rest and the pod in it that waits."""

    seed: int
    state: ClusterState
    pod: Obj


class Draw:
    """One stream of random choices."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"single-changes-{seed}")
        self._obstacles_percent = self.pick(25, 50, 100)  # Few, for pods that need one change, or many.

    def likely(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    def obstacle(self, percent: int) -> bool:
        """Something that may keep the pod waiting."""
        return self.likely(percent * self._obstacles_percent // 100)

    def pick(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def some(self, choices: Any, most: int) -> list[Any]:
        return self._random.sample(list(choices), self._random.randint(1, min(most, len(choices))))

    def between(self, least: int, most: int, step: int = 1) -> int:
        return self._random.randrange(least, most + 1, step)


def waiting_pod(seed: int) -> WaitingPod | None:
    """None: the pod of this seed found a node, or the API refused an object."""
    draw = Draw(seed)
    nodes = [_node(draw, number) for number in range(1, draw.between(2, 4) + 1)]
    objects = [listed for node in nodes for listed in (("nodes", node), _lease(node))]
    world = fork(state_from_objects(objects, time_ns=BEGIN_NS), str(seed))
    try:
        perform(world, lambda world: _furnish(world, draw, nodes))
        run_for(world, REST_S)
        pod = world.get("pods", POD)
        waits = pod is not None and not lookup(pod, "spec", "nodeName")
        return WaitingPod(seed, state_of_world(world), pod) if pod is not None and waits else None
    except ForkFailed:
        return None
    finally:
        end(world)


def waiting_pods(first: int, count: int) -> Iterator[WaitingPod]:
    """So many, from the seeds that follow `first`."""
    seed = first
    while count:
        if (waiting := waiting_pod(seed)) is not None:
            yield waiting
            count -= 1
        seed += 1


async def _furnish(world: World, draw: Draw, nodes: list[Obj]) -> None:
    for resource, obj in (*_before_pods(draw), *_running_pods(draw, nodes)):
        await _create(world, resource, obj)
    await world.sleep(REST_S)
    for pod in world.list("pods"):
        if not lookup(pod, "spec", "nodeName"):  # It would compete with the pod that is to wait.
            await world.delete(PODS, pod["metadata"]["name"], NAMESPACE)
    for resource, obj in _after_pods(draw, nodes):
        await _create(world, resource, obj)
    for node in nodes:
        spec = _closed(draw)
        if spec:
            await world.api.patch(NODES, "", node["metadata"]["name"], {"spec": spec})
    await world.sleep(5.0)
    await _create(world, PODS, _waiting(draw, nodes))


async def _create(world: World, resource: Resource, obj: Obj) -> None:
    """An object that the API refuses, as a pod beyond a quota, is left out."""
    await world.api.create(resource, obj["metadata"].get("namespace", ""), obj)


# Nodes.


def _node(draw: Draw, number: int) -> Obj:
    name = f"node-{number}"
    labels = {HOSTNAME: name, ZONE: ZONES[number % 2]}
    if draw.likely(80):
        labels["disk"] = draw.pick(*DISKS)
    if draw.likely(30):
        labels["pool"] = "spare"
    room = {
        "cpu": draw.pick("1", "2", "4"),
        "memory": draw.pick("1Gi", "2Gi", "4Gi"),
        "pods": draw.pick("110", "110", "3"),
    }
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": _time()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels, "creationTimestamp": _time()},
        "spec": {"podCIDR": f"127.1.{number}.0/24"},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{**ready, "lastHeartbeatTime": _time()}],
            "addresses": [{"type": "InternalIP", "address": f"127.1.{number}.1"}],
        },
    }


def _lease(node: Obj) -> tuple[str, Obj]:
    name = node["metadata"]["name"]
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_timestamp(BEGIN_NS)}
    meta = {"name": name, "namespace": "kube-node-lease", "uid": f"uid-lease-{name}"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
    return "leases.coordination.k8s.io", lease


def _time() -> str:
    return timestamp(BEGIN_NS)


def _closed(draw: Draw) -> Obj:
    spec: Obj = {}
    if draw.obstacle(28):
        spec["taints"] = draw.some(TAINTS, 2)
    if draw.obstacle(20):
        spec["unschedulable"] = True
    return spec


# Other objects.


def _own(kind: str, name: str, spec: Obj, namespace: str = "") -> Obj:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "fathom.dev/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


def _before_pods(draw: Draw) -> Iterator[tuple[Resource, Obj]]:
    labels = {"fathom.dev/tenant": TENANT}
    yield (
        NAMESPACES,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}},
    )
    for name, value in (("high", 1000), ("low", -10)):
        meta = {"name": name}
        yield (
            PRIORITY_CLASSES,
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value},
        )


def _after_pods(draw: Draw, nodes: list[Obj]) -> Iterator[tuple[Resource, Obj]]:
    if draw.obstacle(40):
        yield QUOTAS, _own("TenantQuota", TENANT, {"limits": list(_limits(draw))})
    for number in range(draw.pick(1, 1, 2) if draw.obstacle(50) else 0):
        yield OVERRIDES, _own("SchedulerOverride", f"calm-{number}", _override(draw, nodes), NAMESPACE)
    if draw.obstacle(15):
        spec: Obj = {"nodeSelector": {"pool": "spare"}}
        if draw.likely(40):
            spec["resources"] = {"cpu": "500m"}
        yield CLASSES, _own("CapacityClass", "recovery", spec)
    if draw.obstacle(20):
        hard = {"pods": str(draw.between(2, 12))}
        meta = {"name": "room", "namespace": NAMESPACE}
        yield (
            RESOURCE_QUOTAS,
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}},
        )
    if draw.obstacle(20):
        yield POLICIES, _own("SchedulingPolicy", "even", {"maxZoneSkew": draw.pick(1, 1, 2)})
        yield POLICIES, _own("SchedulingPolicy", "free", {})
        paused = {"from": "even", "to": "free", "paused": True}  # So that the first one stays active.
        yield ROLLOUTS, _own("PolicyRollout", "to-free", paused)
    if draw.likely(60):
        yield VOLUMES, _volume(draw)
        yield CLAIMS, _claim()


def _limits(draw: Draw) -> Iterator[Obj]:
    zones = [{}, {"zone": draw.pick(*ZONES)}]
    for place in draw.some(zones, 2):
        resources = {"cpu": f"{draw.between(100, 3000, CPU_STEP)}m"}
        if draw.obstacle(30):
            resources["memory"] = f"{draw.between(MEMORY_STEP, 3072, MEMORY_STEP)}Mi"
        if draw.obstacle(25):
            resources["pods"] = str(draw.between(0, 4))
        yield {**place, "resources": resources}


def _override(draw: Draw, nodes: list[Obj]) -> Obj:
    names = [node["metadata"]["name"] for node in nodes]
    changes = {"avoidZones": draw.some(ZONES, 2)} if draw.likely(50) else {"avoidNodes": draw.some(names, 3)}
    lasts = {"scope": "cluster", "reason": "drawn", "expiresAfter": "5h"}
    return {"target": f"workload/{POD.name}", **lasts, "changes": changes}


def _volume(draw: Draw) -> Obj:
    spec: Obj = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"},
        "claimRef": {"namespace": NAMESPACE, "name": "data"},
    }
    meta = {"name": "volume", "labels": {ZONE: draw.pick(*ZONES)}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}


def _claim() -> Obj:
    meta = {"name": "data", "namespace": NAMESPACE}
    resources = {"requests": {"storage": "1Gi"}}
    spec: Obj = {"accessModes": ["ReadWriteOnce"], "resources": resources, "volumeName": "volume"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


# Pods.


def _running_pods(draw: Draw, nodes: list[Obj]) -> Iterator[tuple[Resource, Obj]]:
    for node in nodes:
        place = node["metadata"]["name"]
        for number in range(draw.between(0, 3)):
            spec = _spec(
                draw,
                cpu=draw.between(100, 1500, CPU_STEP),
                memory=draw.between(MEMORY_STEP, 1024, MEMORY_STEP),
            )
            spec |= {"nodeSelector": {HOSTNAME: place}, "tolerations": TOLERATES_ALL}
            if draw.obstacle(15):
                spec["affinity"] = {"podAntiAffinity": _required(draw)}
            if draw.obstacle(20):
                spec["priorityClassName"] = "low"
            yield PODS, _pod(draw, f"{place}-{number}", spec)


def _waiting(draw: Draw, nodes: list[Obj]) -> Obj:
    spec = _spec(
        draw, cpu=draw.between(100, 2000, CPU_STEP), memory=draw.between(MEMORY_STEP, 1536, MEMORY_STEP)
    )
    if draw.obstacle(35):
        spec["nodeSelector"] = dict(draw.some((("disk", draw.pick(*DISKS)), (ZONE, draw.pick(*ZONES))), 2))
    if draw.obstacle(25):
        spec["tolerations"] = [
            {**taint, "operator": "Equal" if "value" in taint else "Exists"} for taint in draw.some(TAINTS, 2)
        ]
    if draw.obstacle(25):
        spec["topologySpreadConstraints"] = [_spread(draw, key) for key in draw.some((ZONE, HOSTNAME), 2)]
    affinity = dict(_affinity(draw))
    if affinity:
        spec["affinity"] = affinity
    if draw.obstacle(10):
        spec["schedulingGates"] = [{"name": f"example.com/{name}"} for name in draw.some(("a", "b"), 2)]
    if draw.obstacle(15):
        spec["priorityClassName"] = draw.pick("high", "low")
    if draw.obstacle(12):
        claim = {"claimName": draw.pick("data", "data", "absent")}
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": claim}]
    return _pod(draw, POD.name, spec)


def _pod(draw: Draw, name: str, spec: Obj) -> Obj:
    labels = {"app": draw.pick(*APPS)}
    meta = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _spec(draw: Draw, *, cpu: int, memory: int) -> Obj:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    containers: list[Obj] = [{"name": "main", "image": "main:1", "resources": {"requests": requests}}]
    if draw.obstacle(20):
        containers[0]["ports"] = [{"containerPort": 80, "hostPort": draw.pick(8080, 8081)}]
    if draw.obstacle(20):
        beside = {"cpu": f"{draw.between(CPU_STEP, 500, CPU_STEP)}m"}
        containers.append({"name": "beside", "image": "beside:1", "resources": {"requests": beside}})
    return {"containers": containers, "terminationGracePeriodSeconds": 1}


def _affinity(draw: Draw) -> Iterator[tuple[str, Obj]]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if draw.obstacle(15):
        expressions = [{"key": "disk", "operator": "In", "values": [draw.pick(*DISKS)]}]
        if draw.obstacle(40):
            expressions.append({"key": ZONE, "operator": "In", "values": [draw.pick(*ZONES)]})
        yield "nodeAffinity", {required: {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    if draw.obstacle(15):
        yield "podAntiAffinity", _required(draw)
    if draw.obstacle(10):
        yield "podAffinity", _required(draw)


def _required(draw: Draw) -> Obj:
    selector = {"matchLabels": {"app": draw.pick(*APPS)}}
    term = {"topologyKey": draw.pick(ZONE, HOSTNAME), "labelSelector": selector}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _spread(draw: Draw, key: str) -> Obj:
    selector = {"matchLabels": {"app": draw.pick(*APPS)}}
    constraint: Obj = {"maxSkew": draw.pick(1, 1, 2), "topologyKey": key, "labelSelector": selector}
    return {**constraint, "whenUnsatisfiable": "DoNotSchedule"}
