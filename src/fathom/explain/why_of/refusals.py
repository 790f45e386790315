"""Pods that the API server refused to create: no pod exists that one could ask about.

The refusal is a condition of the ReplicaSet or the WorkloadProgress, else an Event FailedCreate. Which quota
it is about: `why/quota_refusals`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fathom.controllers.refusals import REPLICA_FAILURE
from fathom.explain import kubernetes_texts
from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.kubernetes_texts import QuotaRefusal
from fathom.explain.why.answer import NOBODY, Change
from fathom.explain.why.commands import kubectl, word
from fathom.explain.why.quota_refusals import boundary_at, refused_by_quota
from fathom.explain.why_of.lookups import RESOURCE_QUOTAS, event_message, events_of, ref
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, key_of, lookup
from fathom.model.podresources import amounts
from fathom.model.quantity import ZERO, Quantity
from fathom.model.reasons import QUOTA
from fathom.model.resource_names import PRIORITY_CLASSES

BUILT_IN = "system-"  # What the names of classes begin with that always exist.


class PodRefusal(msgspec.Struct, frozen=True):
    boundary: str  # 'quota', 'admission'
    message: str  # The server's answer, without the pod's name.
    by_quota: QuotaRefusal | None = None  # The ResourceQuota that refused.


def refusal_of(evidence: Evidence, sources: Sequence[Obj]) -> PodRefusal | None:
    """The present refusal of pods; None if none is known. `sources`: the objects that may have it."""
    for obj in sources:
        condition = find_condition(conditions_of(obj), REPLICA_FAILURE)
        if condition is not None and condition.get("status") == "True":
            return _refusal(evidence, obj, str(condition.get("message") or ""))
    for obj in sources:
        failed = [event for event in events_of(evidence, obj) if event.get("reason") == "FailedCreate"]
        if failed:
            return _refusal(evidence, obj, event_message(failed[0]))
    return None


def _refusal(evidence: Evidence, obj: Obj, message: str) -> PodRefusal:
    by_quota = refused_by_quota(evidence, obj, message)
    boundary = QUOTA if by_quota is not None else boundary_at(evidence, obj)
    return PodRefusal(boundary, kubernetes_texts.refusal_text(message), by_quota)


def quota_ref(evidence: Evidence, namespace: str, refusal: PodRefusal) -> tuple[ObjectRef, ...]:
    name = "" if refusal.by_quota is None else refusal.by_quota.quota
    quota = evidence.objects.get(RESOURCE_QUOTAS, Key(namespace, name)) if name else None
    return () if quota is None else (ref(RESOURCE_QUOTAS, quota),)


def change_of_refusal(
    evidence: Evidence, owner: Obj, refusal: PodRefusal, *, missing: int, target: str
) -> Change:
    """`missing`: how many pods are to be created. `target`: 'deployment/web'."""
    namespace = key_of(owner).namespace
    by_quota = refusal.by_quota
    if by_quota is not None and by_quota.requested:
        return _raised(evidence, namespace, by_quota, missing)
    if by_quota is not None:
        return _with_requests(namespace, target, by_quota)
    if refusal.boundary == QUOTA:
        return Change("wait: the ResourceQuotas have room now, and the next try succeeds", "", NOBODY)
    if (class_created := _missing_class(evidence, owner)) is not None:
        return class_created
    command = f"kubectl edit {word(target)} -n {word(namespace)}"
    return Change("change the pod template so that the API server accepts it", command, _owner(target))


def _missing_class(evidence: Evidence, owner: Obj) -> Change | None:
    """The template names a PriorityClass that does not exist."""
    name = str(lookup(owner, "spec", "template", "spec", "priorityClassName") or "")
    if (
        not name
        or name.startswith(BUILT_IN)
        or not evidence.knows(PRIORITY_CLASSES)
        or evidence.objects.get(PRIORITY_CLASSES, Key("", name)) is not None
    ):
        return None
    command = f"kubectl create priorityclass {word(name)} --value=VALUE"
    return Change(f"create PriorityClass {name}", command, "a cluster operator")


def _raised(evidence: Evidence, namespace: str, refusal: QuotaRefusal, missing: int) -> Change:
    """The smallest limits under which all missing pods fit, from the quota as it is now."""
    name = refusal.quota
    quota = evidence.objects.get(RESOURCE_QUOTAS, Key(namespace, name)) or {}
    used = {**refusal.used, **amounts(lookup(quota, "status", "used") or {})}
    hard = {**refusal.hard, **amounts(lookup(quota, "spec", "hard") or {})}
    limits: dict[str, str] = {}
    for resource, each in refusal.requested.items():
        in_use, limit = used.get(resource, ZERO), hard.get(resource, ZERO)
        needed = Quantity(in_use.nano + max(1, missing) * each.nano, limit.notation)
        if needed > limit:
            limits[resource] = str(needed)
    who = f"whoever may update resourcequotas in {namespace}"
    if not limits:  # It has room by now: the controller tries again by itself.
        return Change(f"wait: ResourceQuota {name} has room now, and the next try succeeds", "", NOBODY)
    listed = " and ".join(f"{resource} to {limit}" for resource, limit in limits.items())
    patch = '{"spec":{"hard":{' + ",".join(f'"{key}":"{value}"' for key, value in limits.items()) + "}}}"
    command = f"kubectl patch resourcequota {word(name)} -n {word(namespace)} --type=merge -p {word(patch)}"
    return Change(f"raise {listed} in ResourceQuota {name}", command, who)


_EXAMPLES: Mapping[str, str] = {"cpu": "100m", "memory": "64Mi"}


def _with_requests(namespace: str, target: str, refusal: QuotaRefusal) -> Change:
    flags: dict[str, list[str]] = {}
    for name in refusal.needs:
        which, _, resource = name.rpartition(".")
        flags.setdefault(which or "requests", []).append(f"{resource}={_EXAMPLES.get(resource, '1')}")
    options = [f"--{which}={','.join(amounts)}" for which, amounts in flags.items()]
    command = kubectl("set", "resources", target, "-n", namespace, *options)
    return Change(f"set {refusal.needs_text}", command, _owner(target))


def _owner(target: str) -> str:
    return f"the owner of {target}"
