"""Rules for every object of every API: identity, deletion, ownership."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.model.objects import Obj, is_deleting, lookup, metadata, uid_of
from fathom.sim.checkers.at_rest import RECORDS, AtRest, Objects
from fathom.sim.world.active_faults import DRIVER
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

# The finalizers that the options of a DELETE set.
OF_DELETIONS = ("foregroundDeletion", "orphan")


class ObjectsKeepTheirIdentity(Checker):
    """An update keeps the UID; an object in deletion stays so, is removed only without finalizers, and its
    grace period never grows."""

    name = "an object keeps its identity"

    def commit(self, change: Seen) -> Found:
        old, new = change.old, change.new
        if old is None or change.resource in RECORDS:
            return None
        if new is None:
            return _removed_early(old)
        if uid_of(new) != uid_of(old):
            return f"{change.path} changed its UID from {uid_of(old)} to {uid_of(new)} without a deletion"
        if metadata(new).get("creationTimestamp") != metadata(old).get("creationTimestamp"):
            return f"{change.path} changed its creationTimestamp"
        if is_deleting(old) and not is_deleting(new):
            return f"{change.path} was being deleted and no longer is"
        return _added_finalizers(change, old, new) or _got_more_time(old, new)


def _removed_early(old: Obj) -> str | None:
    """The write that removes the last finalizer removes the object too, so `old` still has one here."""
    finalizers = metadata(old).get("finalizers") or []
    if finalizers and not is_deleting(old):
        return f"the object was removed although it had finalizers: {', '.join(finalizers)}"
    return None


def _added_finalizers(change: Seen, old: Obj, new: Obj) -> str | None:
    """One that is deleted again may wait for its dependents now, as in Kubernetes: the last request
    counts."""
    if not is_deleting(old):
        return None
    allowed = OF_DELETIONS if change.ask is None or change.ask.method == "DELETE" else ()
    before = metadata(old).get("finalizers") or []
    added = [
        finalizer
        for finalizer in metadata(new).get("finalizers") or []
        if finalizer not in (*before, *allowed)
    ]
    return f"the object got finalizer {added[0]} while it was being deleted" if added else None


def _got_more_time(old: Obj, new: Obj) -> str | None:
    before, after = (metadata(obj).get("deletionGracePeriodSeconds") for obj in (old, new))
    if not is_deleting(old) or after is None or before is None or after <= before:
        return None
    return f"the object's grace period grew from {before} s to {after} s"


class WhoDeletesNamesTheObject(Checker):
    """A delete names the UID: when the request arrives, the name may belong to another object. For code that
    knows what it deletes; a person's `kubectl delete` may go by name."""

    name = "a delete names the object's UID"

    def commit(self, change: Seen) -> Found:
        ask, old = change.ask, change.old
        if ask is None or ask.method != "DELETE" or old is None:
            return None
        if change.resource in RECORDS or not ask.target.partition("?")[0].endswith(f"/{change.key.name}"):
            return None
        named = lookup(change.delete_options, "preconditions", "uid")
        if named == uid_of(old) or (not named and change.by == DRIVER):
            return None
        return f"{change.by} deleted {change.path} " + (
            "without naming its UID" if not named else f"with UID {named}"
        )


class BornInALivingNamespace(Checker):
    """No object is created in a namespace that is being deleted, or gone: nothing would ever remove it."""

    name = "objects are created only in namespaces that stay"

    def __init__(self) -> None:
        self._leaving: set[str] = set()  # Namespaces that are being deleted, or gone.

    def commit(self, change: Seen) -> Found:
        if change.resource == "namespaces":
            if change.new is None or is_deleting(change.new):
                self._leaving.add(change.key.name)
            else:
                self._leaving.discard(change.key.name)
            return None
        born = change.old is None and change.resource not in RECORDS
        if not born or change.key.namespace not in self._leaving:
            return None
        return f"{change.by} created {change.path}, and its namespace is being deleted or gone"


class NothingIsStoredByTrying(Checker):
    name = "a dry run stores nothing"

    def commit(self, change: Seen) -> Found:
        tried = change.ask is not None and "dryRun=" in change.ask.target
        return f"{change.by} sent a dry run, but {change.path} changed" if tried else None


class NothingIsOrphaned(AtRest):
    """At rest the garbage collector has removed objects whose owners are gone or whose namespace is gone."""

    name = "nothing is orphaned when settled"

    def at_rest(self, objects: Objects, now_s: float) -> Iterable[str | Finding]:
        alive = {uid_of(obj) for obj in objects.values()}
        spaces = {path.partition("/")[2] for path in objects if path.startswith("namespaces/")}
        for path, obj in objects.items():
            owners = [str(owner["uid"]) for owner in metadata(obj).get("ownerReferences") or ()]
            if owners and not any(uid in alive for uid in owners):
                yield Finding(f"{path} still exists, but none of its owners does", (path,))
            if (space := metadata(obj).get("namespace")) and space not in spaces:
                yield Finding(f"{path} still exists, but its namespace is gone", (path,))
