"""`fathom bench cache`: what it costs a client to follow a cluster.

In process: a Domain is fed with prepared chunks, so that only decoding, indexing and snapshots are measured.
Over HTTP: the same caches, against a live server. Beside kopf: see `against_kopf`.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Iterable

import msgspec
import uvloop

from fathom.bench import podstream
from fathom.bench.against_kopf import FollowedRun, KopfComparison, compare
from fathom.bench.child import rss_mb
from fathom.bench.drive import Lane
from fathom.bench.errors import BenchFailed
from fathom.bench.follow import CacheFollower, ReachedRevision
from fathom.bench.kubeconfig import BenchTarget
from fathom.bench.requests import Asker, expect
from fathom.bench.result import Machine, this_machine
from fathom.bench.session import Against, Session, namespace, session
from fathom.cache.caches import Caches
from fathom.cache.indexes import FOR_PODS
from fathom.cache.scope import CacheScope
from fathom.client.api import Api
from fathom.client.http import ServerAddress
from fathom.model.resources import PODS
from fathom.seams.domain import Domain
from fathom.seams.seam import Ask, Input, Seam
from fathom.seams.streams import Streams

EVENTS_PER_CHUNK = 100  # What a busy watch brings at once, and how often a snapshot is taken.
SNAPSHOT_SIZES = (1_000, 10_000, 100_000)
SNAPSHOTS = 500


class CacheLoad(msgspec.Struct, frozen=True):
    objects: int = 100_000
    events: int = 50_000
    http_objects: int = 10_000  # 0: no server.
    connections: int = 32
    kopf_objects: int = 0  # 0: no comparison.


class CacheResult(msgspec.Struct, frozen=True, kw_only=True):
    """In process unless it says otherwise; one kind, five indexes besides the namespace."""

    bench: str = "cache"
    events_per_s: float
    event_us: float  # CPU time: decoded, shared, indexed, and a snapshot every hundred.
    sync_s: float
    sync_object_us: float  # CPU time.
    bytes_per_object: float  # Of resident memory, indexes included.
    json_bytes_per_object: float
    collect_ms: float  # One full garbage collection with all of it in memory.
    snapshot_us: dict[str, float]  # By how many objects there are; each after a change.
    http_sync_s: float | None
    http_objects: int
    beside_kopf: KopfComparison | None
    parameters: dict[str, int]
    machine: Machine


def run_cache(load: CacheLoad, against: Against) -> CacheResult:
    feed = EventFeed()
    before_mb = rss_mb([os.getpid()])
    sync_s, sync_cpu_s, sent_bytes = feed.sync(load.objects)
    taken_mb = rss_mb([os.getpid()]) - before_mb
    event_s, event_cpu_s = feed.change(load.objects, load.events)
    collect_ms = _collect_ms()
    snapshots = {load.objects: feed.snapshot_us()}
    del feed
    for size in SNAPSHOT_SIZES:
        if size < load.objects:
            snapshots[size] = _snapshot_us(size)
    return CacheResult(
        events_per_s=round(load.events / event_s, 1),
        event_us=round(event_cpu_s / load.events * 1e6, 2),
        sync_s=round(sync_s, 3),
        sync_object_us=round(sync_cpu_s / load.objects * 1e6, 2),
        bytes_per_object=round(taken_mb * 1e6 / load.objects, 1),
        json_bytes_per_object=round(sent_bytes / load.objects, 1),
        collect_ms=round(collect_ms, 1),
        snapshot_us={str(size): round(snapshots[size], 3) for size in sorted(snapshots)},
        http_sync_s=_over_http(load, against) if load.http_objects else None,
        http_objects=load.http_objects,
        beside_kopf=compare(load.kopf_objects, load.kopf_objects) if load.kopf_objects else None,
        parameters=msgspec.structs.asdict(load),
        machine=this_machine(),
    )


class EventFeed:
    """Caches on a Domain whose only watch is fed by hand. Time counts only while the Domain works."""

    def __init__(self) -> None:
        self._domain = Domain()
        self._number = 0  # Of the watch that was opened.
        self._seam = Seam(self._domain, self)
        self.caches = Caches(Api(self._seam), streams=Streams("bench"))
        self.caches.add("Pod", CacheScope(PODS), indexes=FOR_PODS)
        self._revision = 0

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        self._number = number

    def cancel(self, number: int) -> None: ...

    def sync(self, objects: int) -> tuple[float, float, int]:
        """Wall time, CPU time, bytes sent."""
        self._domain.input(0, self.caches.start)
        self._domain.input(0, self._seam.deliver, Input.OPENED, self._number, 200, b"")
        sizes: list[int] = []
        spent = self._feed(podstream.initial(objects), sizes)
        if not self.caches.synced:
            raise BenchFailed("the cache did not apply the list")
        self._revision = podstream.FIRST_REVISION + objects
        return *spent, sum(sizes)

    def change(self, objects: int, events: int) -> tuple[float, float]:
        chunks = podstream.changes(objects, events, per_chunk=EVENTS_PER_CHUNK)
        spent = self._feed(chunks, [])
        self._revision += events
        if self._domain_snapshot_revision() < self._revision - 1:
            raise BenchFailed("the cache did not apply all events")
        return spent

    def snapshot_us(self) -> float:
        """The median of snapshots that are each taken after a change."""
        spent_ns: list[int] = []

        def take() -> None:
            began_ns = time.perf_counter_ns()
            self.caches.snapshot()
            spent_ns.append(time.perf_counter_ns() - began_ns)

        for number in range(SNAPSHOTS):
            self._revision += 1
            line = podstream.event("MODIFIED", podstream.pod(number, revision=self._revision))
            self._domain.input(0, self._seam.deliver, Input.CHUNK, self._number, 0, line)
            self._domain.input(0, take)
        return statistics.median(spent_ns) / 1e3

    def _feed(self, chunks: Iterable[bytes], sizes: list[int]) -> tuple[float, float]:
        wall_s = cpu_s = 0.0
        gc.collect()
        gc.disable()  # As on every live Domain: it is collected between inputs.
        try:
            for chunk in chunks:
                sizes.append(len(chunk))
                began_s, began_cpu_s = time.perf_counter(), time.process_time()
                self._domain.input(0, self._seam.deliver, Input.CHUNK, self._number, 0, chunk)
                self._domain.input(0, self.caches.snapshot)
                cpu_s += time.process_time() - began_cpu_s
                wall_s += time.perf_counter() - began_s
        finally:
            gc.enable()
        return wall_s, cpu_s

    def _domain_snapshot_revision(self) -> int:
        revisions: list[int] = []
        self._domain.input(0, lambda: revisions.append(self.caches.snapshot().revision("Pod")))
        return revisions[0]


def _snapshot_us(objects: int) -> float:
    feed = EventFeed()
    feed.sync(objects)
    return feed.snapshot_us()


def _collect_ms() -> float:
    began_s = time.process_time()
    gc.collect()
    return (time.process_time() - began_s) * 1e3


# Over HTTP.


def _over_http(load: CacheLoad, against: Against) -> float:
    with session(against) as server, namespace(server, object_bytes=0) as asker:
        create_pods(server, asker, load)
        sync_s, objects = uvloop.run(_sync(server.target, asker.namespace))
    if objects != load.http_objects:
        raise BenchFailed(f"the cache has {objects} pods instead of {load.http_objects}")
    return round(sync_s, 3)


def create_pods(server: Session, asker: Asker, load: CacheLoad) -> None:
    lanes = [
        _creating(asker, range(lane, load.http_objects, load.connections)) for lane in range(load.connections)
    ]
    server.measure(server.connect(load.connections), lanes)


def _creating(asker: Asker, numbers: Iterable[int]) -> Lane:
    path = f"/api/v1/namespaces/{asker.namespace}/pods".encode()
    for number in numbers:
        pod = podstream.pod(number, revision=0)
        meta = {"name": pod["metadata"]["name"], "labels": pod["metadata"]["labels"]}
        body = {"metadata": meta, "spec": {"containers": pod["spec"]["containers"]}}
        expect((yield asker.send(b"POST", path, podstream.encode(body))), 201, "creating a pod")


async def _sync(target: BenchTarget, namespace: str) -> tuple[float, int]:
    """How long the first sync takes, connection and all; and of how many objects."""
    headers = (("authorization", f"Bearer {target.token}"),) if target.token else ()
    server = ServerAddress(
        f"https://{target.host}:{target.port}{target.prefix}",
        target.tls,
        lambda: headers,
        target.server_name,
    )
    synced: list[ReachedRevision] = []
    follower = CacheFollower(server, namespace=namespace, tell=synced.append)
    began_s = time.monotonic()
    await follower.run()
    return synced[0].at_s - began_s, follower.objects


def as_json(result: CacheResult) -> str:
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def as_table(result: CacheResult) -> str:
    json_bytes = f"{result.json_bytes_per_object:,.0f} as JSON"
    rows = [
        ("events", f"{result.events_per_s:>9,.0f}/s  {result.event_us:.1f} µs of CPU each"),
        ("first sync", f"{result.sync_s:>9,.2f} s  {result.sync_object_us:.1f} µs of CPU an object"),
        ("memory", f"{result.bytes_per_object:>9,.0f} bytes an object, {json_bytes}"),
        ("a full collection", f"{result.collect_ms:>9,.0f} ms"),
        *((f"snapshot of {int(size):,}", f"{us:>9.2f} µs") for size, us in result.snapshot_us.items()),
    ]
    if result.http_sync_s is not None:
        text = f"{result.http_sync_s:>9,.2f} s for {result.http_objects:,} objects"
        rows.append(("first sync, HTTP", text))
    if result.beside_kopf is not None:
        rows += _beside(result.beside_kopf)
    width = max(len(name) for name, _ in rows)
    on = f"on {result.machine.cores} cores, Python {result.machine.python}"
    title = f"a cache of {result.parameters['objects']:,} pods {on}"
    return "\n".join([title, "", *(f"{name:<{width}}  {text}" for name, text in rows)])


def _beside(both: KopfComparison) -> list[tuple[str, str]]:
    def row(run: FollowedRun) -> str:
        rates = f"sync {run.sync_s:.2f} s, {run.events_per_s:,.0f} events/s"
        costs = f"{run.event_cpu_us:,.0f} µs of CPU an event, {run.bytes_per_object:,.0f} bytes an object"
        return f"{rates}, {costs}"

    return [
        (f"of {both.objects:,}: fathom", row(both.fathom)),
        (f"of {both.objects:,}: kopf {both.kopf_version}", row(both.kopf)),
    ]
