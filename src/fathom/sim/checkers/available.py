"""Pods that count as available have been ready for `minReadySeconds`.

That time is counted by wall clocks, as in Kubernetes: from the time that the agent wrote, which may be stored
later, and by a controller whose clock may be ahead. And by what its view shows:

    1. A pod is ready for two seconds, and is deleted. 2. A new leader has not heard of that. 3. When
    `minReadySeconds` have passed since 1, it counts the pod as available.

So a pod that is no longer ready grows older in each view that lacks its end. A decision on record says what
its view has; a Deployment adds up what its ReplicaSets report, which others decided.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from fathom.controllers.pod_states import is_active, is_ready, seconds
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.decision import Decision, Outcome
from fathom.model.objects import Obj, lookup, uid_of
from fathom.model.resource_names import DEPLOYMENTS, REPLICA_SETS
from fathom.model.times import SECOND_NS
from fathom.sim.checkers.decisions import decision_of
from fathom.sim.checkers.workloads import PODS, owner_uid
from fathom.sim.world.faults import Skew
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.process import EPOCH_NS

if TYPE_CHECKING:
    from fathom.sim.world.process import SimProcess
    from fathom.sim.world.world import World

# Times are recorded in whole seconds, by two writers.
ROUNDED_S = 2.0
# The cache from which a status was computed may be this old, where no decision on record says how old it is.
LATELY_S = 60.0


class _ReadyPeriod(msgspec.Struct):
    since_s: float
    until_s: float = math.inf
    until_revision: float = math.inf  # Of the change that ended it.


class _Pod(msgspec.Struct):
    owners: dict[str, None]  # All it ever had: a view may lack that it was let go.
    ready: list[_ReadyPeriod]  # In order; the last one may not have ended.


class AvailableIsEarned(Checker):
    """A ReplicaSet or Deployment never counts more pods as available than had been ready for long enough, in
    the view that it was decided from."""

    name = "only pods ready for minReadySeconds are available"
    resources = frozenset({PODS, REPLICA_SETS, DEPLOYMENTS})

    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}  # By UID; deleted pods stay.
        self._deployments_of: dict[str, dict[str, None]] = {}  # ReplicaSet's UID -> all it ever belonged to.
        self._needed_s: dict[str, float] = {}  # UID -> the smallest `minReadySeconds` it ever had.
        self._views: dict[str, int] = {}  # Id of a decision -> the revision up to which it saw all pods.
        self._world: World | None = None

    def begin(self, world: World) -> None:
        self._world = world
        world.engine.record_readers.append(self)

    def commit(self, change: Seen) -> Found:
        if change.resource == PODS:
            self._follow(change)
            return None
        if change.new is None:
            return None
        if change.resource == REPLICA_SETS:
            self._deployments_of.setdefault(uid_of(change.new), {})[owner_uid(change.new)] = None
        uid, reported = uid_of(change.new), _available(change.new)
        asked_s = float(lookup(change.new, "spec", "minReadySeconds") or 0)
        needed_s = self._needed_s[uid] = min(asked_s, self._needed_s.get(uid, asked_s))
        if reported <= _available(change.old):
            return None
        least_s = needed_s - ROUNDED_S - self._ahead_s(change.at_s)
        actual = sum(self._ready_s(pod, change) >= least_s for pod in self._pods_of(uid))
        return (
            f"{change.path} reports {reported} available pods; {actual} were ready for long enough"
            if reported > actual
            else None
        )

    def _pods_of(self, uid: str) -> list[_Pod]:
        return [
            pod
            for pod in self._pods.values()
            if uid in pod.owners or any(uid in self._deployments_of.get(owner, ()) for owner in pod.owners)
        ]

    def _ready_s(self, pod: _Pod, change: Seen) -> float:
        """For how long it was ready in the view that the change was decided from; negative if it was not."""
        view = self._views.get(decision_of(change) or "")
        shown = (
            period.since_s
            for period in pod.ready
            if (period.until_s > change.at_s - LATELY_S if view is None else period.until_revision > view)
        )
        return change.at_s - min(shown, default=math.inf)

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
        pod = self._pods.setdefault(uid_of(obj), _Pod({}, []))
        if owner := owner_uid(obj):
            pod.owners[owner] = None
        ready = change.new is not None and is_active(change.new) and is_ready(change.new)
        period = pod.ready[-1] if pod.ready and pod.ready[-1].until_s == math.inf else None
        if ready and period is None:
            pod.ready.append(_ReadyPeriod(min(change.at_s, self._written_s(obj))))
        elif not ready and period is not None:
            period.until_s, period.until_revision = change.at_s, change.revision

    # Called by the processes' journals.

    def decided(self, process: SimProcess, decision: Decision) -> None:
        if decision.subject.resource == REPLICA_SETS and (pods := decision.seen.get("Pod")) is not None:
            self._views[decision.id] = pods.revision

    def concluded(self, process: SimProcess, outcome: Outcome) -> None: ...


def _available(obj: Obj | None) -> int:
    return int(lookup(obj, "status", "availableReplicas") or 0)
