"""Which objects the garbage collector deletes: those whose owners are all gone. Pure.

An object with owner references lives as long as one of its owners does. How an owner is deleted decides what
happens to its dependents:

    background   the owner is removed at once; dependents follow when its absence is seen
    foreground   the owner stays, marked, until the dependents that block it are gone
    orphan       the owner stays until its dependents no longer refer to it; they live on

An owner is absent only when a read by its name says so and names no object with its UID: the index finds
candidates, the read decides.
"""

from __future__ import annotations

import msgspec

from fathom.model.objects import Obj, is_deleting, metadata, uid_of

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class Ref(msgspec.Struct, frozen=True):
    """One object, as the collector names it."""

    resource: str  # 'pods', 'deployments.apps'
    namespace: str
    name: str


class Owner(msgspec.Struct, frozen=True):
    """An owner reference, and what a read of it found."""

    uid: str
    exists: bool
    waits: bool = False  # Being deleted in the foreground: it waits for this object.


class Collect(msgspec.Struct, frozen=True):
    """Delete the object, with this policy."""

    policy: str


class RemoveOwners(msgspec.Struct, frozen=True):
    """Remove these owners from the object's references; it has others."""

    uids: tuple[str, ...]


class Release(msgspec.Struct, frozen=True):
    """Remove this finalizer: what it waited for has happened."""

    finalizer: str


Action = Collect | RemoveOwners | Release


def plan_dependent(obj: Obj, owners: tuple[Owner, ...], *, has_dependents: bool) -> Action | None:
    """What the state of its owners means for an object."""
    if not owners or is_deleting(obj):
        return None
    gone = tuple(owner.uid for owner in owners if not owner.exists)
    waiting = tuple(owner.uid for owner in owners if owner.exists and owner.waits)
    solid = len(owners) - len(gone) - len(waiting)
    if solid:
        return RemoveOwners(gone + waiting) if gone or waiting else None
    if waiting and has_dependents:
        # Its own dependents must go first, or the owner above would be released too early.
        return Collect("Foreground")
    return Collect(_policy(obj))


def _policy(obj: Obj) -> str:
    finalizers = metadata(obj).get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def plan_owner(obj: Obj, dependents: tuple[Obj, ...]) -> Release | None:
    """Whether an owner that waits for its dependents has none left."""
    finalizers = metadata(obj).get("finalizers") or ()
    if not is_deleting(obj):
        return None
    if FOREGROUND in finalizers and not any(_blocks(obj, dependent) for dependent in dependents):
        return Release(FOREGROUND)
    if ORPHAN in finalizers and not dependents:
        return Release(ORPHAN)
    return None


def _blocks(owner: Obj, dependent: Obj) -> bool:
    uid = uid_of(owner)
    return any(
        reference.get("uid") == uid and reference.get("blockOwnerDeletion")
        for reference in metadata(dependent).get("ownerReferences") or ()
    )


def without_owners(obj: Obj, uids: tuple[str, ...]) -> list[Obj]:
    references = metadata(obj).get("ownerReferences") or []
    return [reference for reference in references if reference.get("uid") not in uids]


def waits_for_dependents(obj: Obj) -> bool:
    return is_deleting(obj) and FOREGROUND in (metadata(obj).get("finalizers") or ())


def orphans_dependents(obj: Obj) -> bool:
    return is_deleting(obj) and ORPHAN in (metadata(obj).get("finalizers") or ())
