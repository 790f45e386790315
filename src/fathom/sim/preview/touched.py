"""What the answer of a preview depends on: the target, and what only the future with the object touches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fathom.api.resource_cache import REGISTRY
from fathom.kinds.capacity_class import DEFINITION as CAPACITY_CLASS
from fathom.kinds.override_changes import INFRASTRUCTURE_TARGETS
from fathom.kinds.preview_answer import Touched, touched_object
from fathom.kinds.scheduler_override import OVERRIDES, SchedulerOverride, named
from fathom.model.objects import Obj, labels_of, lookup, metadata
from fathom.model.resource_names import AUTOSCALERS
from fathom.model.well_known import POOL_LABEL, ZONE_LABEL
from fathom.sim.fork_state import ClusterState
from fathom.sim.preview.counting import Place
from fathom.sim.preview.futures import Future

# More say no more: one that has moved is enough to ask again.
TOUCHED_MAX = 256
_WORKLOADS = {
    "workload": ("deployments.apps", "replicasets.apps", "jobs.batch"),
    "deployment": ("deployments.apps",),
    "replicaset": ("replicasets.apps",),
    "job": ("jobs.batch",),
}


class StateObjects:
    """The objects of a state, by resource, namespace and name."""

    def __init__(self, state: ClusterState) -> None:
        self._entries = {entry.key: entry for entry in state.contents.entries}

    def get(self, place: Place) -> Obj | None:
        resource, namespace, name = place
        path = f"{namespace}/{name}" if namespace else name
        entry = self._entries.get(f"{REGISTRY}{resource}/{path}")
        return None if entry is None else entry.body.obj

    def list(self, resource: str, namespace: str = "") -> list[Obj]:
        prefix = f"{REGISTRY}{resource}/{namespace}/" if namespace else f"{REGISTRY}{resource}/"
        return [entry.body.obj for key, entry in self._entries.items() if key.startswith(prefix)]


def touched_by(
    objects: StateObjects, named_places: Iterable[Place], without: Sequence[Future], with_: Sequence[Future]
) -> tuple[Touched, ...]:
    """What is named, then what the attempt makes others do."""
    places = dict.fromkeys(named_places)
    for future_without, future_with in zip(without, with_, strict=True):
        known = frozenset(future_without.touched)
        places |= dict.fromkeys(place for place in future_with.touched if place not in known)
    held = [(place, objects.get(place)) for place in _with_owners(objects, places)]
    return tuple(touched_object(_kind_of(obj), obj) for _, obj in held[:TOUCHED_MAX] if obj is not None)


def workloads_of_target(objects: StateObjects, override: SchedulerOverride) -> list[Obj]:
    target = named(override.spec.target)
    if target is None:
        return []
    places = [
        (plural, override.metadata.namespace, target.name) for plural in _WORKLOADS.get(target.kind, ())
    ]
    return [obj for obj in map(objects.get, places) if obj is not None]


def places_of_target(objects: StateObjects, override: SchedulerOverride) -> Iterator[Place]:
    """The target and what concerns it."""
    target, namespace = named(override.spec.target), override.metadata.namespace
    yield (OVERRIDES, namespace, override.metadata.name)  # Where it exists already.
    for workload in workloads_of_target(objects, override):
        name = str(metadata(workload)["name"])
        resource = {"Deployment": "deployments.apps", "ReplicaSet": "replicasets.apps"}.get(
            str(workload.get("kind")), "jobs.batch"
        )
        yield (resource, namespace, name)
        for autoscaler in objects.list(AUTOSCALERS, namespace):
            if lookup(autoscaler, "spec", "scaleTargetRef", "name") == name:
                yield (AUTOSCALERS, namespace, str(metadata(autoscaler)["name"]))
    if target is not None and target.kind in INFRASTRUCTURE_TARGETS:
        yield from _nodes_of(objects, target.kind, target.name)
    if override.spec.changes.allow_reserved_capacity_class:
        yield (CAPACITY_CLASS.resource, "", override.spec.changes.allow_reserved_capacity_class)


def _nodes_of(objects: StateObjects, kind: str, name: str) -> Iterator[Place]:
    label = {"zone": ZONE_LABEL, "pool": POOL_LABEL}.get(kind)
    for node in objects.list("nodes"):
        own_name = str(metadata(node)["name"])
        if (own_name if label is None else labels_of(node).get(label)) == name:
            yield ("nodes", "", own_name)


def _with_owners(objects: StateObjects, places: Iterable[Place]) -> list[Place]:
    """A Deployment counts in place of its ReplicaSets: they change with it, and come and go."""
    kept: dict[Place, None] = {}
    for place in places:
        obj = objects.get(place) if place[0] == "replicasets.apps" else None
        owners = [] if obj is None else metadata(obj).get("ownerReferences") or ()
        above = [
            ("deployments.apps", place[1], str(owner["name"])) for owner in owners if owner.get("controller")
        ]
        kept |= dict.fromkeys(above or [place])
    return list(kept)


def _kind_of(obj: Obj) -> str:
    return str(obj.get("kind") or "")
