"""Deployments with strategy Recreate: no pod of a new revision runs beside one of an old revision."""

from __future__ import annotations

from fathom.model.objects import Key, Obj, lookup, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.resource_names import DEPLOYMENTS, REPLICA_SETS
from fathom.sim.checkers.workloads import PODS, owner_uid
from fathom.sim.world.invariants import Checker, Finding, Found, Seen


class OneRevisionAtATime(Checker):
    """A terminating pod still counts: two at once may write to one disk. A pod whose create arrives after its
    sender gave up on it and went on does not count."""

    name = "one revision at a time"
    resources = frozenset({PODS, REPLICA_SETS, DEPLOYMENTS})

    def __init__(self) -> None:
        self._recreated: set[str] = set()  # UIDs of Deployments.
        self._deployment_of: dict[str, str] = {}  # ReplicaSet's UID -> its Deployment's.
        self._live_pods: dict[str, dict[Key, str]] = {}  # Deployment's UID -> live pods -> ReplicaSet.

    def commit(self, change: Seen) -> Found:
        if change.resource == DEPLOYMENTS and change.old is None and change.new is not None:
            if lookup(change.new, "spec", "strategy", "type") == "Recreate":
                self._recreated.add(uid_of(change.new))
        elif change.resource == REPLICA_SETS and change.new is not None:
            self._deployment_of.setdefault(uid_of(change.new), owner_uid(change.new))
        elif change.resource == PODS:
            return self._pod_changed(change)
        return None

    def _pod_changed(self, change: Seen) -> Found:
        own_set = owner_uid(change.new or change.old or {})
        deployment = self._deployment_of.get(own_set, "")
        if deployment not in self._recreated:
            return None
        live = self._live_pods.setdefault(deployment, {})
        if not _runs(change.new):
            live.pop(change.key, None)
            return None
        old_pods = [key.name for key, owner in live.items() if owner != own_set]
        live[change.key] = own_set
        if change.old is not None or change.late or not old_pods:
            return None
        paths = tuple(f"{PODS}/{change.key.namespace}/{name}" for name in old_pods)
        return Finding(
            f"{change.key.name} was created, but {', '.join(old_pods)} of an older revision still run", paths
        )


def _runs(pod: Obj | None) -> bool:
    return pod is not None and lookup(pod, "status", "phase") not in TERMINAL_PHASES
