"""Why a ReplicaSet is not as wanted: refused, not created, not ready."""

from __future__ import annotations

from fathom.controllers.deployment.revisions import size_of
from fathom.controllers.pod_states import is_active
from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.why.answer import Explanation
from fathom.explain.why_of.answering import SubjectTrouble, answered
from fathom.explain.why_of.control_plane import CONTROLLERS, part_trouble, restart, unobserved
from fathom.explain.why_of.lookups import PODS, ExplainPod, controller_uid, owned_by, ref
from fathom.explain.why_of.replicas import (
    ReplicaFacts,
    ready_count,
    replica_trouble,
    replica_verdict,
)
from fathom.explain.why_of.unreached import unreached_replicas
from fathom.model.objects import Obj, key_of, lookup, uid_of
from fathom.model.resource_names import DEPLOYMENTS

CONTROLLER = "replicasets"


def explain_replica_set(
    evidence: Evidence, replica_set: Obj, explain_pod: ExplainPod | None = None
) -> Explanation:
    pods = owned_by(evidence, PODS, replica_set)
    facts = ReplicaFacts(
        owner=replica_set,
        creator=replica_set,
        target=_target(evidence, replica_set),
        wanted=size_of(replica_set),
        pods=pods,
        min_ready_s=int(lookup(replica_set, "spec", "minReadySeconds") or 0),
    )
    trouble = _unobserved(evidence, replica_set) or replica_trouble(evidence, facts, explain_pod)
    trouble = trouble or _surplus(facts) or unreached_replicas(evidence, replica_set, pods)
    return answered(
        evidence,
        replica_set,
        trouble,
        stage="replica-sets",
        verdict=replica_verdict(trouble, ready=ready_count(pods), wanted=facts.wanted),
        controller=CONTROLLER,
        related=_owner(evidence, replica_set),
        ready=ready_count(pods),
        wanted=facts.wanted,
    )


def _unobserved(evidence: Evidence, replica_set: Obj) -> SubjectTrouble | None:
    behind = unobserved(evidence, replica_set, CONTROLLER)
    if not behind:
        return None
    return SubjectTrouble(
        "is not observed", behind, restart(part_trouble(evidence, CONTROLLERS), CONTROLLERS)
    )


def _surplus(facts: ReplicaFacts) -> SubjectTrouble | None:
    over = sum(map(is_active, facts.pods)) - facts.wanted
    if over <= 0:
        return None
    cause = f"{over} pods more than wanted are not deleted yet"
    return SubjectTrouble("is scaling down", cause, kind="passing")


def _owner(evidence: Evidence, replica_set: Obj) -> tuple[ObjectRef, ...]:
    deployment = _deployment(evidence, replica_set)
    return () if deployment is None else (ref(DEPLOYMENTS, deployment),)


def _deployment(evidence: Evidence, replica_set: Obj) -> Obj | None:
    uid = controller_uid(replica_set)
    deployments = evidence.objects.list(DEPLOYMENTS, key_of(replica_set).namespace) if uid else []
    return next((deployment for deployment in deployments if uid_of(deployment) == uid), None)


def _target(evidence: Evidence, replica_set: Obj) -> str:
    """The object whose template has to be changed: a Deployment would undo a change of its ReplicaSet."""
    deployment = _deployment(evidence, replica_set)
    return (
        f"replicaset/{key_of(replica_set).name}"
        if deployment is None
        else f"deployment/{key_of(deployment).name}"
    )
