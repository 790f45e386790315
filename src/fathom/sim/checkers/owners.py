"""Garbage collection removes only objects without owners; foreground deletion waits for all dependents."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.model.objects import Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.resource_names import DEFINITIONS, JOBS
from fathom.sim.checkers.at_rest import RECORDS, AtRest, Objects, of_resource
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
EVENTS = frozenset({"events", "events.events.k8s.io"})
CLAIMS = "serviceclaims.fathom.dev"  # A server removes them with the Service: `ClaimsAreThoseOfServices`.
# Finalizers whose controllers run in every world that uses them: none may hold an object for ever.
OURS = frozenset({FOREGROUND, ORPHAN, "kubernetes", "batch.kubernetes.io/job-tracking"})


class OnlyTheUnownedAreCollected(Checker):
    """An object that a server removes by itself has owners, none of which stays, or is in a namespace in
    deletion, or of a kind whose definition is. (Events only get old.) A foreground-deleted owner is removed
    after its dependents, and those after theirs; an orphaning one after it has released them. That is said
    of dependents that were there when it was deleted so."""

    name = "only objects without owners are garbage-collected"

    def __init__(self) -> None:
        self._alive: dict[str, Obj] = {}  # By UID.
        self._owned_since: dict[str, int] = {}  # UID -> the revision of its present owners.
        self._waits_since: dict[str, int] = {}  # UID -> since which revision it waits for its dependents.
        self._dependents: dict[str, dict[str, None]] = {}  # Owner's UID -> UIDs.
        self._spaces: dict[str, Obj] = {}
        self._inside: dict[str, int] = {}  # Namespace -> how many objects are in it.
        self._leaving_kinds: set[str] = set()  # Resources whose definition is, or was, being deleted.

    def commit(self, change: Seen) -> Found:
        if change.resource in RECORDS:
            return None
        problem = self._check_removal(change)
        inside = (change.new is not None) - (change.old is not None)
        self._inside[change.key.namespace] = self._inside.get(change.key.namespace, 0) + inside
        if change.old is not None:
            self._forget(change.old)
        if change.new is not None:
            self._alive[uid_of(change.new)] = change.new
            if change.old is None or owners_of(change.old) != owners_of(change.new):
                self._owned_since[uid_of(change.new)] = change.revision
            if _finalizer_of(change.new) not in {"", _finalizer_of(change.old)}:
                self._waits_since[uid_of(change.new)] = change.revision
            for uid in owners_of(change.new):
                self._dependents.setdefault(uid, {})[uid_of(change.new)] = None
        if change.resource == "namespaces":
            self._spaces[change.key.name] = change.new or {}
        if change.resource == DEFINITIONS and (change.new is None or is_deleting(change.new)):
            self._leaving_kinds.add(change.key.name)
        return problem

    def _forget(self, obj: Obj) -> None:
        uid = uid_of(obj)
        self._alive.pop(uid, None)
        for owner in owners_of(obj):
            self._dependents.get(owner, {}).pop(uid, None)

    def _check_removal(self, change: Seen) -> Found:
        old = change.old
        if old is None:
            return None
        goes = change.new is None or (is_deleting(change.new) and not is_deleting(old))
        collected = goes and change.ask is None and not is_deleting(old)
        if collected and not is_deleting(self._spaces.get(change.key.namespace, {})):
            if self._is_owned(old):
                return f"{change.path} was garbage-collected, but one of its owners still exists"
            if not owners_of(old) and not self._may_go_unowned(change):
                return f"{change.path} was removed by a server, but it never had an owner"
            if problem := self._leaves_dependents(change, old):
                return problem
        return self._check_dependents(change, old) if change.new is None else None

    def _may_go_unowned(self, change: Seen) -> bool:
        return change.resource in {*EVENTS, CLAIMS} or change.resource in self._leaving_kinds

    def _is_owned(self, obj: Obj) -> bool:
        owners = [self._alive.get(uid) for uid in owners_of(obj)]
        return any(owner is not None and not _waits(owner) for owner in owners)

    def _leaves_dependents(self, change: Seen, old: Obj) -> Found:
        """An owner above waits for this object, so this one must wait for its own dependents: else the owner
        goes before them. The collector finds dependents in its server's cache, as that of Kubernetes does: of
        those that came after the deletion of the owner it may not have heard."""
        waiting = [uid for uid in owners_of(old) if _waits(self._alive.get(uid, {})) and _blocks(old, uid)]
        if not waiting or (change.new is not None and _waits(change.new)):
            return None
        since = max(self._waits_since[uid] for uid in waiting)
        below = [each for each in self._blocking(uid_of(old)) if self._owned_since[uid_of(each)] < since]
        if not below:
            return None
        names = ", ".join(key_of(dependent).name for dependent in below)
        above = key_of(self._alive[waiting[0]]).name
        return f"{change.path} did not wait for {names}, though {above} waits for all below it"

    def _blocking(self, uid: str) -> list[Obj]:
        """The dependents that an owner waits for when it is deleted in the foreground."""
        return [each for each in self._dependents_of(uid) if _blocks(each, uid)]

    def _dependents_of(self, uid: str) -> list[Obj]:
        uids = self._dependents.get(uid, ())
        return [self._alive[each] for each in uids if each in self._alive]

    def _check_dependents(self, change: Seen, old: Obj) -> Found:
        if change.resource == "namespaces" and self._inside.get(change.key.name):
            return f"{change.path} is gone, but {self._inside[change.key.name]} objects are still in it"
        finalizers = metadata(old).get("finalizers") or ()
        if FOREGROUND not in finalizers and ORPHAN not in finalizers:
            return None
        if change.delete_options.get("propagationPolicy") == "Background":
            return None  # Deleted again, without waiting: the last request counts, as in Kubernetes.
        if change.ask is None and is_deleting(self._spaces.get(change.key.namespace, {})):
            return None  # So it is with all that is in a namespace that is being deleted.
        uid = uid_of(old)
        belonging = self._dependents_of(uid) if ORPHAN in finalizers else self._blocking(uid)
        since = self._waits_since.get(uid, 0)  # Of later ones the collector may not have heard.
        remaining = [each for each in belonging if self._owned_since[uid_of(each)] < since]
        if not remaining:
            return None
        names = ", ".join(key_of(dependent).name for dependent in remaining)
        return f"{change.path} is gone, but {names} still belong to it"


def owners_of(obj: Obj) -> list[str]:
    return [str(reference.get("uid")) for reference in metadata(obj).get("ownerReferences") or ()]


def _waits(owner: Obj) -> bool:
    return is_deleting(owner) and FOREGROUND in (metadata(owner).get("finalizers") or ())


def _finalizer_of(owner: Obj | None) -> str:
    """That of an owner in deletion: for what it waits. A later request may change it."""
    finalizers = metadata(owner).get("finalizers") or () if owner is not None and is_deleting(owner) else ()
    return next((name for name in (ORPHAN, FOREGROUND) if name in finalizers), "")


def _blocks(obj: Obj, owner: str) -> bool:
    references = metadata(obj).get("ownerReferences") or ()
    return any(
        reference.get("uid") == owner and reference.get("blockOwnerDeletion") for reference in references
    )


class NothingIsHeldBack(AtRest):
    """At rest: an object in deletion has a finalizer that is not in `OURS`, or is a pod on an unreachable
    node, or one that failed and whose Job is suspended: its replacement takes the count of failures from it.
    Any other should be gone."""

    name = "deleted objects are gone when settled"
    patience_s = 120.0

    def at_rest(self, objects: Objects, now_s: float) -> Iterable[str | Finding]:
        nodes = of_resource(objects, "nodes")
        unreachable = {key_of(node).name for node in nodes if not _is_reachable(node)}
        suspended = {uid_of(job) for job in of_resource(objects, JOBS) if lookup(job, "spec", "suspend")}
        for path, obj in objects.items():
            if not is_deleting(obj) or (_has_failed(obj) and not suspended.isdisjoint(owners_of(obj))):
                continue
            foreign = [
                finalizer for finalizer in metadata(obj).get("finalizers") or () if finalizer not in OURS
            ]
            if not foreign and lookup(obj, "spec", "nodeName") not in unreachable:
                yield Finding(
                    f"{path} has been in deletion since {metadata(obj)['deletionTimestamp']}", (path,)
                )


def _has_failed(obj: Obj) -> bool:
    return bool(lookup(obj, "status", "phase") == "Failed")


def _is_reachable(node: Obj) -> bool:
    """A node without a Ready condition counts as reachable."""
    conditions = lookup(node, "status", "conditions") or ()
    return all(
        condition.get("status") == "True" for condition in conditions if condition.get("type") == "Ready"
    )
