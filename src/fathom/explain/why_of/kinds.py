"""The table of kinds that can be explained; which records a question wants; and the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from fathom.explain.evidence import Evidence, ObjectRef, Objects, RecordQuery
from fathom.explain.why.answer import Explanation
from fathom.explain.why_of import uncontrolled
from fathom.explain.why_of.autoscalers import explain_autoscaler
from fathom.explain.why_of.budgets import explain_budget
from fathom.explain.why_of.deployments import explain_deployment
from fathom.explain.why_of.endings import explain_deletion, explain_gone
from fathom.explain.why_of.jobs import explain_job
from fathom.explain.why_of.lookups import (
    NAMESPACES,
    NODES,
    OVERRIDES,
    PODS,
    ROLLOUTS,
    SERVICES,
    ExplainPod,
    controller_uid,
    ref,
    subject_of,
)
from fathom.explain.why_of.namespaces import explain_namespace
from fathom.explain.why_of.nodes import explain_node
from fathom.explain.why_of.overrides import explain_override
from fathom.explain.why_of.pod_causes import explain_pod_by_status
from fathom.explain.why_of.policy_rollouts import explain_policy_rollout
from fathom.explain.why_of.replica_sets import explain_replica_set
from fathom.explain.why_of.services import explain_service
from fathom.model.objects import Obj, is_deleting, key_of, lookup, uid_of
from fathom.model.resource_names import AUTOSCALERS, BUDGETS, DEPLOYMENTS, JOBS, REPLICA_SETS


class Explain(Protocol):
    """Explains one object that exists and, a Namespace aside, is not being deleted."""

    def __call__(self, evidence: Evidence, obj: Obj, explain_pod: ExplainPod | None, /) -> Explanation: ...


# In the order in which `stuck` looks at them.
EXPLAINERS: Mapping[str, Explain] = {
    NODES: explain_node,
    DEPLOYMENTS: explain_deployment,
    REPLICA_SETS: explain_replica_set,
    JOBS: explain_job,
    SERVICES: explain_service,
    AUTOSCALERS: explain_autoscaler,
    ROLLOUTS: explain_policy_rollout,
    OVERRIDES: explain_override,
    BUDGETS: explain_budget,
    NAMESPACES: explain_namespace,
    **dict.fromkeys(uncontrolled.KINDS, uncontrolled.explain_uncontrolled),
}
CHILDREN_MAX = 50  # Whose records a question about a workload wants; the newest first.


class NoExplanation(Exception):
    """Objects of this kind cannot be explained."""


def explain_object(evidence: Evidence, *, explain_pod: ExplainPod | None = None) -> Explanation:
    """The answer about the subject, a pod or any kind of the table."""
    resource = evidence.subject.resource
    if resource != PODS and resource not in EXPLAINERS:
        raise NoExplanation(f"{resource} cannot be explained: only {', '.join((PODS, *EXPLAINERS))}")
    obj = subject_of(evidence)
    if obj is None:
        return explain_gone(evidence)
    if resource == PODS:
        return (explain_pod or explain_pod_by_status)(obj, evidence)
    if is_deleting(obj) and resource != NAMESPACES:
        return explain_deletion(evidence, obj)
    return EXPLAINERS[resource](evidence, obj, explain_pod)


def wanted_records(subject: ObjectRef, objects: Objects) -> RecordQuery:
    """The records that the answer needs: about the subject, what it owns or runs, and its autoscalers."""
    obj = objects.get(subject.resource, subject.key)
    if obj is None:
        return RecordQuery(objects=(subject,))
    below = _pods_on(objects, obj) if subject.resource == NODES else _below(objects, obj)
    children = list(below)[:CHILDREN_MAX]
    return RecordQuery(objects=tuple(dict.fromkeys((subject, *children, *_autoscalers(objects, obj)))))


def _below(objects: Objects, owner: Obj) -> Iterator[ObjectRef]:
    namespace = key_of(owner).namespace
    uids = {uid_of(owner)}
    for resource in (REPLICA_SETS, PODS):
        children = [obj for obj in objects.list(resource, namespace) if controller_uid(obj) in uids]
        uids |= {uid_of(child) for child in children}
        yield from (ref(resource, child) for child in children)


def _pods_on(objects: Objects, node: Obj) -> Iterator[ObjectRef]:
    """The pods of a cordoned node: requests to evict them show that it is being drained."""
    if not lookup(node, "spec", "unschedulable"):
        return
    name = key_of(node).name
    yield from (ref(PODS, pod) for pod in objects.list(PODS) if lookup(pod, "spec", "nodeName") == name)


def _autoscalers(objects: Objects, workload: Obj) -> Iterator[ObjectRef]:
    namespace, name = key_of(workload)
    for autoscaler in objects.list(AUTOSCALERS, namespace):
        target = (autoscaler.get("spec") or {}).get("scaleTargetRef") or {}
        if target.get("name") == name:
            yield ref(AUTOSCALERS, autoscaler)
