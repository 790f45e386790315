"""The state that a fork begins with: a store's keys, the time, and what the pods use.

from a backup, or a data directory   `state_from_store`
from objects, as the API lists them  `state_from_objects`: the API server of the fork counts the ledger anew
from another world                   `state_of_world`
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from fathom.api.resource_cache import REGISTRY
from fathom.model.body import Body
from fathom.model.objects import Obj, key_of, lookup, metadata
from fathom.model.quantity import parse
from fathom.model.times import moment_ns
from fathom.sim.world.engine import Engine
from fathom.sim.world.initial_cluster import genesis_of
from fathom.sim.world.world import World
from fathom.store.contents import StoreContents, read_contents
from fathom.store.protocol import Entry


class ContainerSample(msgspec.Struct, frozen=True):
    name: str
    cpu_nano: int
    memory_bytes: int


class PodSample(msgspec.Struct, frozen=True):
    """What a pod uses, as its agent last reported it."""

    namespace: str
    name: str
    containers: tuple[ContainerSample, ...]


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    contents: StoreContents
    time_ns: int  # The wall clock's, when the state was read.
    usage: tuple[PodSample, ...] = ()


def state_from_store(
    path: Path, *, time_ns: int | None = None, pod_metrics: Iterable[Obj] = ()
) -> ClusterState:
    """`path`: a file of `fathom store backup`, or a data directory. `time_ns`: when it was made; by default
    the newest renewal of a lease in it. `pod_metrics`: the API's answer to a list of PodMetrics; the store
    does not have them."""
    contents = read_contents(path)
    time_ns = newest_time_ns(contents) if time_ns is None else time_ns
    return ClusterState(contents=contents, time_ns=time_ns, usage=samples_of(pod_metrics))


def state_from_objects(
    objects: Iterable[tuple[str, Obj]], *, time_ns: int, revision: int = 0, pod_metrics: Iterable[Obj] = ()
) -> ClusterState:
    """`objects`: resource ('deployments.apps') and object, as lists and watches return them. Namespaces,
    roles and other objects of every cluster are added where they are missing."""
    entries = {entry.key: entry for entry in map(_entry_of, objects)}
    newest = max([revision, 2, *(entry.revision for entry in entries.values())])
    for key, encoded in genesis_of(Engine):
        entries.setdefault(key, Entry(key, Body(encoded=encoded), 2, 2))
    for entry in list(map(_namespace_entry, entries.values())):
        if entry is not None:
            entries.setdefault(entry.key, entry)
    contents = StoreContents(tuple(entries[key] for key in sorted(entries)), newest)
    return ClusterState(contents=contents, time_ns=time_ns, usage=samples_of(pod_metrics))


def state_of_world(world: World) -> ClusterState:
    """The state of a simulated world now."""
    engine = world.engine
    entries = tuple(
        Entry(entry.key, Body(encoded=entry.body.encoded), entry.revision, entry.created)
        for entry in engine.store.entries()
    )
    contents = StoreContents(entries, engine.store.newest)
    return ClusterState(contents=contents, time_ns=engine.epoch_ns + engine.now_ns)


def _entry_of(listed: tuple[str, Obj]) -> Entry:
    resource, obj = listed
    meta = dict(metadata(obj))
    revision = int(meta.pop("resourceVersion", 0) or 0)
    kind_first: Obj = {name: obj[name] for name in ("kind", "apiVersion") if name in obj}
    rest = {name: value for name, value in obj.items() if name != "metadata"}
    stored: Obj = {**kind_first, "metadata": meta, **rest}
    key = key_of(obj)
    path = f"{key.namespace}/{key.name}" if key.namespace else key.name
    return Entry(f"{REGISTRY}{resource}/{path}", Body(stored), revision, revision)


def _namespace_entry(entry: Entry) -> Entry | None:
    """The namespace that an object must have. None for an object without one."""
    if not entry.key.startswith(REGISTRY) or entry.key.count("/") != REGISTRY.count("/") + 2:
        return None
    name = entry.key.split("/")[-2]
    meta = {"name": name, "uid": f"namespace-{name}", "labels": {"kubernetes.io/metadata.name": name}}
    obj: Obj = {"kind": "Namespace", "apiVersion": "v1", "metadata": meta}
    obj |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    return Entry(f"{REGISTRY}namespaces/{name}", Body(obj), 2, 2)


def samples_of(pod_metrics: Iterable[Obj]) -> tuple[PodSample, ...]:
    """From the API's PodMetrics. A sample whose quantities cannot be parsed is left out."""
    samples = []
    for answer in pod_metrics:
        key = key_of(answer)
        try:
            containers = tuple(_container_sample(container) for container in answer.get("containers") or ())
        except ValueError:
            continue
        samples.append(PodSample(key.namespace, key.name, containers))
    return tuple(samples)


def _container_sample(container: Obj) -> ContainerSample:
    usage = container.get("usage") or {}
    cpu, memory = parse(str(usage.get("cpu", "0"))), parse(str(usage.get("memory", "0")))
    return ContainerSample(str(container.get("name")), cpu.nano, memory.value)


def newest_time_ns(contents: StoreContents) -> int:
    """The newest renewal of any lease: when the store was read, to within some seconds. 0 without leases."""
    prefix = f"{REGISTRY}leases.coordination.k8s.io/"
    leases = (entry.body.obj for entry in contents.entries if entry.key.startswith(prefix))
    renewed = (lookup(lease, "spec", "renewTime") for lease in leases)
    return max((moment_ns(text) or 0 for text in renewed if isinstance(text, str)), default=0)
