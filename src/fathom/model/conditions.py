"""Conditions: a controller's statement about an object, since when, and about which generation of it.

One function writes them, so that the rules hold everywhere: the transition time changes only with the status,
the order never changes, and a controller that saw an older generation does not overwrite a condition of a
newer one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from fathom.model.objects import Obj, lookup, metadata

Status = Literal["True", "False", "Unknown"]

SERVING_CONDITION = "fathom.dev/Serving"  # Of a pod: whether the gateway reaches it.
CONNECTIONS_FAIL = "fathom.dev/ConnectionsFail"  # Of a Service, set by the gateway: its error budget burns.
# Of a pod that no node takes: its reason is the pending reason, from `model/reasons.py`.
SCHEDULING_RETRYING = "SchedulingRetrying"
# Of a ReplicaSet or a WorkloadProgress, beside ReplicaFailure: its reason is the boundary that rejects pods.
# Of a pod, beside DisruptionTarget: its reason is the override that asks for it, NAMESPACE/NAME@UID.
EVICTED_FOR = "fathom.dev/EvictedFor"
PODS_REFUSED = "fathom.dev/PodsRefused"
# Of a pod that no node takes, during a canary: its reason is the policy that it waits because of.
BLOCKED_BY_POLICY = "fathom.dev/BlockedByPolicy"
DISRUPTION_TARGET = "DisruptionTarget"  # Of a pod that is evicted, with the reason; a Job may ignore it.


def set_condition(
    conditions: Sequence[Obj],
    *,
    type: str,  # noqa: A002  # The word that Kubernetes has for it.
    status: Status,
    reason: str,
    message: str = "",
    observed_generation: int | None = None,
    now: str,
) -> list[Obj]:
    """The conditions with this one set. Equal to the argument if nothing changes: then no write is needed.
    `now` is a `timestamp`."""
    before = find_condition(conditions, type)
    if before is not None and (observed_generation or 0) < (before.get("observedGeneration") or 0):
        return list(conditions)
    status_changed = before is None or before.get("status") != status or not before.get("lastTransitionTime")
    updated: Obj = {
        "type": type,
        "status": status,
        **({} if observed_generation is None else {"observedGeneration": observed_generation}),
        "lastTransitionTime": now if status_changed or before is None else before["lastTransitionTime"],
        "reason": reason,
        "message": message,
    }
    if before is None:
        return [*conditions, updated]
    return [updated if condition.get("type") == type else condition for condition in conditions]


def set_conditions(
    conditions: Sequence[Obj],
    stated: Mapping[str, tuple[Status, str, str]],
    *,
    observed_generation: int | None,
    now: str,
) -> list[Obj]:
    """The conditions with these set: type -> (status, reason, message)."""
    for type_, (status, reason, message) in stated.items():
        conditions = set_condition(
            conditions,
            type=type_,
            status=status,
            reason=reason,
            message=message,
            observed_generation=observed_generation,
            now=now,
        )
    return list(conditions)


def find_condition(conditions: Sequence[Obj], type: str) -> Obj | None:  # noqa: A002
    for condition in conditions:  # Half as long as `next` of a generator: asked hundreds of times a second.
        if condition.get("type") == type:
            return condition
    return None


def conditions_of(obj: Obj) -> list[Obj]:
    """The object's conditions. Never None; entries that are not objects are dropped."""
    listed = lookup(obj, "status", "conditions")
    return (
        [condition for condition in listed if isinstance(condition, dict)] if isinstance(listed, list) else []
    )


def without_condition(conditions: Sequence[Obj], type: str) -> list[Obj]:  # noqa: A002
    return [condition for condition in conditions if condition.get("type") != type]


# A message that differs only in its numbers is not written again sooner than this: readers of a status do not
# need its counts to the second, and every write wakes all watchers.
NUMBERS_EVERY_S = 60.0


def without_digits(message: object) -> str:
    return "".join(character for character in str(message) if not character.isdigit())


def differ_in_numbers(before: Sequence[Obj], after: Sequence[Obj]) -> bool:
    """Whether only numbers in messages differ."""
    return before != after and _without_numbers(before) == _without_numbers(after)


def _without_numbers(conditions: Sequence[Obj]) -> list[Obj]:
    return [{**condition, "message": without_digits(condition.get("message"))} for condition in conditions]


def is_true(obj: Obj, type: str) -> bool:  # noqa: A002
    """Whether the condition is true *for the object as it is now*: a condition about an older generation does
    not count."""
    condition = find_condition(conditions_of(obj), type)
    if condition is None or condition.get("status") != "True":
        return False
    observed = condition.get("observedGeneration")
    return observed is None or observed >= (metadata(obj).get("generation") or 0)
