"""The overrides that are active for the subject of a question: one line in every answer that they concern."""

from __future__ import annotations

import msgspec

from fathom.explain.evidence import Evidence
from fathom.explain.why.answer import ActiveOverride, Explanation
from fathom.explain.why_of.lookups import NODES, OVERRIDES, PODS, subject_of
from fathom.kinds.attached_override import as_acknowledged
from fathom.kinds.override_changes import WORKLOAD_TARGETS
from fathom.kinds.override_summary import remaining, set_changes
from fathom.kinds.scheduler_override import (
    SchedulerOverride,
    cordons,
    expiry_ns,
    named,
    override_active,
    targets_pod,
)
from fathom.kinds.shape import read
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import Key, Obj, key_of, labels_of, metadata
from fathom.model.resource_names import DEPLOYMENTS, JOBS, REPLICA_SETS
from fathom.model.times import timestamp

# Resource -> the kinds of target that mean it.
_TARGETS = {
    DEPLOYMENTS: frozenset({"workload", "deployment"}),
    REPLICA_SETS: frozenset({"workload", "replicaset"}),
    JOBS: frozenset({"workload", "job"}),
}
_OWNERS = {"Deployment": DEPLOYMENTS, "ReplicaSet": REPLICA_SETS, "Job": JOBS}


def active_overrides(evidence: Evidence) -> tuple[ActiveOverride, ...]:
    subject = subject_of(evidence)
    if subject is None:
        return ()
    return tuple(
        _shown(override, evidence.now_ns)
        for override in _candidates(evidence)
        if override_active(override, evidence.now_ns) and _concerns(override, evidence, subject)
    )


def with_overrides(explanation: Explanation, evidence: Evidence) -> Explanation:
    """Without those that the answer is about already: they are among the objects that it relates to."""
    named = {related.key for related in explanation.related if related.resource == OVERRIDES}
    others = tuple(each for each in active_overrides(evidence) if Key(each.namespace, each.name) not in named)
    return msgspec.structs.replace(explanation, active_overrides=others) if others else explanation


def _candidates(evidence: Evidence) -> list[SchedulerOverride]:
    namespace = SYSTEM_NAMESPACE if evidence.subject.resource == NODES else evidence.subject.namespace
    overrides = []
    for obj in evidence.objects.list(OVERRIDES, namespace):
        honoured = as_acknowledged(obj) if evidence.attached else obj
        if honoured is None:
            continue
        try:
            overrides.append(read(SchedulerOverride, honoured))
        except ValueError:  # One that another server has stored: nobody acts on it.
            continue
    return overrides


def _concerns(override: SchedulerOverride, evidence: Evidence, subject: Obj) -> bool:
    resource = evidence.subject.resource
    if resource == PODS:
        return targets_pod(override, subject)
    if resource == NODES:
        return cordons(override, key_of(subject).name, labels_of(subject))
    target = named(override.spec.target)
    if target is None or target.kind not in WORKLOAD_TARGETS:
        return False
    return any(
        target.name == name and target.kind in _TARGETS[kind] for kind, name in _workloads(resource, subject)
    )


def _workloads(resource: str, subject: Obj) -> list[tuple[str, str]]:
    """The workload, and the one above it."""
    itself = [(resource, key_of(subject).name)] if resource in _TARGETS else []
    owners = [
        (_OWNERS[str(owner.get("kind"))], str(owner.get("name")))
        for owner in metadata(subject).get("ownerReferences") or ()
        if owner.get("controller") and owner.get("kind") in _OWNERS
    ]
    return [*itself, *owners] if itself else []


def _shown(override: SchedulerOverride, now_ns: int) -> ActiveOverride:
    return ActiveOverride(
        namespace=override.metadata.namespace,
        name=override.metadata.name,
        author=override.status.author,
        ends_at=timestamp(expiry_ns(override) or 0),
        ends_in=remaining(override, now_ns),
        changes=tuple(set_changes(override)),
    )
