"""Evicts the victims of a preemption; `schedule/decide/preempt.py` chooses them.

    room is claimed in our table ──> the pod's status gets its nominated node ──> victims get a condition
                                                                                  and are deleted, by UID;
                                                                                  each one gone wakes the pod

Eviction is destructive, so it needs a fresh view; and requests may take long, so nobody is evicted for a pod
that is known to be gone or bound by then. It is safe to repeat: a victim that is terminating is not evicted
again, and a later pod of the same name is not hit. Claim and priority keep the room for the pod; the ledger
decides at the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from fathom.cache.freshness import Unmet, unmet
from fathom.cache.needs import NoOlderThan
from fathom.cache.own_writes import WriteLog
from fathom.cache.snapshot import Snapshot
from fathom.client.api import Api
from fathom.client.outcomes import Committed, Conflict, Outcome, Rejected
from fathom.model.conditions import (
    DISRUPTION_TARGET,
    Status,
    conditions_of,
    find_condition,
    is_true,
    set_condition,
)
from fathom.model.decision import Result
from fathom.model.errors import ApiError
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.resources import PODS
from fathom.schedule.decide.preempt import DisruptionBudget, Preemption, Victim
from fathom.schedule.decide.read_shape import selector_of

# Nothing is evicted while the view of one of these is too old.
FRESH_KINDS = ("Pod", "Node", "PodDisruptionBudget")

# The agent may write the pod's status at any time, but not each time.
WITHDRAW_ATTEMPTS = 3
DELETE_ATTEMPTS = 2

NOT_NEEDED = "not evicted: the pod that was to get its room does not wait any more"


class Evicted(msgspec.Struct, frozen=True):
    victim: Victim
    outcome: str  # 'gone', 'evicted', NOT_NEEDED, or the server's other answer.
    result: Result = "committed"
    revision: int = 0  # Of the pod, as the server answered.


def not_fresh(snapshot: Snapshot, *, now_s: float) -> list[Unmet]:
    kinds = tuple(kind for kind in FRESH_KINDS if kind in snapshot.kinds)
    return unmet([NoOlderThan(FRESH_S, kinds)], snapshot, WriteLog(), now_s=now_s)


def budget_of(obj: Obj) -> DisruptionBudget:
    status = obj.get("status") or {}
    return DisruptionBudget(
        key_of(obj),
        selector_of(lookup(obj, "spec", "selector") or {}),
        int(status.get("disruptionsAllowed") or 0),
        tuple(sorted(status.get("disruptedPods") or ())),
    )


# The pod in the cache.
Find = Callable[[Key], Obj | None]
# A timestamp for conditions.
Now = Callable[[], str]


async def carry_out(
    api: Api, key: Key, uid: str, preemption: Preemption, *, find: Find, waits: Callable[[], bool], now: Now
) -> list[Evicted]:
    """Nominate first, so that a reader who sees the evictions can tell which pod they were for. The answer
    tells whether the pod still waits; `waits`: whether it does in our view, which may be older. `api` names
    the decision with each of these writes."""
    patch = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": preemption.node}}
    nominated = await api.patch(PODS, key.namespace, key.name, patch, subresource="status")
    if not await _may_wait(api, key, uid, nominated):
        return [_spared(victim) for victim in preemption.victims]
    outcomes = await asyncio.gather(
        *(_evict(api, victim, find(victim.key), waits, now) for victim in preemption.victims)
    )
    return [
        _spared(victim) if outcome is None else Evicted(victim, *_outcome(outcome))
        for victim, outcome in zip(preemption.victims, outcomes, strict=True)
    ]


async def _may_wait(api: Api, key: Key, uid: str, nominated: Outcome) -> bool:
    """Whether the pod waits for a node, by the answer to its nomination, or by a read where that does not
    tell; True if neither does."""
    if isinstance(nominated, Committed):
        return _is_waiting(nominated.obj, uid)
    if isinstance(nominated, Rejected) and nominated.code == 404:
        return False
    try:
        return _is_waiting(await api.get(PODS, key.namespace, key.name), uid)
    except ApiError:
        return True


def _is_waiting(pod: Obj | None, uid: str) -> bool:
    return (
        pod is not None
        and uid_of(pod) == uid
        and not is_deleting(pod)
        and not lookup(pod, "spec", "nodeName")
    )


def _spared(victim: Victim) -> Evicted:
    return Evicted(victim, NOT_NEEDED, "conflict")


async def _evict(
    api: Api, victim: Victim, pod: Obj | None, waits: Callable[[], bool], now: Now
) -> Outcome | None:
    """Set the condition DisruptionTarget, by which a Job may not count the end as a failure, then delete. If
    the condition cannot be written, the pod is deleted all the same. None: nobody needs that any more."""
    if not waits():
        return None
    if isinstance(await _set_disruption_target(api, victim, pod, now), Conflict):
        await _set_disruption_target(api, victim, await _read(api, victim.key), now)
    if not waits():
        await _withdraw_disruption_target(api, victim, now)
        return None
    outcome = await _delete(api, victim)
    if isinstance(outcome, Conflict | Rejected):
        await _withdraw_disruption_target(api, victim, now)
    return outcome


async def _delete(api: Api, victim: Victim) -> Outcome:
    """A conflict may mean that the pod of this name is another one by now, or only that others wrote at the
    same time: the pod itself tells."""
    for _ in range(DELETE_ATTEMPTS):
        outcome = await api.delete(PODS, victim.key.namespace, victim.key.name, uid=victim.uid)
        if not isinstance(outcome, Conflict) or outcome.causes:
            return outcome
        try:
            pod = await api.get(PODS, victim.key.namespace, victim.key.name)
        except ApiError:
            return outcome
        if pod is None or uid_of(pod) != victim.uid:
            return Rejected(404, "NotFound", "gone")
    return outcome


async def _read(api: Api, key: Key) -> Obj | None:
    try:
        return await api.get(PODS, key.namespace, key.name)
    except ApiError:
        return None


async def _set_disruption_target(api: Api, victim: Victim, pod: Obj | None, now: Now) -> Outcome | None:
    """Write the condition once, on the pod at the revision that was read, so that its first time stays."""
    if pod is None or uid_of(pod) != victim.uid or is_deleting(pod) or is_true(pod, DISRUPTION_TARGET):
        return None
    return await _write_disruption_target(api, pod, status="True", message=victim.reason, now=now)


async def _withdraw_disruption_target(api: Api, victim: Victim, now: Now) -> None:
    """The victim stays: it must not look evicted for ever. Nothing is written over the mark of another."""
    for _ in range(WITHDRAW_ATTEMPTS):
        pod = await _read(api, victim.key)
        if pod is None or uid_of(pod) != victim.uid or is_deleting(pod):
            return
        mark = find_condition(conditions_of(pod), DISRUPTION_TARGET) or {}
        if (mark.get("status"), mark.get("message")) != ("True", victim.reason):
            return
        outcome = await _write_disruption_target(api, pod, status="False", message=NOT_NEEDED, now=now)
        if not isinstance(outcome, Conflict):
            return


async def _write_disruption_target(api: Api, pod: Obj, *, status: Status, message: str, now: Now) -> Outcome:
    conditions = set_condition(
        [], type=DISRUPTION_TARGET, status=status, reason="PreemptionByScheduler", message=message, now=now()
    )
    guard = {"uid": uid_of(pod), "resourceVersion": metadata(pod).get("resourceVersion")}
    key = key_of(pod)
    return await api.patch(
        PODS,
        key.namespace,
        key.name,
        {"metadata": guard, "status": {"conditions": conditions}},
        subresource="status",
        media="application/strategic-merge-patch+json",
    )


def _outcome(outcome: Outcome) -> tuple[str, Result, int]:
    match outcome:
        case Committed():
            return "evicted", "committed", outcome.revision
        case Rejected(code=404):
            return "gone", "settled", 0
        case Conflict(why=why):
            return why, "conflict", 0
        case Rejected(message=message):
            return message, "rejected", 0
    return "unknown", "unknown", 0
