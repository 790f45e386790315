"""Conditions that say that the API server refuses a workload's pods, and at which boundary. Pure.

Kubernetes' ReplicaFailure has the server's message. Our condition beside it has the boundary as its reason,
`quota`, so that no code has to parse the message.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.control.reconcile_result import Failure
from fathom.model.conditions import (
    PODS_REFUSED,
    conditions_of,
    find_condition,
    set_condition,
    without_condition,
)
from fathom.model.objects import Obj
from fathom.model.reasons import ADMISSION, refusal_boundary

REPLICA_FAILURE = "ReplicaFailure"


def with_refusal(conditions: Sequence[Obj], failure: Failure, *, now: str) -> list[Obj]:
    """Adds nothing if the boundary is admission in general."""
    boundary = refusal_boundary(failure.causes)
    if boundary == ADMISSION:
        return without_condition(conditions, PODS_REFUSED)
    return set_condition(conditions, type=PODS_REFUSED, status="True", reason=boundary, now=now)


def without_refusal(conditions: Sequence[Obj]) -> list[Obj]:
    return without_condition(without_condition(conditions, REPLICA_FAILURE), PODS_REFUSED)


def refused_at(obj: Obj) -> str:
    """The boundary; admission in general if no condition names one."""
    condition = find_condition(conditions_of(obj), PODS_REFUSED) or {}
    return str(condition.get("reason") or ADMISSION)
