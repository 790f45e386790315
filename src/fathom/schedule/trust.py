"""What nodes have taught us: starts that fail on one node again and again are the node's fault.

A failed start costs trust, a good one gives some back, time gives back the rest. Less trust is a lower score;
none is a quarantine, seen as the node's reason and lifted by time or by hand. A workload costs a node once;
one that fails on node after node is its own fault. At most a tenth of the nodes is quarantined: when more
seem to fail, it is rather something they share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from fathom.model.objects import Obj
from fathom.model.own.overrides import workloads_of
from fathom.schedule.context import QUARANTINED

# Four different workloads failing within the half-life are a quarantine; two already come last.
FAILED_COSTS = 30
STARTED_GIVES = 15
HALF_LIFE_S = 600
# So little is forgotten altogether, and scores see steps of this size: passes are not made anew every second.
FORGIVEN = 5

# A workload that has failed on this many nodes is to blame for it itself.
NODES_BLAMED_MAX = 2
WORKLOADS_MAX = 1000  # Of which is remembered where they failed.
QUARANTINED_SHARE = 10

# Why a container waits, when it is its node or its own fault that it does. (Crashing is mostly its own.)
FAILING = frozenset(
    {
        "CreateContainerError",
        "CreatePodSandboxError",
        "ErrImagePull",
        "ImagePullBackOff",
        "RunContainerError",
    }
)
# Why a node turned a pod away that was bound to it.
TURNED_AWAY = frozenset({"NodeAffinity", "OutOfcpu", "OutOfmemory", "OutOfpods", "UnexpectedAdmissionError"})


class Lost(msgspec.Struct, frozen=True):
    """Trust that a node has lost, as of a moment."""

    points: int = 0
    at_s: int = 0
    blamed: tuple[str, ...] = ()  # Workloads that failed there, since it was last trusted in full.


def after_failure(lost: Lost, workload: str, *, now_s: int) -> Lost:
    """A pod of the workload did not start there."""
    now = faded(lost, now_s=now_s)
    if workload in now.blamed:
        return now
    points = min(QUARANTINED, now.points + FAILED_COSTS)
    return Lost(points, now_s, tuple(sorted({*now.blamed, workload})))


def after_start(lost: Lost, *, now_s: int) -> Lost:
    now = faded(lost, now_s=now_s)
    points = max(0, now.points - STARTED_GIVES)
    return Lost(points, now_s, now.blamed if points else ())


def faded(lost: Lost, *, now_s: int) -> Lost:
    """What is left of it by now: half after each half-life, in whole numbers."""
    halves, rest_s = divmod(max(0, now_s - lost.at_s), HALF_LIFE_S)
    left = lost.points >> min(halves, 32)
    left -= left * rest_s // (2 * HALF_LIFE_S)
    return Lost(left, now_s, lost.blamed) if left > FORGIVEN else Lost(0, now_s)


def start_outcome(before: Obj | None, after: Obj) -> Literal["started", "failed"] | None:
    """What a change of a pod says about its start, if it is news."""
    if not (after.get("spec") or {}).get("nodeName"):
        return None
    old, new = _says(before) if before is not None else None, _says(after)
    return new if new != old else None


def _says(pod: Obj) -> Literal["started", "failed"] | None:
    status = pod.get("status") or {}
    if status.get("phase") == "Failed" and status.get("reason") in TURNED_AWAY:
        return "failed"
    states = list(_states(status))
    if any((state.get("waiting") or {}).get("reason") in FAILING for state in states):
        return "failed"
    return "started" if any(state.get("running") for state in states) else None


def _states(status: Obj) -> Iterator[Obj]:
    for listed in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(listed) or ():
            yield one.get("state") or {}


class Trust:
    """What all nodes have lost, as rules read it: node -> points. Another mapping when it changes."""

    def __init__(self) -> None:
        self.lost: dict[str, int] = {}
        self._nodes: dict[str, Lost] = {}  # Only those that have lost some.
        self._failed: dict[
            str, tuple[str, ...]
        ] = {}  # Workload -> nodes it failed on, oldest workload first.

    def observe(self, before: Obj | None, after: Obj, *, now_s: int, nodes: int) -> bool:
        """A pod changed, in a cluster of so many nodes. Whether trust did."""
        outcome = start_outcome(before, after)
        if outcome is None:
            return False
        node = str(after["spec"]["nodeName"])
        known = self._nodes.get(node)
        if outcome == "started":
            if known is not None:
                self._nodes[node] = after_start(known, now_s=now_s)
        elif self._is_nodes_fault(_workload(after), node):
            self._nodes[node] = after_failure(known or Lost(), _workload(after), now_s=now_s)
        return self.fade(now_s=now_s, nodes=nodes)

    def _is_nodes_fault(self, workload: str, node: str) -> bool:
        failed = tuple(dict.fromkeys((*self._failed.pop(workload, ()), node)))[: NODES_BLAMED_MAX + 1]
        self._failed[workload] = failed
        if len(self._failed) > WORKLOADS_MAX:
            del self._failed[next(iter(self._failed))]
        return node in failed[:NODES_BLAMED_MAX]

    def fade(self, *, now_s: int, nodes: int) -> bool:
        """Time has passed. Whether any rule would notice."""
        if not self._nodes and not self.lost:
            return False
        faint = {node: faded(one, now_s=now_s) for node, one in sorted(self._nodes.items())}
        self._nodes = {node: self._nodes[node] for node, one in faint.items() if one.points}
        lost = _braked({node: _in_steps(one.points) for node, one in faint.items() if one.points}, nodes)
        changed = lost != self.lost
        if changed:
            self.lost = lost
        return changed

    def pardon(self, node: str, *, now_s: int, nodes: int) -> bool:
        """Somebody has repaired it."""
        return self._nodes.pop(node, None) is not None and self.fade(now_s=now_s, nodes=nodes)


def _workload(pod: Obj) -> str:
    meta = pod.get("metadata") or {}
    return f"{meta.get('namespace')}/{workloads_of(pod)[-1]}"


def _braked(lost: dict[str, int], nodes: int) -> dict[str, int]:
    """At most a tenth of the nodes in quarantine, and always one; the others only come last."""
    over = [node for node, points in lost.items() if points >= QUARANTINED]
    for node in over[max(1, nodes // QUARANTINED_SHARE) :]:
        lost[node] = QUARANTINED - FORGIVEN
    return lost


def _in_steps(points: int) -> int:
    return points // FORGIVEN * FORGIVEN
