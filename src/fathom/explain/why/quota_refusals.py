"""Which ResourceQuota refuses the pods of a workload.

That a quota refuses them is data: the reason of our condition beside ReplicaFailure, or the check of the
controller's outcome. Which one follows from the quotas as they are and from what one more pod would request.
Controllers of others report it as a text alone: `kubernetes_texts`.
"""

from __future__ import annotations

from fathom.api.admission.scopes import in_scope
from fathom.api.admission.usage import unasked, usage_of
from fathom.controllers.refusals import refused_at
from fathom.explain import kubernetes_texts
from fathom.explain.evidence import Evidence
from fathom.explain.kubernetes_texts import QuotaRefusal
from fathom.model.objects import Obj, key_of, lookup, metadata, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.model.podresources import amounts
from fathom.model.quantity import ZERO
from fathom.model.reasons import ADMISSION, QUOTA, refusal_boundary

PODS, QUOTAS = "pods", "resourcequotas"


def refused_by_quota(evidence: Evidence, owner: Obj, message: str) -> QuotaRefusal | None:
    """None: it is no quota that refuses the owner's pods, or no longer known which."""
    by_text = kubernetes_texts.quota_refusal(message)
    if boundary_at(evidence, owner) == QUOTA:
        return refusing_quota(evidence, owner) or by_text
    return by_text


def boundary_at(evidence: Evidence, owner: Obj) -> str:
    """Which boundary refused the owner's pods, as fathom's own components say."""
    boundary = refused_at(owner)
    if boundary != ADMISSION:
        return boundary
    uid = uid_of(owner)
    checks = [
        outcome.check
        for record in evidence.decisions
        if uid and record.kept.decision.subject.uid == uid
        for outcome in record.kept.outcomes
        if outcome.verb in {"", "create"}
    ]
    return refusal_boundary(checks[-1:])


def refusing_quota(evidence: Evidence, owner: Obj) -> QuotaRefusal | None:
    """The first quota, by name, that would refuse one more pod now."""
    pod = one_more_pod(evidence, owner)
    for quota in evidence.objects.list(QUOTAS, key_of(owner).namespace):
        if in_scope(quota, PODS, pod) and (refusal := _refusal(quota, pod)) is not None:
            return refusal
    return None


def _refusal(quota: Obj, pod: Obj) -> QuotaRefusal | None:
    name, hard = key_of(quota).name, amounts(lookup(quota, "spec", "hard") or {})
    used = amounts(lookup(quota, "status", "used") or {})
    missing = unasked(pod, frozenset(hard))
    if missing:
        return QuotaRefusal(name, needs={resource: tuple(each) for resource, each in missing.items()})
    short = {
        resource: amount
        for resource, amount in sorted(usage_of(PODS, pod).items())
        if resource in hard and used.get(resource, ZERO) + amount > hard[resource]
    }
    if not short:
        return None
    return QuotaRefusal(
        name, short, {each: used.get(each, ZERO) for each in short}, {each: hard[each] for each in short}
    )


def one_more_pod(evidence: Evidence, owner: Obj) -> Obj:
    """As a pod that the owner has: admission may have given it requests. Else as its template has it."""
    uid, namespace = uid_of(owner), key_of(owner).namespace
    for pod in evidence.objects.list(PODS, namespace):
        owners = metadata(pod).get("ownerReferences") or ()
        if uid and not is_terminal(pod) and any(each.get("uid") == uid for each in owners):
            return {"metadata": metadata(pod), "spec": pod.get("spec") or {}}
    template = lookup(owner, "spec", "template") or {}
    meta = {**(template.get("metadata") or {}), "namespace": namespace, "name": key_of(owner).name}
    return {"metadata": meta, "spec": template.get("spec") or {}}
