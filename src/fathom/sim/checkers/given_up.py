"""Who gives a rollout up has seen no progress for a while, however long the rollout has lasted in all."""

from __future__ import annotations

from fathom.controllers.pod_states import is_active, is_ready
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, lookup, uid_of
from fathom.model.resource_names import DEPLOYMENTS, REPLICA_SETS
from fathom.sim.checkers.workloads import PODS, owner_uid
from fathom.sim.world.invariants import Checker, Found, Seen

# A pod may have become ready just before, so that nobody has heard of it.
HEARD_S = 10.0


class GivenUpWithoutProgress(Checker):
    """A Deployment is called late when no pod of it has become ready for its progress deadline. Clocks may
    differ, and a new leader may be wrong about the time before its term: half of the deadline has passed in
    any case. A pod that was ready before does not count."""

    name = "a rollout is given up only without progress"
    resources = frozenset({PODS, REPLICA_SETS, DEPLOYMENTS})

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}  # ReplicaSet's UID -> its Deployment's.
        self._was_ready: set[str] = set()  # UIDs of pods.
        self._progressed_s: dict[str, float] = {}  # Deployment's UID -> when a pod of it became ready last.

    def commit(self, change: Seen) -> Found:
        new = change.new
        if new is None:
            return None
        if change.resource == REPLICA_SETS:
            self._owners[uid_of(new)] = owner_uid(new)
        elif change.resource == PODS:
            if is_active(new) and is_ready(new) and uid_of(new) not in self._was_ready:
                self._was_ready.add(uid_of(new))
                self._progressed_s[self._owners.get(owner_uid(new), "")] = change.at_s
        elif _is_late(new) and not (change.old and _is_late(change.old)):
            deadline_s = float(lookup(new, "spec", "progressDeadlineSeconds") or 0)
            since_s = change.at_s - self._progressed_s.get(uid_of(new), -deadline_s)
            if since_s < deadline_s / 2 - HEARD_S:
                return f"{change.by} gave {change.key.name} up {since_s:.0f} s after another pod became ready"
        return None


def _is_late(deployment: Obj) -> bool:
    condition = find_condition(conditions_of(deployment), "Progressing") or {}
    return condition.get("reason") == "ProgressDeadlineExceeded"
