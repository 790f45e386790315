"""Pods that the API server refused to create: no pod exists that one could ask about.

The refusal is a condition of the ReplicaSet or the WorkloadProgress, else an Event FailedCreate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from fathom.controllers.refusals import REPLICA_FAILURE, refused_at
from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.why.answer import NOBODY, Change
from fathom.explain.why_of.lookups import RESOURCE_QUOTAS, event_message, events_of, ref
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, key_of, lookup
from fathom.model.quantity import Quantity, parse
from fathom.model.reasons import ADMISSION, QUOTA

EXCEEDED = re.compile(
    r"exceeded quota: (?P<name>\S+), requested: (?P<requested>\S+),"
    r" used: (?P<used>\S+), limited: (?P<hard>\S+)"
)
NEEDS_REQUESTS = re.compile(r"failed quota: (?P<name>\S+): must specify (?P<resources>.+)$")
PREFIX = re.compile(r'^(Error creating: )?(pods "[^"]*" is forbidden: )?')


class PodRefusal(msgspec.Struct, frozen=True):
    boundary: str  # 'quota', 'admission'
    message: str  # The server's answer, without the pod's name.
    quota: str = ""  # The ResourceQuota that refused.


def refusal_of(evidence: Evidence, sources: Sequence[Obj]) -> PodRefusal | None:
    """The present refusal of pods; None if none is known. `sources`: the objects that may have it."""
    for obj in sources:
        condition = find_condition(conditions_of(obj), REPLICA_FAILURE)
        if condition is not None and condition.get("status") == "True":
            return _refusal(str(condition.get("message") or ""), refused_at(obj))
    for obj in sources:
        failed = [event for event in events_of(evidence, obj) if event.get("reason") == "FailedCreate"]
        if failed:
            return _refusal(event_message(failed[0]), ADMISSION)
    return None


def _refusal(message: str, boundary: str) -> PodRefusal:
    text = PREFIX.sub("", message)
    quota = EXCEEDED.search(text) or NEEDS_REQUESTS.search(text)
    name = quota["name"].rstrip(":") if quota is not None else ""
    return PodRefusal(QUOTA if name else boundary, text, name)


def quota_ref(evidence: Evidence, namespace: str, refusal: PodRefusal) -> tuple[ObjectRef, ...]:
    quota = evidence.objects.get(RESOURCE_QUOTAS, Key(namespace, refusal.quota)) if refusal.quota else None
    return () if quota is None else (ref(RESOURCE_QUOTAS, quota),)


def change_of_refusal(
    evidence: Evidence, owner: Obj, refusal: PodRefusal, *, missing: int, target: str
) -> Change:
    """`missing`: how many pods are to be created. `target`: 'deployment/web'."""
    namespace = key_of(owner).namespace
    exceeded = EXCEEDED.search(refusal.message)
    if exceeded is not None:
        return _raised(evidence, namespace, exceeded, missing)
    needs = NEEDS_REQUESTS.search(refusal.message)
    if needs is not None:
        return _with_requests(namespace, target, needs["resources"])
    command = f"kubectl edit {target} -n {namespace}"
    return Change("change the pod template so that the API server accepts it", command, _owner(target))


def _raised(evidence: Evidence, namespace: str, exceeded: re.Match[str], missing: int) -> Change:
    """The smallest limits under which all missing pods fit, from the quota as it is now."""
    name = exceeded["name"]
    quota = evidence.objects.get(RESOURCE_QUOTAS, Key(namespace, name)) or {}
    used, hard = (lookup(quota, "status", "used") or {}, lookup(quota, "spec", "hard") or {})
    used_then, hard_then = _amounts(exceeded["used"]), _amounts(exceeded["hard"])
    limits: dict[str, str] = {}
    for resource, each in _amounts(exceeded["requested"]).items():
        in_use = _first(_amount(used.get(resource)), used_then.get(resource))
        limit = _first(_amount(hard.get(resource)), hard_then.get(resource))
        needed = Quantity(in_use.nano + max(1, missing) * each.nano, limit.notation)
        if needed > limit:
            limits[resource] = str(needed)
    who = f"whoever may update resourcequotas in {namespace}"
    if not limits:  # It has room by now: the controller tries again by itself.
        return Change(f"wait: ResourceQuota {name} has room now, and the next try succeeds", "", NOBODY)
    listed = " and ".join(f"{resource} to {limit}" for resource, limit in limits.items())
    patch = '{"spec":{"hard":{' + ",".join(f'"{key}":"{value}"' for key, value in limits.items()) + "}}}"
    command = f"kubectl patch resourcequota {name} -n {namespace} --type=merge -p '{patch}'"
    return Change(f"raise {listed} in ResourceQuota {name}", command, who)


def _first(*amounts: Quantity | None) -> Quantity:
    return next((amount for amount in amounts if amount is not None), Quantity(0))


def _amounts(listed: str) -> dict[str, Quantity]:
    """'pods=1,requests.cpu=100m'"""
    pairs = (part.partition("=") for part in listed.split(","))
    return {name: amount for name, _, text in pairs if (amount := _amount(text)) is not None}


def _amount(text: object) -> Quantity | None:
    try:
        return parse(str(text)) if text is not None else None
    except ValueError:
        return None


_EXAMPLES: Mapping[str, str] = {"cpu": "100m", "memory": "64Mi"}


def _with_requests(namespace: str, target: str, resources: str) -> Change:
    """'requests.cpu for: main; limits.memory for: main'"""
    flags: dict[str, list[str]] = {}
    for part in resources.split(";"):
        name = part.strip().partition(" for:")[0].split(",")[0]
        which, _, resource = name.rpartition(".")
        flags.setdefault(which or "requests", []).append(f"{resource}={_EXAMPLES.get(resource, '1')}")
    words = " ".join(f"--{which}={','.join(amounts)}" for which, amounts in flags.items())
    command = f"kubectl set resources {target} -n {namespace} {words}"
    return Change(f"set {resources}", command, _owner(target))


def _owner(target: str) -> str:
    return f"the owner of {target}"
