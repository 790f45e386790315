"""Refused: the API server does not admit the pods of a workload, so there is no pod to ask about.

The controller that creates them has the server's message in its condition ReplicaFailure, or in an Event.
Which quota it is about: `quota_refusals`.
"""

from __future__ import annotations

import msgspec

from fathom.explain import kubernetes_texts
from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.kubernetes_texts import QuotaRefusal
from fathom.explain.why import commands
from fathom.explain.why.answer import Change, Explanation, summary_of
from fathom.explain.why.case import events_about
from fathom.explain.why.quota_refusals import QUOTAS, refused_by_quota
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of
from fathom.model.podresources import amounts
from fathom.model.quantity import ZERO

STAGE, VERDICT = "refused", "was not created"
MAKERS = ("replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch")
QUOTA_ADMIN = "whoever grants the namespace's quota"


class Refusal(msgspec.Struct, frozen=True):
    cause: str
    change: Change | None
    message: str  # The server's.


def refusal_of(owner: Obj, evidence: Evidence) -> Refusal | None:
    """Why the server refuses the pods of a controller of any kind; None: it refuses none."""
    message = _message(owner, evidence)
    return None if not message else _worded(message, key_of(owner).namespace, owner, evidence)


def _message(owner: Obj, evidence: Evidence) -> str:
    failure = find_condition(conditions_of(owner), "ReplicaFailure") or {}
    if failure.get("status") == "True":
        return str(failure.get("message") or failure.get("reason") or "")
    existing = int(lookup(owner, "status", "replicas") or lookup(owner, "status", "active") or 0)
    wanted = lookup(owner, "spec", "replicas") or lookup(owner, "spec", "parallelism") or 1
    if existing >= int(wanted):
        return ""
    events = [
        event
        for event in events_about(evidence.objects, key_of(owner), uid_of(owner))
        if event.get("reason") in {"FailedCreate", "SuccessfulCreate"}
    ]
    return str(events[-1].get("message") or "") if events and events[-1]["reason"] == "FailedCreate" else ""


def _worded(message: str, namespace: str, owner: Obj, evidence: Evidence) -> Refusal:
    refusal = refused_by_quota(evidence, owner, message)
    if refusal is not None and refusal.requested:
        return _exceeded(refusal, namespace, evidence, message)
    owner_text = f"the owner of {key_of(owner).name}"
    if refusal is not None:
        cause = f"ResourceQuota {refusal.quota} wants every pod to set {refusal.needs_text}"
        return Refusal(cause, Change(f"set {refusal.needs_text}", "", owner_text), message)
    return Refusal(
        f"the API server refuses it: {kubernetes_texts.refusal_text(message)}",
        Change("correct the pod template", "", owner_text),
        message,
    )


def _exceeded(refusal: QuotaRefusal, namespace: str, evidence: Evidence, message: str) -> Refusal:
    """Raise the quota to what is used now and requested: others may have taken more since."""
    name, requested = refusal.quota, refusal.requested
    quota = evidence.objects.get(QUOTAS, Key(namespace, name)) or {}
    used = {**refusal.used, **amounts(lookup(quota, "status", "used") or {})}
    limits = {**refusal.hard, **amounts(lookup(quota, "spec", "hard") or {})}
    needed = {resource: used.get(resource, ZERO) + amount for resource, amount in requested.items()}
    short = {
        resource: total for resource, total in needed.items() if limits.get(resource, ZERO) < total
    } or needed
    use = " and ".join(
        f"{requested[each]} {each} is requested, {used.get(each, ZERO)} of {limits.get(each)} used"
        for each in short
    )
    raised = {resource: str(total) for resource, total in short.items()}
    what = " and ".join(f"{resource} to {total}" for resource, total in raised.items())
    change = Change(
        f"raise {what} in ResourceQuota {name}",
        commands.merge_patch("resourcequota", name, {"spec": {"hard": raised}}, namespace=namespace),
        QUOTA_ADMIN,
    )
    return Refusal(f"ResourceQuota {name} is exhausted: {use}", change, message)


# A pod that does not exist, by name.


def explain(subject: ObjectRef, evidence: Evidence) -> Explanation | None:
    """For the name of a pod that was never made: the controller that would have made it says why."""
    owner = maker_of(subject, evidence)
    refusal = refusal_of(owner, evidence) if owner is not None else None
    if refusal is None:
        return None
    return Explanation(
        subject=subject,
        summary=summary_of("pod " + "/".join(subject.key), VERDICT, refusal.cause, refusal.change),
        verdict=VERDICT,
        as_wanted=False,
        cause=refusal.cause,
        stage=STAGE,
        change=refusal.change,
        gaps=evidence.gaps,
        next_trigger="the controller's next attempt to create it",
    )


def maker_of(subject: ObjectRef, evidence: Evidence) -> Obj | None:
    """The controller whose pods have names like this: 'web-7f2' makes 'web-7f2-x4k2p'. Inferred."""
    candidates = [
        owner
        for resource in MAKERS
        for owner in evidence.objects.list(resource, subject.namespace)
        if subject.name.startswith(f"{key_of(owner).name}-")
    ]
    return max(candidates, key=lambda owner: len(key_of(owner).name), default=None)
