"""What a controller declares: the kinds it reads, how their changes map to keys, and the kinds it writes.

These are declarations, not code paths: from them follows which other controllers can change the inputs of a
decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from fathom.cache.indexes import STANDARD, Index
from fathom.cache.snapshot import Snapshot
from fathom.client.api import Resource, own_resource
from fathom.control.ownership import controller_of
from fathom.kinds.definition import KindDefinition
from fathom.model.objects import Key, Obj, key_of
from fathom.model.resources import AUTOSCALERS, BUDGETS, DEPLOYMENTS, JOBS, LEASES, REPLICA_SETS


class WatchedKind(msgspec.Struct, frozen=True):
    """A kind by the name that plans and snapshots use, with its API resource."""

    name: str
    resource: Resource
    namespace: str = ""  # Watch this namespace only: fewer objects to cache, fewer rights to need.

    @property
    def api_version(self) -> str:
        group, version = self.resource.group, self.resource.version
        return f"{group}/{version}" if group else version


def core(name: str, plural: str, *, namespaced: bool = True) -> WatchedKind:
    return WatchedKind(name, Resource("", "v1", plural, namespaced))


def own(definition: KindDefinition) -> WatchedKind:
    """One of fathom's own kinds, from its file in `fathom.kinds`."""
    return WatchedKind(definition.kind, own_resource(definition))


CONFIG_MAP = core("ConfigMap", "configmaps")
NAMESPACE = core("Namespace", "namespaces", namespaced=False)
NODE = core("Node", "nodes", namespaced=False)
POD = core("Pod", "pods")
SECRET = core("Secret", "secrets")
SERVICE = core("Service", "services")
DEPLOYMENT = WatchedKind("Deployment", DEPLOYMENTS)
REPLICA_SET = WatchedKind("ReplicaSet", REPLICA_SETS)
AUTOSCALER = WatchedKind("HorizontalPodAutoscaler", AUTOSCALERS)
JOB = WatchedKind("Job", JOBS)
EVENT = core("Event", "events")
DISRUPTION_BUDGET = WatchedKind("PodDisruptionBudget", BUDGETS)
LEASE = WatchedKind("Lease", LEASES)


def _standard() -> Mapping[str, Index]:
    return STANDARD


# The keys that an object concerns; `view()` gives a snapshot for looking up other objects.
View = Callable[[], Snapshot]
Concerns = Callable[[Obj, View], Iterable[Key]]


class Primary(msgspec.Struct, frozen=True):
    """The kind whose keys are reconciled. `conditions`: its status may carry conditions about reconciling."""

    kind: WatchedKind
    conditions: bool = True
    indexes: Mapping[str, Index] = msgspec.field(default_factory=_standard)

    def keys(self, obj: Obj, view: View, primary: WatchedKind) -> Iterable[Key]:
        return (key_of(obj),)


class OwnedBy(msgspec.Struct, frozen=True):
    """Children: a change of a child concerns the primary that controls it."""

    kind: WatchedKind
    indexes: Mapping[str, Index] = msgspec.field(default_factory=_standard)

    def keys(self, obj: Obj, view: View, primary: WatchedKind) -> Iterable[Key]:
        reference = controller_of(obj)
        if reference is None or reference.get("kind") != primary.name:
            return ()
        if str(reference.get("apiVersion")).partition("/")[0] != primary.api_version.partition("/")[0]:
            return ()
        namespace = key_of(obj).namespace if primary.resource.namespaced else ""
        return (Key(namespace, str(reference.get("name"))),)


class Related(msgspec.Struct, frozen=True):
    """Any other kind: `concerns` maps a changed object to primaries. None: the kind is only read."""

    kind: WatchedKind
    concerns: Concerns | None = None
    indexes: Mapping[str, Index] = msgspec.field(default_factory=_standard)

    def keys(self, obj: Obj, view: View, primary: WatchedKind) -> Iterable[Key]:
        return self.concerns(obj, view) if self.concerns is not None else ()


Watch = Primary | OwnedBy | Related
