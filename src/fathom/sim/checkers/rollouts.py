"""Rollouts stay within surge and minimum, whatever crashes; autoscalers grow only when all replicas work."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable

import msgspec

from fathom.controllers.deployment.proportions import max_unavailable, most_of, wanted_of
from fathom.controllers.deployment.revisions import HASH_LABEL, size_of, split, template_of
from fathom.controllers.pod_states import is_active, is_ready
from fathom.model.conditions import find_condition
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Obj, is_deleting, key_of, labels_of, lookup, metadata, uid_of
from fathom.model.resource_names import DEPLOYMENTS, REPLICA_SETS
from fathom.sim.checkers.at_rest import AtRest, Objects, of_resource
from fathom.sim.checkers.workloads import PODS, owner_uid
from fathom.sim.world.active_faults import DRIVER
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

# Without faults, every process has seen a change after this time at most.
KNOWN_S = 1.0
# No view that a revision is made smaller from is older, with the time that the request takes.
VIEW_S = FRESH_S + 5.0


class _DeploymentState(msgspec.Struct):
    """One Deployment: the most pods it ever allowed at once, the fewest it ever required, its live pods."""

    most: int
    least: int
    pods: dict[str, Obj]  # Live ones, by name.


class _Rollouts(Checker):
    """Follows the live pods of every Deployment. Earlier specs count too: a request that was sent for one
    cannot be called back. For the same reason a pod is not one too many whose create arrives after its sender
    gave up on it and went on, nor one of a ReplicaSet whose size arrived so late."""

    counts_late = True

    def __init__(self) -> None:
        self._deployments: dict[str, _DeploymentState] = {}  # By the Deployment's UID.
        self._sets: dict[str, str] = {}  # ReplicaSet's UID -> its Deployment's.
        self._selected: dict[str, dict[str, str]] = {}  # ReplicaSet's UID -> the labels of its pods.
        self._late: set[str] = set()  # UIDs of pods.
        self._late_sets: set[str] = set()  # UIDs of ReplicaSets.

    def commit(self, change: Seen) -> Found:
        if change.resource == DEPLOYMENTS and change.new is not None:
            self._note_bounds(change.new)
        elif change.resource == REPLICA_SETS and change.new is not None:
            self._note_owner(change.new)
            self._selected[uid_of(change.new)] = lookup(change.new, "spec", "selector", "matchLabels") or {}
            if change.old is None or size_of(change.old) != size_of(change.new):
                (self._late_sets.add if change.late else self._late_sets.discard)(uid_of(change.new))
        elif change.resource == PODS:
            return self._pod_changed(change)
        return None

    def _note_bounds(self, deployment: Obj) -> None:
        most, least = most_of(deployment), wanted_of(deployment) - max_unavailable(deployment)
        state = self._deployments.setdefault(uid_of(deployment), _DeploymentState(most, least, {}))
        state.most, state.least = max(most, state.most), min(least, state.least)

    def _note_owner(self, replica_set: Obj) -> None:
        """A ReplicaSet that belongs to nobody has no bounds; who adopts it gets its pods, however many."""
        uid, owner = uid_of(replica_set), owner_uid(replica_set) or uid_of(replica_set)
        before = self._deployments.get(self._sets.get(uid, ""))
        first, moved = uid not in self._sets, self._sets.get(uid) != owner
        self._sets[uid] = owner
        if owner == uid:
            self._deployments.setdefault(uid, _DeploymentState(sys.maxsize, 0, {}))
        state = self._deployments.get(owner)
        if first or not moved or before is None or state is None:
            return
        pods = {name: pod for name, pod in before.pods.items() if owner_uid(pod) == uid}
        for name in pods:
            del before.pods[name]
        state.pods |= pods
        state.most = max(state.most, size_of(replica_set) + len(state.pods))

    def _pod_changed(self, change: Seen) -> Found:
        pod = change.new if change.new is not None else change.old
        state = self._deployments.get(self._sets.get(owner_uid(pod or {}), ""))
        if change.old is not None and owner_uid(change.old) != owner_uid(pod or {}):  # It was released.
            former = self._deployments.get(self._sets.get(owner_uid(change.old), ""))
            if former is not None:
                former.pods.pop(change.key.name, None)
        if state is None or pod is None:
            return None
        if change.old is None and (change.late or owner_uid(pod) in self._late_sets):
            self._late.add(uid_of(pod))
        before = state.pods.pop(change.key.name, None)
        counts = self.counts_late or uid_of(pod) not in self._late
        if change.new is not None and is_active(change.new) and self._is_selected(change.new) and counts:
            state.pods[change.key.name] = change.new
        return self.judged(change, before, state)

    def _is_selected(self, pod: Obj) -> bool:
        """Somebody may have changed its labels, so that its ReplicaSet makes another one and releases it."""
        return labels_of(pod).items() >= self._selected.get(owner_uid(pod), {}).items()

    def judged(self, change: Seen, before: Obj | None, state: _DeploymentState) -> Found:
        return None


class ChildrenWithinSurge(_Rollouts):
    """Never more live pods than desired plus surge."""

    name = "children ≤ desired + surge"
    counts_late = False

    def judged(self, change: Seen, before: Obj | None, state: _DeploymentState) -> Found:
        if change.key.name not in state.pods or len(state.pods) <= state.most:
            return None
        paths = tuple(f"{PODS}/{change.key.namespace}/{name}" for name in state.pods)
        return Finding(f"{', '.join(state.pods)}: {len(state.pods)} live, at most {state.most} wanted", paths)


class MinimumAvailable(_Rollouts):
    """No available pod is removed when fewer than the minimum would be left. A pod that became ready just now
    does not count: the controller that removed it could not know."""

    name = "never below minimum available"

    def __init__(self, takers: Iterable[str]) -> None:
        super().__init__()
        self._takers = frozenset(takers)  # Processes that must keep the minimum.
        self._ready_s: dict[str, float] = {}  # Pod's UID -> since when it is ready.

    def judged(self, change: Seen, before: Obj | None, state: _DeploymentState) -> Found:
        if change.new is not None and is_ready(change.new):
            self._ready_s.setdefault(uid_of(change.new), change.at_s)
        taken = before is not None and is_ready(before) and change.key.name not in state.pods
        if not taken or before is None or change.by not in self._takers:
            return None
        if change.at_s - self._ready_s.get(uid_of(before), change.at_s) < KNOWN_S:
            return None
        remaining = sum(is_ready(pod) for pod in state.pods.values())
        if remaining >= state.least:
            return None
        return f"{change.key.name} was removed: {remaining} ready pods are left, {state.least} are required"


class AvailablePodsAreKept(Checker):
    """Who makes a revision smaller looks at the pods, not only at the counts of its status: it takes no pod
    that has long been ready where too few would be left, even with all that were ready a moment ago."""

    name = "no revision shrinks below the minimum available"
    resources = frozenset({DEPLOYMENTS, REPLICA_SETS, PODS})

    def __init__(self) -> None:
        self._least: dict[str, int] = {}  # Deployment's UID -> the fewest that it ever required.
        self._sizes: dict[str, dict[str, int]] = {}  # Deployment's UID -> ReplicaSet's UID -> its size.
        # ReplicaSet's UID -> pod's UID -> since when it is ready, until when it was.
        self._ready: dict[str, dict[str, tuple[float, float]]] = {}

    def commit(self, change: Seen) -> Found:
        if change.resource == PODS:
            self._pod_changed(change)
        elif change.new is not None and change.resource == DEPLOYMENTS:
            least, uid = wanted_of(change.new) - max_unavailable(change.new), uid_of(change.new)
            self._least[uid] = min(least, self._least.get(uid, least))
        elif change.new is not None:
            return self._resized(change, change.new)
        return None

    def _pod_changed(self, change: Seen) -> None:
        pod = change.new or change.old or {}
        ready = self._ready.setdefault(owner_uid(pod), {})
        since_s, until_s = ready.get(uid_of(pod), (change.at_s, -math.inf))
        if change.new is not None and is_active(change.new) and is_ready(change.new):
            ready[uid_of(pod)] = (since_s if until_s == math.inf else change.at_s, math.inf)
        elif until_s == math.inf:
            ready[uid_of(pod)] = (since_s, change.at_s)

    def _resized(self, change: Seen, new: Obj) -> Found:
        sizes, uid = self._sizes.setdefault(owner_uid(new), {}), uid_of(new)
        before, size = sizes.get(uid, 0), int(lookup(new, "spec", "replicas") or 0)
        sizes[uid] = size
        least = self._least.get(owner_uid(new))
        if least is None or size >= before or change.late or change.by == DRIVER:
            return None
        kept = sum(min(size, self._perhaps(each, change.at_s)) for each, size in sizes.items())
        surely = sum(
            since_s < change.at_s - VIEW_S and until_s == math.inf
            for since_s, until_s in self._ready.get(uid, {}).values()
        )
        if kept >= least or surely <= size:
            return None
        left = f"at most {kept} pods stay ready, {least} are required"
        return f"{change.key.name} was made smaller, to {size}: {left}"

    def _perhaps(self, uid: str, at_s: float) -> int:
        """How many of its pods may be ready in the view that the decision was made from."""
        return sum(until_s > at_s - VIEW_S for _, until_s in self._ready.get(uid, {}).values())


class RolledOut(AtRest):
    """At rest every Deployment has as many ready pods as it wants, all of its template, and its status says
    so for its current generation."""

    name = "every rollout completes"
    patience_s = 90.0  # A leader whose list is never answered retries after sixty.

    def at_rest(self, objects: Objects, now_s: float) -> Iterable[str | Finding]:
        sets, pods = of_resource(objects, REPLICA_SETS), of_resource(objects, PODS)
        for deployment in of_resource(objects, DEPLOYMENTS):
            if is_deleting(deployment):
                continue
            path = f"{DEPLOYMENTS}/{'/'.join(key_of(deployment))}"
            own_sets = [replica_set for replica_set in sets if owner_uid(replica_set) == uid_of(deployment)]
            for problem in _unfinished(deployment, own_sets, pods):
                yield Finding(f"{key_of(deployment).name} {problem}", (path,))


def _unfinished(deployment: Obj, sets: list[Obj], pods: list[Obj]) -> Iterable[str]:
    new = split(deployment, sets).new
    if new is None:
        yield "has no ReplicaSet of its template"
        return
    uids = {uid_of(replica_set) for replica_set in sets}
    own_pods = [pod for pod in pods if owner_uid(pod) in uids and is_active(pod)]
    ready = [pod for pod in own_pods if owner_uid(pod) == uid_of(new) and is_ready(pod)]
    wanted = wanted_of(deployment)
    if not len(ready) == len(own_pods) == wanted:
        yield f"wants {wanted} pods, has {len(own_pods)}, of which {len(ready)} are of its template and ready"
    status, generation = deployment.get("status") or {}, metadata(deployment)["generation"]
    if status.get("observedGeneration") != generation:
        yield f"is at generation {generation}, but has observed {status.get('observedGeneration')}"
    progressing = find_condition(status.get("conditions") or [], "Progressing") or {}
    if progressing.get("reason") != "NewReplicaSetAvailable":
        yield f"has reason {progressing.get('reason')} in Progressing, not NewReplicaSetAvailable"


class OneRevisionPerTemplate(Checker):
    """A template has one ReplicaSet, however often its creation was tried."""

    name = "one revision per template"

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], str] = {}  # (Deployment's UID, template) -> the ReplicaSet's name.

    def commit(self, change: Seen) -> Found:
        if change.resource != REPLICA_SETS:
            return None
        if change.new is None:
            self._made = {mark: name for mark, name in self._made.items() if name != change.key.name}
            return None
        if HASH_LABEL not in labels_of(change.new):
            return None
        mark = owner_uid(change.new), msgspec.json.encode(template_of(change.new), order="sorted").decode()
        first = self._made.setdefault(mark, change.key.name)
        return None if first == change.key.name else f"{first} and {change.key.name} have the same template"


class GrowthIsEarned(Checker):
    """An autoscaler scales up only when all current replicas are ready: while replicas wait for the scheduler
    or are still starting, more of them would only wait too."""

    name = "bounded growth"

    def __init__(self, growers: Iterable[str]) -> None:
        self._growers = frozenset(growers)
        self._ready: dict[str, set[str]] = {}  # Namespace/app -> UIDs of ready pods.

    def commit(self, change: Seen) -> Found:
        if change.resource == PODS:
            self._pod_changed(change)
        if change.resource != DEPLOYMENTS or change.old is None or change.new is None:
            return None
        before, after = wanted_of(change.old), wanted_of(change.new)
        if after <= before or change.by not in self._growers:
            return None
        ready = len(self._ready.get(_app(change.new, change.key.namespace), ()))
        if ready >= before:
            return None
        return f"{change.key.name} was scaled from {before} to {after} while {ready} were ready"

    def _pod_changed(self, change: Seen) -> None:
        pod = change.new if change.new is not None else change.old
        assert pod is not None
        ready = self._ready.setdefault(_app(pod, change.key.namespace), set())
        if change.new is not None and is_active(change.new) and is_ready(change.new):
            ready.add(uid_of(pod))
        else:
            ready.discard(uid_of(pod))


def _app(obj: Obj, namespace: str) -> str:
    labels = lookup(obj, "spec", "template", "metadata", "labels") or labels_of(obj)
    return f"{namespace}/{labels.get('app')}"
