"""Refused: the API server does not admit the pods of a workload, so there is no pod to ask about.

The controller that creates them has the server's message in its condition ReplicaFailure, or in an Event.
"""

from __future__ import annotations

import re

import msgspec

from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.why import commands
from fathom.explain.why.answer import Change, Explanation, summary_of
from fathom.explain.why.case import events_about
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of
from fathom.model.quantity import parse

STAGE, VERDICT = "refused", "was not created"
MAKERS = ("replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch")
QUOTAS = "resourcequotas"
EXCEEDED = re.compile(
    r"exceeded quota: (?P<quota>[^,]+), requested: (?P<requested>\S+), "
    r"used: (?P<used>\S+), limited: (?P<limited>\S+)"
)
UNASKED = re.compile(r"failed quota: (?P<quota>[^:]+): must specify (?P<listed>.+)")
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
    made = int(lookup(owner, "status", "replicas") or lookup(owner, "status", "active") or 0)
    wanted = lookup(owner, "spec", "replicas") or lookup(owner, "spec", "parallelism") or 1
    if made >= int(wanted):
        return ""
    events = [
        event
        for event in events_about(evidence.objects, key_of(owner), uid_of(owner))
        if event.get("reason") in {"FailedCreate", "SuccessfulCreate"}
    ]
    return str(events[-1].get("message") or "") if events and events[-1]["reason"] == "FailedCreate" else ""


def _worded(message: str, namespace: str, owner: Obj, evidence: Evidence) -> Refusal:
    if match := EXCEEDED.search(message):
        return _exceeded(match, namespace, evidence, message)
    owner_text = f"the owner of {key_of(owner).name}"
    if match := UNASKED.search(message):
        cause = f"ResourceQuota {match['quota']} wants every pod to set {match['listed']}"
        return Refusal(cause, Change(f"set {match['listed']}", "", owner_text), message)
    reason = message.partition("is forbidden: ")[2] or message
    return Refusal(
        f"the API server refuses it: {reason}", Change("correct the pod template", "", owner_text), message
    )


def _exceeded(match: re.Match[str], namespace: str, evidence: Evidence, message: str) -> Refusal:
    """Raise the quota to what is used now and requested: others may have taken more since."""
    quota_name = match["quota"]
    requested, limited = _amounts(match["requested"]), _amounts(match["limited"])
    quota = evidence.objects.get(QUOTAS, Key(namespace, quota_name)) or {}
    used = {**_amounts(match["used"]), **(lookup(quota, "status", "used") or {})}
    limits = {**limited, **(lookup(quota, "spec", "hard") or {})}
    needed = {
        resource: str(parse(used.get(resource, "0")) + parse(amount))
        for resource, amount in requested.items()
    }
    short = {
        name: total for name, total in needed.items() if parse(limits.get(name, "0")) < parse(total)
    } or needed
    said = " and ".join(
        f"{requested[name]} {name} is requested, {used.get(name, 0)} of {limits.get(name)} used"
        for name in short
    )
    what = " and ".join(f"{resource} to {total}" for resource, total in short.items())
    change = Change(
        f"raise {what} in ResourceQuota {quota_name}",
        commands.merge_patch("resourcequota", quota_name, {"spec": {"hard": short}}, namespace=namespace),
        QUOTA_ADMIN,
    )
    return Refusal(f"ResourceQuota {quota_name} is exhausted: {said}", change, message)


def _amounts(text: str) -> dict[str, str]:
    """'requests.cpu=2,pods=1'"""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


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
