"""Pods that count as available have been ready for `minReadySeconds`.

That time is counted by wall clocks, as in Kubernetes: from the time that the agent wrote, which may be stored
later, and by a controller whose clock may be ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fathom.controllers.pod_states import is_active, is_ready, seconds
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, lookup, uid_of
from fathom.model.resource_names import DEPLOYMENTS, REPLICA_SETS
from fathom.model.times import SECOND_NS
from fathom.sim.checkers.workloads import PODS, owner_uid
from fathom.sim.world.faults import Skew
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.process import EPOCH_NS

if TYPE_CHECKING:
    from fathom.sim.world.world import World

# Times are recorded in whole seconds, by two writers.
ROUNDED_S = 2.0
# The cache from which a status was computed may be this old.
LATELY_S = 60.0
LONG_AGO_S = -1e9
NEVER_S = -1e9


class _Pod(msgspec.Struct):
    owner: str
    ready_s: float | None = None  # Since when it is ready; None while it is not.
    ready_for_s: float = 0.0  # The longest time that it was ready lately, up to `over_s`.
    over_s: float = LONG_AGO_S


class AvailableIsEarned(Checker):
    """A ReplicaSet or Deployment never counts more pods as available than had lately been ready long
    enough."""

    name = "only pods ready for minReadySeconds are available"
    resources = frozenset({PODS, REPLICA_SETS, DEPLOYMENTS})

    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}  # By UID; deleted pods stay.
        self._deployment_of: dict[str, str] = {}  # ReplicaSet's UID -> its Deployment's.
        self._needed_s: dict[str, float] = {}  # UID -> the smallest `minReadySeconds` it ever had.
        self._world: World | None = None

    def begin(self, world: World) -> None:
        self._world = world

    def commit(self, change: Seen) -> Found:
        if change.resource == PODS:
            self._follow(change)
            return None
        if change.new is None:
            return None
        if change.resource == REPLICA_SETS:
            self._deployment_of.setdefault(uid_of(change.new), owner_uid(change.new))
        uid, reported = uid_of(change.new), _available(change.new)
        asked_s = float(lookup(change.new, "spec", "minReadySeconds") or 0)
        needed_s = self._needed_s[uid] = min(asked_s, self._needed_s.get(uid, asked_s))
        if reported <= _available(change.old):
            return None
        least_s = needed_s - ROUNDED_S - self._ahead_s(change.at_s)
        actual = sum(_was_ready_s(pod, change.at_s) >= least_s for pod in self._pods_of(uid))
        return (
            f"{change.path} reports {reported} available pods; {actual} were ready for long enough"
            if reported > actual
            else None
        )

    def _pods_of(self, uid: str) -> list[_Pod]:
        return [pod for pod in self._pods.values() if uid in {pod.owner, self._deployment_of.get(pod.owner)}]

    def _ahead_s(self, at_s: float) -> float:
        """By how much a wall clock may have been ahead until then."""
        faults = () if self._world is None else self._world.engine.faults.planned
        steps_s = (fault.skew_s for fault in faults if isinstance(fault, Skew) and fault.at_s <= at_s)
        return max((0.0, *steps_s))

    def _written_s(self, pod: Obj) -> float:
        """Since when it is ready, as its agent wrote; infinite if it wrote no time."""
        written = (find_condition(conditions_of(pod), "Ready") or {}).get("lastTransitionTime")
        if written is None or self._world is None:
            return float("inf")
        return seconds(written) - (EPOCH_NS + self._world.engine.began_ns) / SECOND_NS

    def _follow(self, change: Seen) -> None:
        obj = change.new or change.old or {}
        pod = self._pods.setdefault(uid_of(obj), _Pod(owner_uid(obj)))
        ready = change.new is not None and is_active(change.new) and is_ready(change.new)
        if ready and pod.ready_s is None:
            pod.ready_s = min(change.at_s, self._written_s(obj))
        elif not ready and pod.ready_s is not None:
            pod.ready_for_s, pod.over_s = _was_ready_s(pod, change.at_s), change.at_s
            pod.ready_s = None


def _was_ready_s(pod: _Pod, at_s: float) -> float:
    """For how long it was ready lately; `NEVER_S` if it was not."""
    lately_s = pod.ready_for_s if at_s - pod.over_s < LATELY_S else NEVER_S
    return max(lately_s, at_s - pod.ready_s if pod.ready_s is not None else NEVER_S)


def _available(obj: Obj | None) -> int:
    return int(lookup(obj, "status", "availableReplicas") or 0)
