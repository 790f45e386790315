"""Conditions that show in an object's status how its reconciling goes, so that nobody needs logs for it.

Two conditions that tools already understand (kstatus), each with the generation it is about:

    Reconciling=True   it is being retried, or held; the reason says what it waits for
    Stalled=True       it was given up; the reason says why; a change, or time, wakes it

An absent or False condition means that reconciling works.
"""

from __future__ import annotations

from fathom.control.reconcile_result import Failure
from fathom.model.conditions import Status, conditions_of, find_condition, set_condition
from fathom.model.objects import Obj, metadata

RECONCILING, STALLED = "Reconciling", "Stalled"
OURS = (RECONCILING, STALLED)

MESSAGE_LENGTH_MAX = 1000  # metav1.Condition allows 32768; a person reads less.


def progress(obj: Obj, failure: Failure | None, *, given_up: bool, now: str) -> list[Obj]:
    """The object's conditions, with ours up to date. Equal to the present ones if nothing is new."""
    before = conditions_of(obj)
    if failure is None:
        return _all_well(obj, before, now)
    conditions = _with_condition(obj, before, STALLED if given_up else RECONCILING, "True", failure, now=now)
    opposite = RECONCILING if given_up else STALLED
    if find_condition(before, opposite) is None:
        return conditions
    return _with_condition(obj, conditions, opposite, "False", failure, now=now)


def _all_well(obj: Obj, before: list[Obj], now: str) -> list[Obj]:
    """Written only for objects that have one of our conditions already."""
    well = Failure("Reconciled", "")
    for type_ in OURS:
        condition = find_condition(before, type_)
        if condition is not None and condition.get("status") != "False":
            before = _with_condition(obj, before, type_, "False", well, now=now)
    return before


def _with_condition(
    obj: Obj, before: list[Obj], type_: str, status: Status, failure: Failure, *, now: str
) -> list[Obj]:
    previous = find_condition(before, type_)
    # Some kinds (Deployments, ReplicaSets) keep no generation in a condition. A condition that names it
    # nevertheless never equals what the server has kept, and would be written with every pass.
    named = previous is None or "observedGeneration" in previous
    return set_condition(
        before,
        type=type_,
        status=status,
        reason=failure.reason,
        message=failure.message[:MESSAGE_LENGTH_MAX],
        observed_generation=metadata(obj).get("generation") if named else None,
        now=now,
    )


def differs_in_words_only(before: list[Obj], after: list[Obj]) -> bool:
    """Whether only the messages differ, for example in numbers."""
    return _without_messages(before) == _without_messages(after)


def _without_messages(conditions: list[Obj]) -> list[Obj]:
    return [
        {name: value for name, value in condition.items() if name != "message"} for condition in conditions
    ]


def is_only_progress(before: Obj, after: Obj) -> bool:
    """Whether the change consists only of our own progress conditions. Such a change must not wake the key: a
    retry that reports why it waits would wake itself."""
    if _ours(before) == _ours(after):
        return False
    return _without_ours(before) == _without_ours(after)


def _ours(obj: Obj) -> list[Obj]:
    return [condition for condition in conditions_of(obj) if condition.get("type") in OURS]


def _without_ours(obj: Obj) -> Obj:
    meta = {
        name: value
        for name, value in metadata(obj).items()
        if name not in {"resourceVersion", "managedFields"}
    }
    status = obj.get("status")
    other_conditions = [condition for condition in conditions_of(obj) if condition.get("type") not in OURS]
    shown = (
        {**status, "conditions": other_conditions}
        if isinstance(status, dict)
        else {"conditions": other_conditions}
    )
    return {**obj, "metadata": meta, "status": shown}
