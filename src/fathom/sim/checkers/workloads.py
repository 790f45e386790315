"""Workloads: no more pods than wanted, one per slot, each counted once; statuses match their generation."""

from __future__ import annotations

from collections.abc import Callable

from fathom.control.ownership import controller_of
from fathom.controllers.pod_states import is_ready
from fathom.model.objects import Key, Obj, is_deleting, lookup, metadata, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.resource_names import JOBS, REPLICA_SETS
from fathom.model.well_known import ACTOR_HEADER
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

PODS = "pods"
SLOT = "fathom.dev/slot"


def is_live(pod: Obj) -> bool:
    return not is_deleting(pod) and lookup(pod, "status", "phase") not in TERMINAL_PHASES


def owner_uid(pod: Obj) -> str:
    return str((controller_of(pod) or {}).get("uid", ""))


def note_of(obj: Obj, name: str) -> str:
    return str((metadata(obj).get("annotations") or {}).get(name, ""))


class ChildrenWithinBounds(Checker):
    """Never more live pods than the workload ever wanted at once. Earlier specs count too: a create that was
    sent while more was wanted cannot be called back. For the same reason a pod whose create arrives after its
    sender gave up on it and went on does not count."""

    name = "children ≤ desired + surge"

    def __init__(self) -> None:
        self._late: set[str] = set()  # UIDs of pods whose create arrived too late.
        self._bounds: dict[str, int] = {}
        self._live: dict[str, dict[str, None]] = {}  # Workload's UID -> names of its live pods.

    def commit(self, change: Seen) -> Found:
        if change.resource == REPLICA_SETS and change.new is not None:
            bound = int(lookup(change.new, "spec", "replicas") or 0)
            uid = uid_of(change.new)
            self._bounds[uid] = max(bound, self._bounds.get(uid, 0))
        if change.resource != PODS:
            return None
        if change.old is not None:
            self._live.get(owner_uid(change.old), {}).pop(change.key.name, None)
        if change.new is None or not is_live(change.new) or self._came_late(change):
            return None
        uid = owner_uid(change.new)
        live = self._live.setdefault(uid, {})
        live[change.key.name] = None
        if uid in self._bounds and len(live) > self._bounds[uid]:
            paths = tuple(f"{PODS}/{change.key.namespace}/{name}" for name in live)
            return Finding(f"{', '.join(live)}: {len(live)} live, at most {self._bounds[uid]} wanted", paths)
        return None

    def _came_late(self, change: Seen) -> bool:
        assert change.new is not None
        if change.old is None and change.late:
            self._late.add(uid_of(change.new))
        return uid_of(change.new) in self._late


class UnreadyPodsGoAsRead(Checker):
    """A ReplicaSet that deletes a pod because it is not ready names the revision at which it was not: it may
    have become ready since. A pod that was never ready cannot have been deleted for another reason."""

    name = "a pod is deleted as not ready only as it was read"
    resources = frozenset({PODS})

    def __init__(self) -> None:
        self._ready: set[str] = set()  # UIDs of pods that were ever ready.

    def commit(self, change: Seen) -> Found:
        old, new = change.old, change.new
        if new is not None and is_ready(new):
            self._ready.add(uid_of(new))
        goes = old is not None and not is_deleting(old) and (new is None or is_deleting(new))
        by_us = dict(change.headers).get(ACTOR_HEADER) == "controllers/replicasets"
        if not goes or not by_us or uid_of(old or {}) in self._ready:
            return None
        if lookup(change.delete_options, "preconditions", "resourceVersion"):
            return None
        return f"{change.by} deleted {change.key.name}, which was never ready, whatever it had become"


class OnePodPerSlot(Checker):
    """At most one pod per slot; a terminating pod still occupies its slot."""

    name = "one pod per slot"
    resources = frozenset({PODS})

    def __init__(self) -> None:
        self._taken: dict[tuple[str, ...], Key] = {}

    def commit(self, change: Seen) -> Found:
        slot = _slot(change.old)
        if slot is not None and self._taken.get(slot) == change.key:
            del self._taken[slot]
        slot = _slot(change.new)
        if slot is None:
            return None
        holder = self._taken.setdefault(slot, change.key)
        if holder != change.key:
            paths = (f"{PODS}/{'/'.join(holder)}", change.path)
            return Finding(f"{holder.name} and {change.key.name} both have slot {slot[-1]}", paths)
        return None


def _slot(pod: Obj | None) -> tuple[str, ...] | None:
    """The pod's owner, and the index of its slot."""
    if pod is None or not owner_uid(pod) or not note_of(pod, SLOT):
        return None
    return owner_uid(pod), note_of(pod, SLOT)


class CountedOnce(Checker):
    """A Job counts at most as many successes as pods of it have succeeded, and never fewer than before; and
    at most as many failures as pods of it have failed, or were deleted."""

    name = "succeeded ≤ distinct UIDs"
    resources = frozenset({PODS, JOBS})

    def __init__(self) -> None:
        self._succeeded: dict[str, set[str]] = {}  # Job's UID -> UIDs of pods.
        self._failed: dict[str, set[str]] = {}

    def commit(self, change: Seen) -> Found:
        pod = change.new or change.old
        if change.resource == PODS and pod is not None and (change.new is None or not is_live(change.new)):
            ended = self._succeeded if lookup(pod, "status", "phase") == "Succeeded" else self._failed
            ended.setdefault(owner_uid(pod), set()).add(uid_of(pod))
        if change.new is None:
            return None
        if change.resource != JOBS:
            return None
        reported, reported_before = _count(change.new), _count(change.old)
        actual = len(self._succeeded.get(uid_of(change.new), ()))
        if reported > actual:
            return f"Job {change.key.name} counts {reported} succeeded pods; {actual} did succeed"
        failed, lost = (
            int(lookup(change.new, "status", "failed") or 0),
            self._failed.get(uid_of(change.new), ()),
        )
        if failed > len(lost):
            return f"Job {change.key.name} counts {failed} failed pods; {len(lost)} did fail"
        return (
            f"Job {change.key.name} counted {reported_before} succeeded pods, now {reported}"
            if reported < reported_before
            else None
        )


class JobsWithinBounds(Checker):
    """Never more live pods of a Job than it ever wanted at once; while it is suspended it wants none. A pod
    whose create arrives after its sender gave up on it does not count."""

    name = "children ≤ desired + surge"
    resources = frozenset({PODS, JOBS})

    def __init__(self) -> None:
        self._most: dict[str, int] = {}  # Job's UID -> how many at once.
        self._live: dict[str, dict[str, None]] = {}

    def commit(self, change: Seen) -> Found:
        if change.resource == JOBS:
            if change.new is not None:
                suspended = bool(lookup(change.new, "spec", "suspend"))
                wanted = 0 if suspended else int(lookup(change.new, "spec", "parallelism") or 0)
                uid = uid_of(change.new)
                self._most[uid] = max(wanted, self._most.get(uid, 0))
            return None
        if change.old is not None:
            self._live.get(owner_uid(change.old), {}).pop(change.key.name, None)
        if change.new is None or not is_live(change.new) or change.late:
            return None
        uid = owner_uid(change.new)
        live = self._live.setdefault(uid, {})
        live[change.key.name] = None
        most = self._most.get(uid, len(live))
        return f"{', '.join(live)}: {len(live)} live, at most {most} wanted" if len(live) > most else None


def _count(job: Obj | None) -> int:
    return int(lookup(job, "status", "succeeded") or 0)


class SaysWhatItSaw(Checker):
    """A part of a workload's spec that a status repeats is that of the generation that the status names: no
    controller claims a generation that it has not read. The status may be another object's."""

    name = "conditions name the generation they observed"

    def __init__(
        self,
        resource: str,
        wanted: Callable[[Obj], object],
        claimed_in: str,
        claim_of: Callable[[Obj], tuple[str, int, object] | None],
    ) -> None:
        self._resource = resource
        self._wanted = wanted
        self._claimed_in = claimed_in
        self._claim_of = claim_of
        self._specs: dict[tuple[str, int], object] = {}  # (UID, generation) -> what was wanted.

    def commit(self, change: Seen) -> Found:
        if change.new is None:
            return None
        if change.resource == self._resource:
            generation = metadata(change.new).get("generation", 0)
            self._specs.setdefault((uid_of(change.new), generation), self._wanted(change.new))
        return self._check_claim(change, change.new) if change.resource == self._claimed_in else None

    def _check_claim(self, change: Seen, new: Obj) -> Found:
        claim = self._claim_of(new)
        if claim is None or (change.old is not None and claim == self._claim_of(change.old)):
            return None
        uid, generation, value = claim
        actual = self._specs.get((uid, generation))
        if actual == value:
            return None
        return f"{change.path} claims {value!r} for generation {generation}; the spec had {actual!r}"
