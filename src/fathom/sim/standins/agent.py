"""Runs the pods of all nodes, without any process behind them. Stands in for the real agents.

A pod starts when it is bound, is ready at once, ends when its annotation says so, and goes when it is deleted
and its time of grace is over.
"""

from __future__ import annotations

import zlib
from datetime import datetime
from typing import ClassVar

from fathom.cache.freshness import NoOlderThan
from fathom.control.again import Again
from fathom.control.kit import Kit
from fathom.control.plan import NOTHING, Delete, Plan, WriteStatus, target
from fathom.control.watches import POD, Primary, Watch
from fathom.model.conditions import conditions_of, set_condition
from fathom.model.objects import Key, Obj, is_deleting, lookup, metadata, uid_of

RUNS_S = "fathom.dev/runs-seconds"  # Annotation: how long it has work for. Without it, for ever.
ENDED = frozenset({"Succeeded", "Failed"})

# Pods are looked at this often while something about them depends on time.
LOOK_S = 0.5
FRESH_S = 60.0


def plan_pod(pod: Obj, *, now: str) -> Plan:
    phase = lookup(pod, "status", "phase")
    if not lookup(pod, "spec", "nodeName"):
        return NOTHING
    if is_deleting(pod):
        if phase not in ENDED:
            return (
                Plan(statuses=(_phase(pod, "Failed", now),), why="killed") if _is_over(pod, now) else NOTHING
            )
        return Plan(
            deletes=(Delete(target("Pod", pod)),), needs=(NoOlderThan(FRESH_S, ("Pod",)),), why="gone"
        )
    if phase == "Pending":
        return Plan(statuses=(_phase(pod, "Running", now),), why="started")
    if phase == "Running" and _is_done(pod, now):
        return Plan(statuses=(_phase(pod, "Succeeded", now),), why="done")
    return NOTHING


def waits(pod: Obj) -> bool:
    """Whether time alone will change something."""
    phase = lookup(pod, "status", "phase")
    return is_deleting(pod) or (phase == "Running" and RUNS_S in _annotations(pod))


def _is_over(pod: Obj, now: str) -> bool:
    """Its time of grace: a server writes down when it ends."""
    return _seconds_between(str(metadata(pod)["deletionTimestamp"]), now) >= 0


def _is_done(pod: Obj, now: str) -> bool:
    runs_s, began = _annotations(pod).get(RUNS_S), lookup(pod, "status", "startTime")
    return bool(runs_s and began) and _seconds_between(str(began), now) >= float(str(runs_s))


def _seconds_between(one: str, other: str) -> float:
    return (datetime.fromisoformat(other) - datetime.fromisoformat(one)).total_seconds()


def _phase(pod: Obj, phase: str, now: str) -> WriteStatus:
    ready = set_condition(
        conditions_of(pod),
        type="Ready",
        status="True" if phase == "Running" else "False",
        reason="Started" if phase == "Running" else "Ended",
        now=now,
    )
    status: Obj = {"phase": phase, "conditions": ready}
    if phase == "Running":
        status = {**status, "startTime": now, "podIP": address_of(pod)}
    return WriteStatus(target("Pod", pod), status)


def address_of(pod: Obj) -> str:
    number = zlib.crc32(uid_of(pod).encode())
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _annotations(pod: Obj) -> dict[str, str]:
    return metadata(pod).get("annotations") or {}


class Agent:
    name = "agent"
    watches: ClassVar[tuple[Watch, ...]] = (Primary(POD, conditions=False),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> Again:
        view = self._kit.snapshot()
        pod = view.get("Pod", key)
        if pod is None:
            return Again.never()
        applied = await self._kit.apply(key, plan_pod(pod, now=self._kit.now()), seen=view)
        return Again.after(applied, in_s=LOOK_S if waits(pod) else None, why="a pod's time")
