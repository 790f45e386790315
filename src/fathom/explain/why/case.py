"""One pod as the stages look at it: object, records, owners, and the cluster as a scheduler sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import msgspec

from fathom.explain.evidence import Evidence, ObjectRef, Objects, Recorded, mentioning
from fathom.kinds.attached_override import as_acknowledged
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, key_of, lookup, metadata, uid_of
from fathom.model.times import moment_ns
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.rules import RULES, Rules
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.schedule.loop.watched_kinds import KINDS, STORAGE_CLASS

PODS, EVENTS, NODES = "pods", "events", "nodes"
# The resource of a controller that a pod, or its ReplicaSet, names as owner.
OWNER_RESOURCES = {
    "ReplicaSet": "replicasets.apps",
    "Deployment": "deployments.apps",
    "StatefulSet": "statefulsets.apps",
    "DaemonSet": "daemonsets.apps",
    "Job": "jobs.batch",
    "CronJob": "cronjobs.batch",
}
OWNERS_MAX = 4  # Of a chain: CronJob, Job, pod.


class ContainerFacts(msgspec.Struct, frozen=True):
    """One container: what its spec asks for, and what its agent reports."""

    name: str
    index: int  # In its list.
    field: str  # 'containers' or 'initContainers'
    spec: Obj
    status: Obj

    @property
    def waiting(self) -> Obj:
        return lookup(self.status, "state", "waiting") or {}

    @property
    def ended(self) -> Obj:
        """How the newest run that ended did so."""
        return (
            lookup(self.status, "state", "terminated") or lookup(self.status, "lastState", "terminated") or {}
        )

    @property
    def is_running(self) -> bool:
        return lookup(self.status, "state", "running") is not None

    @property
    def is_init(self) -> bool:
        return self.field == "initContainers" and self.spec.get("restartPolicy") != "Always"

    @property
    def holds_back_others(self) -> bool:
        """Containers after it have not started yet. A sidecar need only have started, not be ready."""
        passed = self.status.get("ready") if self.is_init else self.status.get("started")
        return self.field == "initContainers" and not passed


class PodCase:
    """A pod that exists, with what is known about it. Computed where asked for, since few stages need all."""

    def __init__(
        self, pod: Obj, evidence: Evidence, *, cluster: ClusterView | None = None, rules: Rules = RULES
    ) -> None:
        self.pod = pod
        self.evidence = evidence
        self._cluster = cluster
        self._rules = rules

    @property
    def key(self) -> Key:
        return key_of(self.pod)

    @property
    def name(self) -> str:
        return "pod " + "/".join(self.key)

    @property
    def node(self) -> str:
        return str(lookup(self.pod, "spec", "nodeName") or "")

    @cached_property
    def node_object(self) -> Obj | None:
        return self.evidence.objects.get(NODES, Key("", self.node)) if self.node else None

    def condition(self, type_: str) -> Obj:
        return find_condition(conditions_of(self.pod), type_) or {}

    # The cluster, as a freshly started scheduler sees it.

    @cached_property
    def cluster(self) -> ClusterView:
        return self._cluster or cluster_of(
            self.evidence.objects, self._rules, attached=bool(self.evidence.attached)
        )

    @cached_property
    def view(self) -> PodView:
        return self.cluster.view(self.pod)

    # Records.

    @cached_property
    def decisions(self) -> tuple[Recorded, ...]:
        """Decisions of schedulers about this pod, oldest first."""
        return tuple(
            recorded
            for recorded in self.evidence.decisions
            if recorded.kept.decision.subject.resource == PODS
            and recorded.kept.decision.subject.uid == uid_of(self.pod)
            and recorded.kept.decision.controller.startswith("scheduler")
        )

    @property
    def last(self) -> Recorded | None:
        return self.decisions[-1] if self.decisions else None

    @cached_property
    def events(self) -> tuple[Obj, ...]:
        """Events about this pod, oldest first."""
        return events_about(self.evidence.objects, self.key, uid_of(self.pod))

    # Its parts and owners.

    @cached_property
    def containers(self) -> tuple[ContainerFacts, ...]:
        """In the order in which they start."""
        return tuple(_containers(self.pod))

    @cached_property
    def owners(self) -> tuple[tuple[str, Obj], ...]:
        """Its controller, and the controller of that: (kind, object)."""
        return tuple(_owners(self.pod, self.evidence.objects))


VIEWED = (*KINDS, STORAGE_CLASS)


def cluster_of(objects: Objects, rules: Rules = RULES, *, attached: bool = False) -> ClusterView:
    """`attached`: the objects are those of a Kubernetes that is not fathom's."""
    cluster = ClusterView(rules=rules)
    if attached:
        cluster.follow_storage_classes()
    for kind in sorted(VIEWED, key=lambda kind: kind.name == "Pod"):  # Pods last: namespaces name tenants.
        for obj in objects.list(resource_name(kind.resource.group, kind.resource.plural)):
            put_new(cluster, kind.name, obj, attached=attached)
    return cluster


def put_new(cluster: ClusterView, kind: str, obj: Obj, *, attached: bool) -> None:
    """Put an object of which the view has no earlier state."""
    if kind == "Pod":
        cluster.put_pod(obj)
    else:
        cluster.put(kind, None, as_decided_by(kind, obj, attached=attached))


def as_decided_by(kind: str, obj: Obj | None, *, attached: bool) -> Obj | None:
    """An object as a scheduler takes it. An attached one honours an override only as far as it says so."""
    is_foreign = attached and kind == "SchedulerOverride" and obj is not None
    return as_acknowledged(obj) if is_foreign and obj is not None else obj


def resource_name(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def override_refs(evidence: Evidence, names: Iterable[str]) -> tuple[ObjectRef, ...]:
    """Overrides that an answer names, as 'NAMESPACE/NAME'."""
    keys = [Key(*name.split("/", 1)) for name in dict.fromkeys(names)]
    overrides = [(key, evidence.objects.get(OVERRIDES, key)) for key in keys]
    return tuple(ObjectRef(OVERRIDES, *key, uid_of(obj)) for key, obj in overrides if obj is not None)


def events_about(objects: Objects, key: Key, uid: str) -> tuple[Obj, ...]:
    about = [
        event
        for event in mentioning(objects, EVENTS, key.namespace, key.name)
        if lookup(event, "involvedObject", "name") == key.name
        and lookup(event, "involvedObject", "uid") in {None, "", uid}
    ]
    return tuple(sorted(about, key=event_time_ns))


def event_time_ns(event: Obj) -> int:
    stamp = event.get("lastTimestamp") or event.get("eventTime") or metadata(event).get("creationTimestamp")
    return moment_ns(stamp) or 0


def _containers(pod: Obj) -> Iterator[ContainerFacts]:
    for field, reported in (
        ("initContainers", "initContainerStatuses"),
        ("containers", "containerStatuses"),
    ):
        statuses = {status.get("name"): status for status in lookup(pod, "status", reported) or ()}
        for index, spec in enumerate(lookup(pod, "spec", field) or ()):
            name = str(spec.get("name") or "")
            yield ContainerFacts(name, index, field, spec, statuses.get(name) or {})


def _owners(obj: Obj, objects: Objects) -> Iterator[tuple[str, Obj]]:
    namespace = key_of(obj).namespace
    for _ in range(OWNERS_MAX):
        reference = controller_reference(obj)
        resource = OWNER_RESOURCES.get(str((reference or {}).get("kind")))
        owner = (
            objects.get(resource, Key(namespace, str(reference.get("name"))))
            if reference is not None and resource is not None
            else None
        )
        if reference is None or owner is None:
            return
        yield str(reference.get("kind")), owner
        obj = owner


def controller_reference(obj: Obj) -> Obj | None:
    references = metadata(obj).get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)
