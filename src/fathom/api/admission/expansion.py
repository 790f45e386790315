"""The admission plugin that keeps a workload from growing while an override pauses its expansion.

Refused, whoever writes:

    the target itself       is created with replicas, or scaled up (a Job: more parallelism, or resumed)
    its ReplicaSets         together get more replicas than the Deployment wants, with the surge of a rollout
    a pod of the target     is created though its controller has as many live pods as it wants

A lost pod is replaced: that is no growth. The commit expects the rules (`BindingFacts.rules`), so that no
write that was judged before an override is committed after it, and everything that was counted. What is
counted may be joined by more, so such writes take turns: each writes the override's `ExpansionLock`. Whether
the workload is in the override's scope is judged by the pods that are known then: no commit expects that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from fathom.api.admission.attempt import CREATE, UPDATE, Charge, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.api.binding.facts import BindingFacts, Override
from fathom.api.ledger.accounts import document, key_in_store
from fathom.api.ledger.delta import PODS
from fathom.kinds.override_changes import EVERYWHERE
from fathom.kinds.override_scope import (
    WorkloadName,
    targets_workload,
    workload_in_scope,
    workload_names,
)
from fathom.kinds.scheduler_override import expiry_ns, override_active
from fathom.kube.definitions.kind import Kind
from fathom.model.body import Body
from fathom.model.declared import Reads, Writes
from fathom.model.errors import ApiError, Cause
from fathom.model.objects import Key, Obj, is_deleting, labels_of, lookup, metadata, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.model.resource_names import DEPLOYMENTS, JOBS, REPLICA_SETS
from fathom.model.times import timestamp
from fathom.model.view import Seen, View
from fathom.seams.outside import Clock
from fathom.store.protocol import Delete, Expect, Put

# Controllers of pods whose wanted number is known, by the kind in an owner reference, in lower case.
CONTROLLERS = {
    "replicaset": REPLICA_SETS,
    "job": JOBS,
    "statefulset": "statefulsets.apps",
    "replicationcontroller": "replicationcontrollers",
}
EXPANSION_PAUSED = "ExpansionPaused"
LOCKS = "expansionlocks.fathom.dev"  # By the override's UID; removed with the override.


class PausedExpansion(Plugin):
    name = "PausedExpansion"
    operations = frozenset({CREATE, UPDATE})
    subresources = frozenset({"", "scale"})
    trusted = True
    reads = (
        Reads("SchedulerOverride", ("spec", "status"), "commit"),
        Reads("PlacementRules", source="commit"),
        Reads("ExpansionLock", source="commit"),
        Reads("Deployment", ("spec.replicas", "spec.strategy"), "commit"),
        Reads("ReplicaSet", ("metadata", "spec.replicas"), "commit"),
        Reads("Job", ("spec.parallelism", "spec.suspend"), "commit"),
        Reads("StatefulSet", ("spec.replicas",), "commit"),
        Reads("ReplicationController", ("spec.replicas",), "commit"),
        Reads("Pod", ("metadata", "spec.nodeName", "status.phase")),
        Reads("Node", ("metadata.labels",)),
    )
    writes = (Writes("ExpansionLock", ("*",), creates=True),)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._facts: tuple[View, BindingFacts] | None = None

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        if not super().concerns(kind, operation, subresource):
            return False
        if kind.resource == PODS:
            return operation == CREATE and not subresource
        return kind.scale is not None or kind.resource == JOBS

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        if not _grows(attempt):
            return ()
        facts = self._facts_of(view)
        if not facts.has_overrides():
            return (Charge((facts.rules(),)),)
        obj = attempt.obj or {}
        is_pod = attempt.kind.resource == PODS
        names = facts.workloads(obj) if is_pod else workload_names(attempt.kind.kind, obj)
        pauses = self._pauses(facts, view, attempt.namespace, names)
        expects = (facts.rules(), *(facts.workloads_expect(obj) if is_pod else ()))
        if not pauses:
            return (Charge(expects),)
        judge = _judge_pod if is_pod else _judge_size
        charge = judge(attempt, view, pauses)
        return (Charge((*expects, *charge.preconditions), charge.writes),)

    def _pauses(
        self, facts: BindingFacts, view: View, namespace: str, names: Sequence[WorkloadName]
    ) -> list[Override]:
        """The overrides in force that pause the expansion of one of these workloads."""
        now_ns = self._clock.now_ns()
        return [
            override
            for override in facts.overrides_named(namespace, [name.name for name in names])
            if override.spec.spec.changes.pause_expansion
            and override_active(override.spec, now_ns)
            and targets_workload(override.spec, namespace, names)
            and _in_scope(override, view, namespace)
        ]

    def _facts_of(self, view: View) -> BindingFacts:
        if self._facts is None or self._facts[0] is not view:
            self._facts = (view, BindingFacts(view))
        return self._facts[1]


def _grows(attempt: WriteAttempt) -> bool:
    if attempt.kind.resource == PODS:
        return controller_of(attempt.obj or {}) is not None
    return size_of(attempt.kind, attempt.obj or {}) > _size_before(attempt)


def controller_of(obj: Obj) -> Obj | None:
    """The owner reference that names its controller."""
    return next((each for each in metadata(obj).get("ownerReferences") or () if each.get("controller")), None)


def size_of(kind: Kind, obj: Obj) -> int:
    """How many pods the workload asks for. A suspended Job asks for none."""
    if kind.resource == JOBS:
        return _job_size(obj)
    path = kind.scale.spec_replicas.split(".") if kind.scale is not None else ("spec", "replicas")
    return _count(lookup(obj, *path))


def _job_size(job: Obj) -> int:
    return 0 if lookup(job, "spec", "suspend") else _count(lookup(job, "spec", "parallelism"))


def _count(value: object) -> int:
    """Kubernetes' default is 1. A custom resource may hold anything there."""
    return 1 if value is None else value if type(value) is int else 0


def _size_before(attempt: WriteAttempt) -> int:
    return 0 if attempt.old is None else size_of(attempt.kind, attempt.old)


# Sizes.


def _judge_size(attempt: WriteAttempt, view: View, pauses: Sequence[Override]) -> Charge:
    """Either the object is the target, or it is a ReplicaSet (or the like) of the target."""
    obj, itself = attempt.obj or {}, workload_names(attempt.kind.kind, attempt.obj or {})[:1]
    before, after = _size_before(attempt), size_of(attempt.kind, obj)
    for override in pauses:
        if targets_workload(override.spec, attempt.namespace, itself):
            raise _refused(attempt, override, f"it would grow from {before} to {after}")
    if attempt.kind.resource != REPLICA_SETS:
        raise _refused(attempt, pauses[0], f"it would grow from {before} to {after}")
    owner = controller_of(obj) or {}
    deployment = view.get(DEPLOYMENTS, Key(attempt.namespace, str(owner.get("name"))))
    if deployment is None or uid_of(deployment.obj) != owner.get("uid"):
        raise _refused(attempt, pauses[0], "its Deployment does not exist")
    siblings = list(_siblings(attempt, view, str(owner["uid"])))
    total = after + sum(_count(lookup(seen.obj, "spec", "replicas")) for seen in siblings)
    most = _most(deployment.obj)
    if total > most:
        raise _refused(attempt, pauses[0], f"its Deployment may have {most} pods, and would have {total}")
    read = [(DEPLOYMENTS, deployment), *((REPLICA_SETS, seen) for seen in siblings)]
    lock = _turn(view, pauses[0])
    return Charge(
        (*(_unchanged(resource, seen) for resource, seen in read), *lock.preconditions), lock.writes
    )


def _siblings(attempt: WriteAttempt, view: View, owner_uid: str) -> Iterator[Seen]:
    for seen in view.list(REPLICA_SETS, attempt.namespace):
        if metadata(seen.obj).get("name") != attempt.name and _is_of(seen.obj, owner_uid):
            yield seen


def _most(deployment: Obj) -> int:
    """What the Deployment wants, and the surge of its rollouts, rounded up as its controller does."""
    wanted = _count(lookup(deployment, "spec", "replicas"))
    if lookup(deployment, "spec", "strategy", "type") == "Recreate" or not wanted:
        return wanted
    surge = lookup(deployment, "spec", "strategy", "rollingUpdate", "maxSurge")
    if isinstance(surge, int):
        return wanted + max(0, surge)
    digits = str("25%" if surge is None else surge).removesuffix("%")
    return wanted + (-(-int(digits[:9]) * wanted // 100) if digits.isascii() and digits.isdigit() else 0)


# Pods.


def _judge_pod(attempt: WriteAttempt, view: View, pauses: Sequence[Override]) -> Charge:
    """A controller of a kind whose wanted number is not known is left alone."""
    owner = controller_of(attempt.obj or {}) or {}
    resource = CONTROLLERS.get(str(owner.get("kind") or "").lower())
    if resource is None:
        return Charge()
    uid, key = str(owner.get("uid") or ""), Key(attempt.namespace, str(owner.get("name") or ""))
    controller = view.get(resource, key)
    if controller is None or uid_of(controller.obj) != uid:
        raise _refused(attempt, pauses[0], f"its controller {owner.get('kind')} {key.name} does not exist")
    wanted = (
        _job_size(controller.obj) if resource == JOBS else _count(lookup(controller.obj, "spec", "replicas"))
    )
    live = sum(_is_live(seen.obj) and _is_of(seen.obj, uid) for seen in view.list(PODS, attempt.namespace))
    if live >= wanted:
        why = f"{owner.get('kind')} {key.name} asks for {wanted} pods, and {live} are there"
        raise _refused(attempt, pauses[0], why)
    turn = _turn(view, pauses[0])
    return Charge((_unchanged(resource, controller), *turn.preconditions), turn.writes)


def _is_of(obj: Obj, owner_uid: str) -> bool:
    references = metadata(obj).get("ownerReferences") or ()
    return any(each.get("controller") and each.get("uid") == owner_uid for each in references)


def _is_live(pod: Obj) -> bool:
    return not is_deleting(pod) and not is_terminal(pod)


# For both.


class _Lock(msgspec.Struct, frozen=True):
    key: Key
    revision: int

    @property
    def path(self) -> str:
        return key_in_store(LOCKS, self.key)


def _lock_of(view: View, uid: str) -> _Lock:
    key = Key("", uid)
    seen = view.get(LOCKS, key)
    return _Lock(key, 0 if seen is None else seen.revision)


def _turn(view: View, override: Override) -> Charge:
    """1. Two creates each count one pod fewer than wanted. 2. Both would be committed. The second expects the
    lock as it was before the first: it counts again."""
    lock = _lock_of(view, override.spec.metadata.uid)
    body = Body(document("ExpansionLock", lock.key, {}))
    return Charge((Expect(lock.path, lock.revision),), (Put(lock.path, body),))


def without_lock(view: View, override: Obj) -> tuple[Charge, ...]:
    """What the removal of an override removes with it."""
    lock = _lock_of(view, uid_of(override))
    return (Charge((Expect(lock.path, lock.revision),), (Delete(lock.path),)),) if lock.revision else ()


def _unchanged(resource: str, seen: Seen) -> Expect:
    meta = metadata(seen.obj)
    return Expect(
        key_in_store(resource, Key(str(meta.get("namespace") or ""), str(meta["name"]))), seen.revision
    )


def _in_scope(override: Override, view: View, namespace: str) -> bool:
    scope = override.spec.spec.scope
    if scope in {"", EVERYWHERE}:
        return True
    pods = (seen.obj for seen in view.list(PODS, namespace))
    own = [pod for pod in pods if targets_workload(override.spec, namespace, workload_names("Pod", pod)[1:])]
    names = dict.fromkeys(str(lookup(pod, "spec", "nodeName") or "") for pod in own)
    nodes = [view.get("nodes", Key("", name)) for name in names if name]
    return workload_in_scope(scope, _labels(node for node in nodes if node), _labels(view.list("nodes")))


def _labels(nodes: Iterable[Seen]) -> Iterator[dict[str, str]]:
    return (labels_of(node.obj) for node in nodes)


def _refused(attempt: WriteAttempt, override: Override, why: str) -> ApiError:
    meta = override.spec.metadata
    until = timestamp(expiry_ns(override.spec) or 0)
    message = f"override {meta.namespace}/{meta.name} pauses expansion until {until}: {why}"
    field = "metadata.ownerReferences" if attempt.kind.resource == PODS else "spec.replicas"
    return refused(attempt, message, (Cause(field, EXPANSION_PAUSED, message),))
