"""How long a fork of a settled cluster takes, and what it writes while nothing happens.

A world with nodes places and starts the pods of some Deployments. Its state is the one that is measured: a
fork of it runs for some virtual minutes with the real scheduler, controllers and
agents. Nothing changes in it, so it should write heartbeats only; anything else is counted by resource.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fathom.api.resource_cache import REGISTRY
from fathom.model.conditions import is_true
from fathom.model.objects import Obj
from fathom.model.resources import DEPLOYMENTS
from fathom.model.times import SECOND_NS, micro_timestamp, timestamp
from fathom.model.well_known import NODE_LEASE_NAMESPACE, ZONE_LABEL
from fathom.seams.outside import SystemClock
from fathom.sim.fork import ForkFailed, end, fork, perform, run_for
from fathom.sim.fork_state import ClusterState, state_from_objects, state_of_world
from fathom.sim.world.world import World
from fathom.store.protocol import Change

ZONES = ("zone-a", "zone-b", "zone-c")
REPLICAS = 20  # Of each Deployment.
PODS_PER_NODE = 80  # By CPU: 100m of 8.
BEGINS_NS = 1_700_000_000 * SECOND_NS
STEP_S, SETTLED_WITHIN_S = 30.0, 600.0
# Leases, what nodes report of themselves, and the counters of fences that leases raise.
HEARTBEATS = tuple(f"{REGISTRY}{resource}" for resource in ("leases.", "nodes/", "fences."))


class ForkResult(msgspec.Struct, frozen=True, kw_only=True):
    bench: str = "fork"
    nodes: int
    pods: int
    sim_s: float
    start_s: float  # Real time until the fork begins to run, its processes started.
    real_s: float  # Real time in all.
    cpu_s: float  # CPU time in all: less than `real_s` where other programs ran too.
    inputs: int
    heartbeats: int
    writes: dict[str, int]  # All others, by resource. Empty: the fork is quiet.
    parameters: dict[str, Any]
    machine: dict[str, Any]


def run_fork(
    nodes: int, pods: int, *, minutes: float, seed: str = "1", machine: dict[str, Any] | None = None
) -> ForkResult:
    state = settled(nodes, pods)
    gc.collect()
    clock, cpu_ns = SystemClock(), time.process_time_ns()
    began_ns = clock.monotonic_ns()
    world = fork(state, seed)
    started_ns = clock.monotonic_ns()
    commits = Commits()
    world.engine.watchers.append(commits.count)
    try:
        run_for(world, minutes * 60)
        inputs, sim_s = world.engine.trace.inputs, world.now_s
    finally:
        end(world)
    return ForkResult(
        nodes=nodes,
        pods=pods,
        sim_s=sim_s,
        start_s=(started_ns - began_ns) / SECOND_NS,
        real_s=(clock.monotonic_ns() - began_ns) / SECOND_NS,
        cpu_s=(time.process_time_ns() - cpu_ns) / SECOND_NS,
        inputs=inputs,
        heartbeats=commits.heartbeats,
        writes=dict(commits.others),
        parameters={"minutes": minutes, "seed": seed, "replicas": REPLICAS},
        machine=machine or {},
    )


def as_json(result: ForkResult) -> str:
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def as_table(result: ForkResult) -> str:
    others = ", ".join(f"{count:,} of {name}" for name, count in sorted(result.writes.items())) or "none"
    return "\n".join(
        (
            f"a fork of {result.pods:,} pods on {result.nodes:,} nodes, {result.sim_s / 60:.0f} virtual min",
            f"{result.real_s:.1f} s ({result.start_s:.1f} s to start), {result.cpu_s:.1f} s of CPU",
            f"writes: {result.heartbeats:,} heartbeats, others: {others}",
        )
    )


class Commits:
    """Counts the fork's writes."""

    def __init__(self) -> None:
        self.heartbeats = 0
        self.others: Counter[str] = Counter()

    def count(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if not change.key.startswith(REGISTRY):
                continue  # The store's own bookkeeping.
            if change.key.startswith(HEARTBEATS):
                self.heartbeats += 1
            else:
                self.others[change.key.removeprefix(REGISTRY).split("/")[0]] += 1


def settled(nodes: int, pods: int) -> ClusterState:
    """A cluster whose pods all run. Raises ForkFailed."""
    world = fork(state_from_objects(_nodes(nodes), time_ns=BEGINS_NS), "0")
    try:
        perform(world, lambda world: _create_deployments(world, pods))
        for _ in range(int(SETTLED_WITHIN_S / STEP_S)):
            run_for(world, STEP_S)
            ready = sum(is_true(pod, "Ready") for pod in world.list("pods"))
            if ready == pods:
                run_for(world, 2 * STEP_S)
                return state_of_world(world)
    finally:
        end(world)
    raise ForkFailed(f"{ready} of {pods} pods were ready after {SETTLED_WITHIN_S:.0f} virtual seconds")


def _nodes(count: int) -> Iterator[tuple[str, Obj]]:
    now, room = timestamp(BEGINS_NS), {"cpu": "8", "memory": "32Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
    for number in range(count):
        name = f"node-{number}"
        labels = {"kubernetes.io/hostname": name, ZONE_LABEL: ZONES[number % len(ZONES)]}
        meta = {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": now, "labels": labels}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        yield "nodes", {"kind": "Node", "apiVersion": "v1", "metadata": meta, "spec": {}, "status": status}
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_timestamp(BEGINS_NS)}
        lease = {"name": name, "namespace": NODE_LEASE_NAMESPACE, "uid": f"lease-of-{name}"}
        yield (
            "leases.coordination.k8s.io",
            {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": lease, "spec": spec},
        )


async def _create_deployments(world: World, pods: int) -> None:
    for number in range(-(-pods // REPLICAS)):
        replicas = min(REPLICAS, pods - number * REPLICAS)
        await world.apply(DEPLOYMENTS, _deployment(f"app-{number}", replicas))


def _deployment(name: str, replicas: int) -> Obj:
    labels, requests = {"app": name}, {"cpu": "100m", "memory": "64Mi"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": name}, "spec": spec}
