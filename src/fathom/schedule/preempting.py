"""Preemption carried out: whom to ask to leave is decided elsewhere (`preempt`), here it is asked.

    room is claimed in our table ──> the pod says where it is nominated ──> victims say why they go,
                                                                            and are deleted, by UID
                                                                              └─ each one gone wakes the pod

It destroys, so it needs a fresh view. It is repeated safely: a victim that is leaving is not asked again, and
a namesake made since is not hit. The room is the pod's by claim and priority; the ledger has the last word.
"""

from __future__ import annotations

import asyncio

import msgspec

from fathom.cache.freshness import NoOlderThan, Unmet, unmet
from fathom.cache.snapshot import Snapshot
from fathom.cache.written import WriteLog
from fathom.client.api import Api
from fathom.client.outcomes import Committed, Conflict, Outcome, Rejected
from fathom.model.objects import Key, Obj, key_of, lookup
from fathom.schedule.preempt import Budget, Preemption, Victim
from fathom.schedule.reading import selector_of
from fathom.schedule.sending import PODS

# Older views do not evict anybody.
FRESH_S = 10.0
FRESH_KINDS = ("Pod", "Node", "PodDisruptionBudget")
NEED = NoOlderThan(FRESH_S, FRESH_KINDS)


class Evicted(msgspec.Struct, frozen=True):
    victim: Victim
    outcome: str  # 'gone', 'asked', or what was answered instead.


def not_fresh(snapshot: Snapshot, *, now_s: float) -> list[Unmet]:
    kinds = tuple(kind for kind in FRESH_KINDS if kind in snapshot.kinds)
    return unmet([NoOlderThan(FRESH_S, kinds)], snapshot, WriteLog(), now_s=now_s)


def budget_of(obj: Obj) -> Budget:
    status = obj.get("status") or {}
    return Budget(
        key_of(obj),
        selector_of(lookup(obj, "spec", "selector") or {}),
        int(status.get("disruptionsAllowed") or 0),
        tuple(sorted(status.get("disruptedPods") or ())),
    )


async def carry_out(api: Api, key: Key, uid: str, found: Preemption, *, now: str) -> list[Evicted]:
    """Nomination first: whoever looks at the victims' end can tell for whom it was."""
    patch = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": found.node}}
    await api.patch(PODS, key.namespace, key.name, patch, subresource="status")
    outcomes = await asyncio.gather(*(_ask(api, one, now) for one in found.victims))
    return [Evicted(one, _said(outcome)) for one, outcome in zip(found.victims, outcomes, strict=True)]


async def _ask(api: Api, victim: Victim, now: str) -> Outcome:
    """Why it goes is written on it: a Job may say that such an end is no failure. If that cannot be said, it
    is asked to go all the same."""
    key = victim.key
    said = {
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": victim.reason, "lastTransitionTime": now,
    }  # fmt: skip
    patch = {"metadata": {"uid": victim.uid}, "status": {"conditions": [said]}}
    media = "application/strategic-merge-patch+json"
    await api.patch(PODS, key.namespace, key.name, patch, subresource="status", media=media)
    return await api.delete(PODS, key.namespace, key.name, uid=victim.uid)


def _said(outcome: Outcome) -> str:
    match outcome:
        case Committed():
            return "asked"
        case Rejected(code=404) | Conflict():
            return "gone"
        case Rejected(message=message):
            return message
    return "unknown"
