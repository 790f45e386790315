"""All nodes of a scenario as one process: it reports for the pods of every node what an agent would.

The Node objects are the scenario's: it makes them with the room, labels and taints that a story needs, and
deletes and replaces them. A real agent owns its Node: it would write them over. Scenarios about agents, and
of whole clusters, run the real agents (docs/decisions/0028).

A pod starts when it is bound, is ready at once, ends when its annotation says so, and is removed when it is
deleted and its grace period is over. Other annotations say that it never gets ready, or fails at its end.
`NodeTroubles` adds failures: slow images, failing probes, dead nodes.
"""

from __future__ import annotations

import zlib
from datetime import datetime
from typing import ClassVar

import msgspec

from fathom.cache.needs import NoOlderThan
from fathom.control.kit import Kit
from fathom.control.plan import NOTHING, Delete, Plan, WriteStatus, target
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import POD, Primary, Watch
from fathom.model.conditions import conditions_of, is_true, set_condition
from fathom.model.objects import Key, Obj, is_deleting, lookup, metadata, uid_of

# Annotations of pods.
RUNS_S = "fathom.dev/runs-seconds"  # How long the pod runs. Without it, for ever.
NEVER_READY = "fathom.dev/never-ready"  # Not '': its probe never passes.
FAILS_AT = "fathom.dev/fails-at"  # Pods of these completion indexes fail at their end: "0,2".
INDEX = "batch.kubernetes.io/job-completion-index"
ENDED = frozenset({"Succeeded", "Failed"})

# How often pods are checked while something about them depends on time.
LOOK_S = 0.5
FRESH_S = 60.0


class NodeTroubles(msgspec.Struct):
    """Conditions of nodes that are not in the API. The scenario sets them."""

    image_s: float = 0.0  # How long a pod's image takes to pull.
    probes_fail: bool = False
    dead: dict[str, None] = msgspec.field(default_factory=dict)  # Nodes that report nothing.

    @property
    def bad(self) -> bool:
        return bool(self.image_s or self.probes_fail or self.dead)

    def clear_up(self) -> None:
        self.image_s, self.probes_fail = 0.0, False
        self.dead.clear()


NO_TROUBLES = NodeTroubles()


def plan_pod(pod: Obj, *, now: str, troubles: NodeTroubles = NO_TROUBLES) -> Plan:
    phase, node = lookup(pod, "status", "phase"), lookup(pod, "spec", "nodeName")
    if not node or node in troubles.dead:
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
        if troubles.image_s and _age_s(pod, now) < troubles.image_s:
            return NOTHING
        return Plan(statuses=(_phase(pod, "Running", now, ready=_passes(pod, troubles)),), why="started")
    if phase == "Running" and _is_done(pod, now):
        end = "Failed" if _fails(pod) else "Succeeded"
        return Plan(statuses=(_phase(pod, end, now),), why="done")
    if phase == "Running" and is_true(pod, "Ready") != _passes(pod, troubles):
        return Plan(statuses=(_probed(pod, _passes(pod, troubles), now),), why="a probe's result changed")
    return NOTHING


def _passes(pod: Obj, troubles: NodeTroubles) -> bool:
    """Whether its readiness probe passes."""
    return not troubles.probes_fail and not _annotations(pod).get(NEVER_READY)


def _fails(pod: Obj) -> bool:
    notes = _annotations(pod)
    return INDEX in notes and notes[INDEX] in notes.get(FAILS_AT, "").split(",")


def waits(pod: Obj) -> bool:
    """Whether the pod changes by the passing of time alone."""
    phase = lookup(pod, "status", "phase")
    return is_deleting(pod) or (phase == "Running" and RUNS_S in _annotations(pod))


def _is_over(pod: Obj, now: str) -> bool:
    """Whether the grace period is over: the server sets `deletionTimestamp` to its end."""
    return _seconds_between(str(metadata(pod)["deletionTimestamp"]), now) >= 0


def _is_done(pod: Obj, now: str) -> bool:
    runs_s, began = _annotations(pod).get(RUNS_S), lookup(pod, "status", "startTime")
    return bool(runs_s and began) and _seconds_between(str(began), now) >= float(str(runs_s))


def _age_s(pod: Obj, now: str) -> float:
    return _seconds_between(str(metadata(pod)["creationTimestamp"]), now)


def _seconds_between(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def _phase(pod: Obj, phase: str, now: str, *, ready: bool = True) -> WriteStatus:
    runs = phase == "Running"
    status: Obj = {"phase": phase, "conditions": _ready(pod, runs and ready, now)}
    if runs:
        status = {**status, "startTime": now, "podIP": address_of(pod)}
    return WriteStatus(target("Pod", pod), status)


def _probed(pod: Obj, ready: bool, now: str) -> WriteStatus:
    return WriteStatus(target("Pod", pod), {"conditions": _ready(pod, ready, now)})


def _ready(pod: Obj, ready: bool, now: str) -> list[Obj]:
    return set_condition(
        conditions_of(pod),
        type="Ready",
        status="True" if ready else "False",
        reason="Started" if ready else "NotReady",
        now=now,
    )


def address_of(pod: Obj) -> str:
    number = zlib.crc32(uid_of(pod).encode())
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _annotations(pod: Obj) -> dict[str, str]:
    return metadata(pod).get("annotations") or {}


class SimulatedNodes:
    name = "agent"
    watches: ClassVar[tuple[Watch, ...]] = (Primary(POD, conditions=False),)

    def __init__(self, kit: Kit, troubles: NodeTroubles = NO_TROUBLES) -> None:
        self._kit = kit
        self._weather = troubles

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        pod = view.get("Pod", key)
        if pod is None:
            return ReconcileResult.never()
        plan = plan_pod(pod, now=self._kit.now(), troubles=self._weather)
        applied = await self._kit.apply(key, plan, seen=view)
        look = waits(pod) or self._weather.bad
        return ReconcileResult.after(applied, in_s=LOOK_S if look else None, why="the pod changes with time")


class SimulatedNodesWith:
    """Agents with a given `NodeTroubles`, as a controller for `run_controllers`."""

    name = SimulatedNodes.name
    watches = SimulatedNodes.watches

    def __init__(self, troubles: NodeTroubles) -> None:
        self._weather = troubles

    def __call__(self, kit: Kit) -> SimulatedNodes:
        return SimulatedNodes(kit, self._weather)
