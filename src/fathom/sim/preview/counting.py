"""Counts what a future has come to: pods by zone, ready, pending, evicted, and replicas of workloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from fathom.api.resource_cache import REGISTRY
from fathom.kinds.override_changes import INFRASTRUCTURE_TARGETS
from fathom.kinds.preview_answer import Counts, Outcome
from fathom.kinds.scheduler_override import SchedulerOverride, named, targets_pod
from fathom.model.conditions import DISRUPTION_TARGET, is_true
from fathom.model.objects import Obj, is_deleting, labels_of, lookup, metadata, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.model.well_known import HOSTNAME_LABEL, POOL_LABEL, ZONE_LABEL
from fathom.sim.world.world import World
from fathom.store.protocol import Change

PODS = f"{REGISTRY}pods/"
# What people, autoscalers and rollouts want. Other objects follow from these, and change all the time.
WANTED = tuple(
    f"{REGISTRY}{resource}/"
    for resource in (
        "deployments.apps", "statefulsets.apps", "daemonsets.apps", "replicasets.apps", "jobs.batch",
        "cronjobs.batch", "horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy",
        "tenantquotas.fathom.dev", "capacityclasses.fathom.dev", "schedulingpolicies.fathom.dev",
        "policyrollouts.fathom.dev", "scheduleroverrides.fathom.dev", "trafficroutes.fathom.dev",
    )
)  # fmt: skip
WORKLOADS = ("deployments.apps", "statefulsets.apps", "replicasets.apps")
_LABELS = {"node": HOSTNAME_LABEL, "zone": ZONE_LABEL, "pool": POOL_LABEL}

# Whether a pod is of the target: (pod, labels of its node).
IsTarget = Callable[[Obj, Mapping[str, str]], bool]
Place = tuple[str, str, str]  # Resource, namespace, name.


def target_of(override: SchedulerOverride) -> IsTarget:
    """The pods of the target's workload, or those on the target's nodes."""
    place = named(override.spec.target)
    if place is None or place.kind not in INFRASTRUCTURE_TARGETS:
        return lambda pod, node_labels: targets_pod(override, pod)
    label, wanted = _LABELS[place.kind], place.name
    return lambda pod, node_labels: (
        node_labels.get(label) == wanted
        or (place.kind == "node" and lookup(pod, "spec", "nodeName") == wanted)
    )


class FutureWatch:
    """What is done in one fork: which pods are evicted, and which objects of the state take part."""

    def __init__(self, world: World, is_target: IsTarget) -> None:
        self._world = world
        self._is_target = is_target
        self._evicted: dict[str, bool] = {}  # UID -> whether it is of the target.
        self.touched: dict[Place, None] = {}  # In the order in which they were first touched.
        world.engine.watchers.append(self._commit)

    def outcome(self, seed: str) -> Outcome:
        return outcome_of(self._world.list, seed, self._is_target, self._evicted)

    def _commit(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.key.startswith(PODS):
                self._pod_change(change)
            elif change.key.startswith(WANTED) and _has_new_generation(change):
                self.touched.setdefault(_place_of(change.key))

    def _pod_change(self, change: Change) -> None:
        if change.entry is None:
            return
        pod = change.entry.body.obj
        old = {} if change.previous is None else change.previous.body.obj
        node = _node_of(pod)
        bound = bool(node) and not _node_of(old)
        evicted = is_true(pod, DISRUPTION_TARGET) and not is_true(old, DISRUPTION_TARGET)
        if bound:
            self.touched.setdefault(("nodes", "", node))
        if evicted:
            self._evicted.setdefault(uid_of(pod), self._is_target(pod, self._labels_of_node(node)))
        if bound or evicted:
            for place in _owners(pod):
                self.touched.setdefault(place)

    def _labels_of_node(self, name: str) -> Mapping[str, str]:
        entries = (node for node in self._world.list("nodes") if metadata(node)["name"] == name)
        return next((labels_of(node) for node in entries), {})


def outcome_of(
    list_: Callable[[str], list[Obj]], seed: str, is_target: IsTarget, evicted: Mapping[str, bool]
) -> Outcome:
    """`list_`: the objects of a resource, in a fork or in a live cluster. `evicted`: by UID, whether the pod
    was of the target."""
    nodes = {str(metadata(node)["name"]): labels_of(node) for node in list_("nodes")}
    pods = list_("pods")
    ours = [pod for pod in pods if is_target(pod, nodes.get(_node_of(pod), {}))]
    return Outcome(
        seed=seed,
        cluster=counts_of(pods, nodes, evicted=len(evicted)),
        target=counts_of(ours, nodes, evicted=sum(evicted.values())),
        replicas=_replicas([obj for resource in WORKLOADS for obj in list_(resource)]),
    )


def counts_of(pods: Iterable[Obj], nodes: Mapping[str, Mapping[str, str]], *, evicted: int) -> Counts:
    lasting = [pod for pod in pods if not is_terminal(pod) and not is_deleting(pod)]
    zones = Counter(nodes.get(node, {}).get(ZONE_LABEL, "") for node in map(_node_of, lasting) if node)
    return Counts(
        bound=dict(sorted(zones.items())),
        ready=sum(is_true(pod, "Ready") for pod in lasting),
        pending=sum(not _node_of(pod) for pod in lasting),
        evicted=evicted,
    )


def _replicas(workloads: Iterable[Obj]) -> dict[str, int]:
    """What every workload wants that no other workload makes."""
    return {
        workload_name(obj): int(lookup(obj, "spec", "replicas") or 0)
        for obj in workloads
        if not metadata(obj).get("ownerReferences")
    }


def workload_name(obj: Obj) -> str:
    """'shop/Deployment/web'."""
    return f"{metadata(obj).get('namespace')}/{obj.get('kind')}/{metadata(obj).get('name')}"


def _node_of(pod: Obj) -> str:
    return str(lookup(pod, "spec", "nodeName") or "")


def _has_new_generation(change: Change) -> bool:
    if change.previous is None or change.entry is None:
        return False
    before, after = metadata(change.previous.body.obj), metadata(change.entry.body.obj)
    return before.get("generation") != after.get("generation")


def _place_of(key: str) -> Place:
    resource, *path = key.removeprefix(REGISTRY).split("/")
    return (resource, path[0], path[1]) if len(path) == 2 else (resource, "", path[0])


def _owners(pod: Obj) -> list[Place]:
    namespace = str(metadata(pod).get("namespace") or "")
    plurals = {"ReplicaSet": "replicasets.apps", "Job": "jobs.batch", "StatefulSet": "statefulsets.apps"}
    return [
        (plurals[str(owner.get("kind"))], namespace, str(owner.get("name")))
        for owner in metadata(pod).get("ownerReferences") or ()
        if owner.get("controller") and owner.get("kind") in plurals
    ]
