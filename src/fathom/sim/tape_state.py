"""The state of the cluster where a tape ends, from the caches of its process and the metrics that it read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from fathom.agent.process import Agent
from fathom.cache.caches import Caches
from fathom.control.process import Controllers
from fathom.model.objects import Obj, metadata
from fathom.record.replay import ProcessEnd
from fathom.record.tape import ASK, Record
from fathom.schedule.loop.process import SchedulerProcess
from fathom.seams.seam import Input
from fathom.sim.fork_state import ClusterState, state_from_objects

METRICS = "/apis/metrics.k8s.io/"


class MetricsOnTape:
    """Passes records through, and keeps the newest PodMetrics of each namespace that are among them."""

    def __init__(self) -> None:
        self._asked: dict[int, str] = {}  # Number of a request that waits for its answer -> its target.
        self._lists: dict[str, list[Obj]] = {}

    def through(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            if record.kind == ASK and METRICS.encode() in record.payload:
                self._asked[record.number] = record.payload.split(b" ")[1].decode(errors="replace")
            elif record.kind == Input.REPLY and record.number in self._asked:
                self._answered(self._asked.pop(record.number), record)
            yield record

    def _answered(self, target: str, record: Record) -> None:
        if record.status == 200:
            self._lists[target.partition("?")[0]] = msgspec.json.decode(record.payload).get("items") or []

    @property
    def pod_metrics(self) -> list[Obj]:
        return [item for items in self._lists.values() for item in items]


def caches_of(state: object) -> Caches | None:
    if isinstance(state, SchedulerProcess | Controllers):
        return state.caches
    return state.controllers.caches if isinstance(state, Agent) else None


class ObjectsAtEnd(msgspec.Struct, frozen=True):
    """The objects that a process knew where its tape ends."""

    objects: tuple[tuple[str, Obj], ...]  # With their resource.
    time_ns: int
    revision: int


def objects_at_end(process_end: ProcessEnd) -> ObjectsAtEnd | None:
    """None: the process had no cache."""
    caches = caches_of(process_end.state)
    if caches is None:
        return None
    view = caches.snapshot_at(0.0)
    objects = []
    for kind in caches.kinds:
        scope = caches.scope(kind)
        group, version = scope.resource.group, scope.resource.version
        typed = {"kind": scope.kind or kind, "apiVersion": f"{group}/{version}" if group else version}
        objects += [(scope.resource.name, {**typed, **obj}) for obj in view.list(kind)]
    return ObjectsAtEnd(tuple(objects), process_end.now_ns, max(view.revisions.values(), default=0))


def state_at_end(ends: Sequence[ObjectsAtEnd], pod_metrics: Iterable[Obj] = ()) -> ClusterState:
    """Objects as the newest of these processes saw them."""
    objects: dict[tuple[str, str, str], tuple[str, Obj]] = {}
    for known in ends:
        for resource, obj in known.objects:
            _keep_newer(objects, resource, obj)
    return state_from_objects(
        objects.values(),
        time_ns=max(known.time_ns for known in ends),
        revision=max(known.revision for known in ends),
        pod_metrics=pod_metrics,
    )


def _keep_newer(objects: dict[tuple[str, str, str], tuple[str, Obj]], resource: str, obj: Obj) -> None:
    meta = metadata(obj)
    place = (resource, str(meta.get("namespace") or ""), str(meta["name"]))
    known = objects.get(place)
    if known is None or _revision(known[1]) < _revision(obj):
        objects[place] = (resource, obj)


def _revision(obj: Obj) -> int:
    return int(metadata(obj).get("resourceVersion") or 0)
