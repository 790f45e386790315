"""Conditions: what a controller says about an object, since when, and about which generation of it.

One function writes them, so that the rules hold everywhere: the transition time moves only when the status
does, the order never changes, and nobody who looked at an older generation overwrites what was said about a
newer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from fathom.model.objects import Obj, lookup, metadata

Status = Literal["True", "False", "Unknown"]

SERVING_CONDITION = "fathom.dev/Serving"  # Of a pod: whether the gateway reaches it.
CONNECTIONS_FAIL = "fathom.dev/ConnectionsFail"  # Of a Service, said by the gateway: its error budget burns.
# Of a pod that no node takes: its reason is the pending reason, from `model/reasons.py`.
SCHEDULING_RETRYING = "SchedulingRetrying"
# Of a ReplicaSet or a WorkloadProgress, beside ReplicaFailure: its reason is the boundary that refuses pods.
PODS_REFUSED = "fathom.dev/PodsRefused"
DISRUPTION_TARGET = "DisruptionTarget"  # Of a pod that somebody ends, with why: a Job may forgive that.


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
    """The conditions with this one said. Equal to what came in if nothing new is said: then nothing need be
    written. `now` is a `timestamp`."""
    before = find_condition(conditions, type)
    if before is not None and (observed_generation or 0) < (before.get("observedGeneration") or 0):
        return list(conditions)
    moved = before is None or before.get("status") != status or not before.get("lastTransitionTime")
    said: Obj = {
        "type": type,
        "status": status,
        **({} if observed_generation is None else {"observedGeneration": observed_generation}),
        "lastTransitionTime": now if moved or before is None else before["lastTransitionTime"],
        "reason": reason,
        "message": message,
    }
    if before is None:
        return [*conditions, said]
    return [said if condition.get("type") == type else condition for condition in conditions]


def find_condition(conditions: Sequence[Obj], type: str) -> Obj | None:  # noqa: A002
    return next((condition for condition in conditions if condition.get("type") == type), None)


def conditions_of(obj: Obj) -> list[Obj]:
    """Never None; what is no list of objects counts as none."""
    found = lookup(obj, "status", "conditions")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def without_condition(conditions: Sequence[Obj], type: str) -> list[Obj]:  # noqa: A002
    return [condition for condition in conditions if condition.get("type") != type]


# The same with other numbers in it is not written again sooner than this: who reads a status does not need
# its counts to the second, and every write wakes all who watch.
NUMBERS_EVERY_S = 60.0


def without_digits(message: object) -> str:
    return "".join(character for character in str(message) if not character.isdigit())


def differ_in_numbers(before: Sequence[Obj], after: Sequence[Obj]) -> bool:
    """Whether all that is new is numbers in messages."""
    return before != after and _without_numbers(before) == _without_numbers(after)


def _without_numbers(conditions: Sequence[Obj]) -> list[Obj]:
    return [{**one, "message": without_digits(one.get("message"))} for one in conditions]


def is_true(obj: Obj, type: str) -> bool:  # noqa: A002
    """Whether the condition holds *for the object as it is now*: what was said about an older generation says
    nothing about this one."""
    found = find_condition(conditions_of(obj), type)
    if found is None or found.get("status") != "True":
        return False
    about = found.get("observedGeneration")
    return about is None or about >= (metadata(obj).get("generation") or 0)
