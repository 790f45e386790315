"""How fast a world runs: simulated seconds per real second, for clusters of several sizes.

The load passes through the real code only: API server with admission, validation, RBAC, watch cache and
audit; clients on seams; the store's commits and watches. The processes that make the load are scripted:

    nodes       each registers, renews its Lease every 10 s, reports its status every 5 minutes, watches its
                own pods, and makes each that is bound to it Running after 0.5 to 2.5 s: as a kubelet does
    scheduler   watches all pods and binds each to the next node in turn
    controller  watches all pods, nodes and leases, as node controllers do
    scenario    creates ten pods per node in the first minutes; then replaces one in a thousand every 10 s

No faults. One core, one interpreter.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from fathom.client.api import Api, Resource
from fathom.client.events import DELETED, Event, decode_events
from fathom.client.outcomes import Committed
from fathom.model.objects import Obj, metadata
from fathom.model.resources import LEASES, NODES, PODS
from fathom.model.times import SECOND_NS, micro_timestamp, timestamp
from fathom.model.well_known import NODE_LEASE_NAMESPACE
from fathom.seams.outside import SystemClock
from fathom.seams.process import Inside
from fathom.sim.world.engine import Engine
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.signing_key import world_key
from fathom.sim.world.world import World

PODS_PER_NODE = 10
CREATES_PER_S = 50.0  # At least; large clusters faster, so that all pods are created within a minute.
RENEW_S = 10.0
REPORT_S = 300.0
REPLACE_S = 10.0


class Size(msgspec.Struct, frozen=True):
    nodes: int
    seconds: float = 900.0

    @property
    def pods(self) -> int:
        return self.nodes * PODS_PER_NODE


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int
    pods: int
    sim_s: float
    real_s: float
    cpu_s: float  # CPU time of this program: less than `real_s` where other programs ran too.
    sim_ratio: float  # Simulated seconds per real second.
    cpu_ratio: float  # Simulated seconds per CPU second; so are the next two.
    filling_ratio: float  # While nodes register and pods are created, bound and started.
    steady_ratio: float  # After that.
    inputs: int
    commits: int
    us_per_commit: float
    running: int  # Pods that run at the end.
    trace: str


class SimResult(msgspec.Struct, frozen=True, kw_only=True):
    bench: str = "sim"
    clusters: tuple[Measured, ...]
    parameters: dict[str, Any]
    machine: dict[str, Any]  # As the caller describes it.


def run_sim(
    sizes: Sequence[Size], *, seed: str = "1", codec: bool = False, machine: dict[str, Any] | None = None
) -> SimResult:
    return SimResult(
        clusters=tuple(measure(size, seed=seed, codec=codec) for size in sizes),
        parameters={
            "seconds": [size.seconds for size in sizes],
            "seed": seed,
            "codec": codec,
            "pods_per_node": PODS_PER_NODE,
        },
        machine=machine or {},
    )


def as_json(result: SimResult) -> str:
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def as_table(result: SimResult) -> str:
    head = f"{'nodes':>6} {'pods':>7} {'× real time':>12} {'filling':>9} {'steady':>9} {'µs a commit':>12}"
    lines = [
        f"{cluster.nodes:>6,} {cluster.pods:>7,} {cluster.sim_ratio:>12,.0f} {cluster.filling_ratio:>9,.0f} "
        f"{cluster.steady_ratio:>9,.0f} {cluster.us_per_commit:>12,.0f}"
        for cluster in result.clusters
    ]
    return "\n".join([head, *lines])


def measure(size: Size, *, seed: str = "1", codec: bool = False) -> Measured:
    gc.collect()
    engine = Engine(seed, signing=world_key())
    engine.codec = codec
    engine.inputs_max = 1 << 62
    started = Started()
    world = World(engine, checkers=[started])

    async def story(world: World) -> None:
        await _fill(world, size, started)
        engine.halt()  # The real clock is read outside the world; then the run goes on.
        await _replace(world, size)

    clock = SystemClock()
    ended = world.start(story)
    until_s = engine.began_ns / SECOND_NS + 2 * size.seconds
    marks = [_Mark(clock.monotonic_ns(), time.process_time_ns(), engine.now_ns)]
    for _ in ("filling", "steady"):
        engine.run(until_s=until_s)
        marks.append(_Mark(clock.monotonic_ns(), time.process_time_ns(), engine.now_ns))
    engine.check_what_is_shared()
    if ended != [None] or engine.violation is not None:
        raise RuntimeError(f"the load failed: {engine.violation or ended}")
    measured = _measured(size, engine, marks, started.pods)
    engine.end()
    return measured


class _Mark(msgspec.Struct, frozen=True):
    real_ns: int
    cpu_ns: int
    sim_ns: int


def _measured(size: Size, engine: Engine, marks: list[_Mark], running: int) -> Measured:
    began, filled, ended = marks
    commits = engine.store.newest
    real_s, cpu_s = (ended.real_ns - began.real_ns) / SECOND_NS, (ended.cpu_ns - began.cpu_ns) / SECOND_NS
    return Measured(
        nodes=size.nodes,
        pods=size.pods,
        sim_s=round((ended.sim_ns - began.sim_ns) / SECOND_NS, 1),
        real_s=round(real_s, 3),
        cpu_s=round(cpu_s, 3),
        sim_ratio=round((ended.sim_ns - began.sim_ns) / (ended.real_ns - began.real_ns), 1),
        cpu_ratio=_ratio(began, ended),
        filling_ratio=_ratio(began, filled),
        steady_ratio=_ratio(filled, ended),
        inputs=engine.trace.inputs,
        commits=commits,
        us_per_commit=round(cpu_s * 1e6 / commits, 1),
        running=running,
        trace=engine.trace.hexdigest(),
    )


def _ratio(start: _Mark, end: _Mark) -> float:
    return round((end.sim_ns - start.sim_ns) / (end.cpu_ns - start.cpu_ns), 1)


# The scenario.


class Started(Checker):
    """Counts the pods that run."""

    name = "pods start"
    resources = frozenset({"pods"})

    def __init__(self) -> None:
        self.pods = 0

    def commit(self, change: Seen) -> Found:
        self.pods += _runs(change.new) - _runs(change.old)
        return None


def _runs(obj: Obj | None) -> bool:
    return obj is not None and (obj.get("status") or {}).get("phase") == "Running"


async def _fill(world: World, size: Size, started: Started) -> None:
    for number in range(size.nodes):
        name = f"node-{number}"
        world.process(name, Kubelet, node=name)
    world.process("scheduler", lambda inside: BenchScheduler(inside, size.nodes))
    world.process("controller", BenchController)
    await world.sleep(RENEW_S)
    every_s = min(1 / CREATES_PER_S, 60 / size.pods)
    for number in range(size.pods):
        await _create(world, number)
        await world.sleep(every_s)
    await world.until(lambda: started.pods == size.pods, within_s=120, what="all pods run")


async def _replace(world: World, size: Size) -> None:
    number = size.pods
    while world.now_s < size.seconds:
        await world.sleep(REPLACE_S)
        for _ in range(max(1, size.pods // 1000)):
            await world.delete(PODS, f"web-{number - size.pods}")
            await _create(world, number)
            number += 1
    await world.sleep(5)


async def _create(world: World, number: int) -> None:
    outcome = await world.api.create(PODS, "default", pod(f"web-{number}"))
    if not isinstance(outcome, Committed):
        raise RuntimeError(f"a pod was not created: {outcome}")


def pod(name: str) -> Obj:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"app": "web", "tier": "front"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/team/app:1.2.3",
                    "ports": [{"containerPort": 8080}],
                    "env": [{"name": f"E{n}", "value": f"v{n}"} for n in range(6)],
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                }
            ],
        },
    }


# The processes.


def _soon(coro: Coroutine[Any, Any, None]) -> None:
    asyncio.get_running_loop().create_task(coro)


async def follow(api: Api, resource: Resource, take: Callable[[Event], None], **options: str) -> None:
    """List, then watch from there; this world has no faults, so the watch ends only with the run."""
    while True:
        page = await api.list_page(resource, limit=0, **options)
        for item in page.items:
            take(Event("ADDED", item))
        stream = await api.watch(resource, resourceVersion=str(page.revision), **options)
        while (chunks := await stream.read()) is not None:
            for event in decode_events(chunks):
                take(event)


class Kubelet:
    def __init__(self, inside: Inside) -> None:
        self._name = str(inside.options["node"])
        self._api = Api(inside.seam)
        self._outside = inside.outside
        self._seen: dict[str, None] = {}
        _soon(self._live())

    async def _live(self) -> None:
        rng = self._outside.rng
        await asyncio.sleep(rng.random() * 5)
        node = await self._must(self._api.create(NODES, "", self._node()))
        lease = await self._must(self._api.create(LEASES, NODE_LEASE_NAMESPACE, self._lease()))
        _soon(follow(self._api, PODS, self._take, fieldSelector=f"spec.nodeName={self._name}"))
        reported_s = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(RENEW_S * (1 + 0.04 * rng.random()))
            renewed = {**lease, "spec": {**lease["spec"], "renewTime": self._now()}}
            lease = await self._must(self._api.update(LEASES, NODE_LEASE_NAMESPACE, renewed))
            if asyncio.get_running_loop().time() - reported_s > REPORT_S:
                reported_s = asyncio.get_running_loop().time()
                status = {**node, "status": self._status()}
                node = await self._must(self._api.update(NODES, "", status, "status"))

    async def _must(self, write: Coroutine[Any, Any, Any]) -> Obj:
        outcome = await write
        if not isinstance(outcome, Committed):
            raise RuntimeError(f"{self._name} could not write: {outcome}")
        return outcome.obj

    def _now(self) -> str:
        return micro_timestamp(self._outside.clock.now_ns())

    def _lease(self) -> Obj:
        spec = {"holderIdentity": self._name, "leaseDurationSeconds": 40, "renewTime": self._now()}
        return {"metadata": {"name": self._name}, "spec": spec}

    def _node(self) -> Obj:
        labels = {"kubernetes.io/hostname": self._name, "topology.kubernetes.io/zone": "zone-a"}
        return {"metadata": {"name": self._name, "labels": labels}, "status": self._status()}

    def _status(self) -> Obj:
        now = timestamp(self._outside.clock.now_ns())
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        return {"capacity": room, "allocatable": room, "conditions": [{**ready, "lastTransitionTime": now}]}

    def _take(self, event: Event) -> None:
        name = metadata(event.obj)["name"]
        if event.type == DELETED:
            self._seen.pop(name, None)
        elif name not in self._seen:
            self._seen[name] = None
            _soon(self._run(event.obj))

    async def _run(self, obj: Obj) -> None:
        await asyncio.sleep(0.5 + 2 * self._outside.rng.random())
        now = timestamp(self._outside.clock.now_ns())
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
        status = {"phase": "Running", "podIP": "10.0.0.1", "startTime": now, "conditions": conditions}
        await self._must(
            self._api.patch(PODS, "default", metadata(obj)["name"], {"status": status}, subresource="status")
        )


class BenchScheduler:
    def __init__(self, inside: Inside, nodes: int) -> None:
        self._api = Api(inside.seam)
        self._nodes = nodes
        self._next = 0
        self._seen: dict[str, None] = {}
        _soon(follow(self._api, PODS, self._take))

    def _take(self, event: Event) -> None:
        name = metadata(event.obj)["name"]
        if event.type == DELETED:
            self._seen.pop(name, None)
        elif name not in self._seen and not event.obj["spec"].get("nodeName"):
            self._seen[name] = None
            node = f"node-{self._next % self._nodes}"
            self._next += 1
            _soon(self._bind(name, node))

    async def _bind(self, name: str, node: str) -> None:
        target = {"kind": "Node", "name": node}
        binding = {"metadata": {"name": name}, "target": target}
        outcome = await self._api.create(PODS, "default", binding, "binding")
        if not isinstance(outcome, Committed):
            raise RuntimeError(f"{name} was not bound: {outcome}")


class BenchController:
    def __init__(self, inside: Inside) -> None:
        api = Api(inside.seam)
        self.known: dict[str, dict[str, Obj]] = {}
        for resource in (PODS, NODES, LEASES):
            objects = self.known[resource.plural] = {}
            _soon(follow(api, resource, lambda event, objects=objects: self._take(objects, event)))  # type: ignore[misc]  # bound now

    def _take(self, objects: dict[str, Obj], event: Event) -> None:
        name = metadata(event.obj)["name"]
        if event.type == DELETED:
            objects.pop(name, None)
        else:
            objects[name] = event.obj
