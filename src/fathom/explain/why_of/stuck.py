"""Whatever is stuck in a namespace or in the cluster, worst first.

A workload stands for its pods, and a Deployment for its ReplicaSets: each trouble is listed once, at the
object that people manage. An autoscaler, a Service or a budget whose only trouble is that of a workload in
the list is left out. Of many pods that wait for the same, one stands for all.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fathom.controllers.deployment.revisions import size_of
from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.why.answer import Explanation
from fathom.explain.why_of.alike_pods import explain_waiting, waits_for_a_node
from fathom.explain.why_of.kinds import EXPLAINERS, explain_object
from fathom.explain.why_of.lookups import (
    CLUSTER_SCOPED,
    NODES,
    OVERRIDES,
    PODS,
    ROLLOUTS,
    SERVICES,
    ExplainPod,
    controller_uid,
    ref,
)
from fathom.explain.why_of.unreached import GATEWAY_CAUSE
from fathom.model.objects import Obj
from fathom.model.resource_names import AUTOSCALERS, BUDGETS, DEPLOYMENTS, JOBS, REPLICA_SETS


def stuck(evidence: Evidence, *, explain_pod: ExplainPod | None = None) -> list[Explanation]:
    """Every object that is not as wanted. The subject's namespace limits it; '' is the whole cluster."""
    pods = [pod for pod in _readable(evidence, PODS) if not controller_uid(pod)]
    bound = [ref(PODS, pod) for pod in pods if not waits_for_a_node(pod)]
    explanations = [
        *(_explain(evidence, subject, explain_pod) for subject in (*_subjects(evidence), *bound)),
        *explain_waiting(evidence, [pod for pod in pods if waits_for_a_node(pod)], explain_pod),
    ]
    return worst_first([each for each in explanations if not each.as_wanted])


def worst_first(explanations: list[Explanation]) -> list[Explanation]:
    """Each trouble once."""
    return sorted(_once(explanations), key=_rank)


def _explain(evidence: Evidence, subject: ObjectRef, explain_pod: ExplainPod | None) -> Explanation:
    about = msgspec.structs.replace(evidence, subject=subject)
    return explain_object(about, explain_pod=explain_pod)


def _subjects(evidence: Evidence) -> Iterator[ObjectRef]:
    """But for pods."""
    for resource in EXPLAINERS:
        if resource in CLUSTER_SCOPED and (evidence.subject.namespace or not _may_see(evidence, resource)):
            continue
        for obj in _readable(evidence, resource):
            if not _is_a_part(resource, obj):
                yield ref(resource, obj)


def _readable(evidence: Evidence, resource: str) -> Iterator[Obj]:
    namespace = None if resource in CLUSTER_SCOPED else evidence.subject.namespace or None
    return (obj for obj in evidence.objects.list(resource, namespace) if _is_readable(evidence, obj))


def _may_see(evidence: Evidence, resource: str) -> bool:
    return evidence.may_read_nodes if resource == NODES else evidence.readable is None


def _is_readable(evidence: Evidence, obj: Obj) -> bool:
    namespace = (obj.get("metadata") or {}).get("namespace") or ""
    return evidence.readable is None or not namespace or namespace in evidence.readable


def _is_a_part(resource: str, obj: Obj) -> bool:
    """Its controller answers for it. An old ReplicaSet that wants no pods has no trouble either."""
    return resource == REPLICA_SETS and (bool(controller_uid(obj)) or not size_of(obj))


def _once(explanations: list[Explanation]) -> list[Explanation]:
    """Without those that only repeat a workload's trouble."""
    workloads = [each for each in explanations if each.subject.resource in {DEPLOYMENTS, REPLICA_SETS, JOBS}]
    explained = {name for each in workloads for group in each.causes for name in group.objects}
    explained_subjects = {each.subject for each in workloads}
    return [
        each
        for each in explanations
        if each.subject.resource not in {AUTOSCALERS, SERVICES, BUDGETS}
        or not (_repeats(each, explained) or (each.kind == "held" and explained_subjects & {*each.related}))
    ]


def _repeats(explanation: Explanation, explained: set[str]) -> bool:
    names = {name for group in explanation.causes for name in group.objects}
    return bool(names) and names <= explained


def _rank(explanation: Explanation) -> tuple[int, int, str, str]:
    """Nothing runs, then a node is lost, then part of the replicas, then the rest. What passes by itself
    comes last, and so does what people have done on purpose."""
    subject, ready, wanted = explanation.subject, explanation.ready or 0, explanation.wanted or 0
    ours = explanation.stage == "control-plane"  # A pod that waits because of us does not wait for its turn.
    return (
        0 if ours else _severity(explanation),
        min(0, ready - wanted),
        subject.resource,
        "/".join(subject.key),
    )


def _serving_count(explanation: Explanation) -> int:
    """Ready replicas, without those that the gateway does not reach."""
    unreached = sum(group.count for group in explanation.causes if group.cause == GATEWAY_CAUSE)
    return max(0, (explanation.ready or 0) - unreached)


def _severity(explanation: Explanation) -> int:
    resource = explanation.subject.resource
    if explanation.kind == "intended":
        return 6
    if explanation.kind == "passing":
        return 5
    if resource in {DEPLOYMENTS, REPLICA_SETS, SERVICES, PODS} and not _serving_count(explanation):
        return 0
    if resource == NODES:
        return 1
    if resource in {DEPLOYMENTS, REPLICA_SETS, JOBS}:
        return 2
    return 3 if resource in {AUTOSCALERS, ROLLOUTS} else 4 if resource == OVERRIDES else 3
