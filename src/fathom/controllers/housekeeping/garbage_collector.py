"""The garbage collector: keeps an index of owners and carries out what `plan_garbage` plans."""

from __future__ import annotations

from fathom.control.queue import WorkQueue
from fathom.controllers.housekeeping.namespaces import knows
from fathom.controllers.housekeeping.plan_garbage import (
    FOREGROUND,
    Collect,
    Owner,
    Ref,
    RemoveOwners,
    orphans_dependents,
    plan_dependent,
    plan_owner,
    waits_for_dependents,
    without_owners,
)
from fathom.controllers.housekeeping.writer import HousekeepingWriter, ignored
from fathom.model.body import Body
from fathom.model.cause import CHANGED, DELETED, UNSTATED, WakeCause
from fathom.model.decision import Subject
from fathom.model.media_types import MERGE_PATCH
from fathom.model.objects import Key, Obj, key_of, metadata, uid_of
from fathom.model.view import Resources, View

_OWNED = b'"ownerReferences"'
_HELD = (FOREGROUND.encode(), b'"orphan"')


class Collector:
    """Level-based: `observe` only says which objects to look at; `reconcile` reads them again."""

    def __init__(
        self, *, writer: HousekeepingWriter, view: View, resources: Resources, queue: WorkQueue[Ref]
    ) -> None:
        self._writer = writer
        self._view = view
        self._resources = resources
        self._queue = queue
        self._dependents: dict[str, dict[Ref, None]] = {}  # Owner's UID -> objects that name it as an owner.
        self._owners: dict[Ref, tuple[str, ...]] = {}  # Object -> UIDs of its owners: the reverse.

    def observe(self, resource: str, body: Body | None, previous: Body | None, revision: int) -> None:
        """One change of one object. Most objects own nothing and have no owner: their bytes show that."""
        last = body or previous
        if last is None:
            return
        encoded = last.encoded
        related = _OWNED in encoded or (previous is not None and _OWNED in previous.encoded)
        held = body is not None and (_HELD[0] in encoded or _HELD[1] in encoded)
        if body is not None and not held and (not related or _same_owners(body, previous)):
            return
        obj = last.obj
        ref = Ref(resource, *key_of(obj))
        cause = _event(ref, revision, gone=body is None)
        if related:
            self._reindex(ref, obj if body is not None else None)
            self._wake_owners(previous, cause)
        if body is None:
            for dependent in self._dependents.get(uid_of(obj), ()):
                self._queue.add(dependent, cause)
        elif related or held:
            self._queue.add(ref, cause)

    def _reindex(self, ref: Ref, obj: Obj | None) -> None:
        for uid in self._owners.pop(ref, ()):
            group = self._dependents.get(uid, {})
            group.pop(ref, None)
            if not group:
                self._dependents.pop(uid, None)
        if obj is None:
            return
        uids = tuple(reference["uid"] for reference in _references(obj))
        if uids:
            self._owners[ref] = uids
            for uid in uids:
                self._dependents.setdefault(uid, {})[ref] = None

    def _wake_owners(self, previous: Body | None, cause: WakeCause) -> None:
        """An owner may have waited for this dependent to be deleted or to drop its reference."""
        if previous is None or _OWNED not in previous.encoded:
            return
        obj = previous.obj
        for reference in _references(obj):
            owner = self._owner_ref(obj, reference)
            if owner is not None:
                self._queue.add(owner, cause)

    async def reconcile(self, ref: Ref) -> None:
        if self._is_well(ref):
            return
        obj = await self._read(ref)
        if obj is None:
            return
        await self._as_dependent(ref, obj)
        if waits_for_dependents(obj) or orphans_dependents(obj):
            await self._as_owner(ref, obj)

    def _is_well(self, ref: Ref) -> bool:
        """Whether, in our view, all its owners exist and neither they nor it wait for dependents: for most
        changes that is enough. A view that is behind does no harm: when it sees that an owner goes, `observe`
        queues the dependents again. Any action follows from a new read."""
        seen = self._view.get(ref.resource, Key(ref.namespace, ref.name))
        if seen is None or waits_for_dependents(seen.obj) or orphans_dependents(seen.obj):
            return False
        return all(self._is_there(seen.obj, reference) for reference in _references(seen.obj))

    def _is_there(self, obj: Obj, reference: Obj) -> bool:
        ref = self._owner_ref(obj, reference)
        owner = None if ref is None else self._view.get(ref.resource, Key(ref.namespace, ref.name))
        if owner is None or uid_of(owner.obj) != reference["uid"]:
            return False
        return not waits_for_dependents(owner.obj)

    async def _as_dependent(self, ref: Ref, obj: Obj) -> None:
        owners = []
        for reference in _references(obj):
            owner = await self._look_up(obj, reference)
            if owner is None:
                return  # Neither there nor gone, such as one of an unknown kind. Leave the object alone.
            owners.append(owner)
        action = plan_dependent(obj, tuple(owners), has_dependents=uid_of(obj) in self._dependents)
        if isinstance(action, Collect):
            await self._delete(ref, obj, action.policy)
        elif isinstance(action, RemoveOwners):
            await self._disown(ref, obj, action.uids, self._cause(ref))

    async def _look_up(self, obj: Obj, reference: Obj) -> Owner | None:
        """None where it cannot be said yet what becomes of the object."""
        ref = self._owner_ref(obj, reference)
        if ref is None:
            return None
        uid = str(reference["uid"])
        owner = await self._read(ref)
        if owner is None or uid_of(owner) != uid:
            return Owner(uid, exists=False)
        waits = waits_for_dependents(owner)
        if waits and not knows(self._view, ref.resource, owner):
            return None  # Our view may lack dependents. When it has the deletion, `observe` queues the owner.
        return Owner(uid, exists=True, waits=waits)

    async def _as_owner(self, ref: Ref, obj: Obj) -> None:
        """Only once our view has its deletion, and so every dependent that was there before: another server
        may be ahead of this one. When the view has it, `observe` queues it again."""
        if not knows(self._view, ref.resource, obj):
            return
        uid = uid_of(obj)
        dependents = self._dependents_of(ref, uid)
        if orphans_dependents(obj):
            for dependent, child in dependents:
                await self._disown(dependent, child, (uid,), self._cause(ref))
            dependents = self._dependents_of(ref, uid)
        else:
            cause = WakeCause("event", "waits for its dependents", ref.resource, ref.namespace, ref.name)
            for dependent, _ in dependents:
                self._queue.add(dependent, cause)
        release = plan_owner(obj, tuple(child for _, child in dependents))
        if release is not None:
            kept = [name for name in metadata(obj).get("finalizers") or () if name != release.finalizer]
            why = f"what finalizer {release.finalizer} waited for has happened"
            await self._patch(ref, obj, {"finalizers": kept}, self._cause(ref), why)

    def _dependents_of(self, owner: Ref, uid: str) -> list[tuple[Ref, Obj]]:
        """Those that name it as it is, also by kind, namespace and name: whoever knows a UID could write it
        into an object of another namespace, and hold the owner up."""
        dependents = []
        for ref in self._dependents.get(uid, ()):
            seen = self._view.get(ref.resource, Key(ref.namespace, ref.name))
            if seen is not None and any(
                reference["uid"] == uid and self._owner_ref(seen.obj, reference) == owner
                for reference in _references(seen.obj)
            ):
                dependents.append((ref, seen.obj))
        return dependents

    def _cause(self, ref: Ref) -> WakeCause:
        taken = self._queue.taken(ref)
        return UNSTATED if taken is None else taken.cause

    async def _disown(self, ref: Ref, obj: Obj, uids: tuple[str, ...], cause: WakeCause) -> None:
        why = f"owners {', '.join(uids)} are gone or leave their dependents behind"
        await self._patch(ref, obj, {"ownerReferences": without_owners(obj, uids)}, cause, why)

    async def _patch(self, ref: Ref, obj: Obj, change: Obj, cause: WakeCause, why: str) -> None:
        """Lists are replaced whole, so the UID must still be the one we looked at; after a lost race the
        object is looked at again."""
        path = self._resources.path(ref.resource, ref.namespace, ref.name)
        if path is None:
            return
        meta: Obj = {"uid": uid_of(obj), **change}
        version = metadata(obj).get("resourceVersion")
        if version:
            meta["resourceVersion"] = version
        with ignored(404):
            await self._writer.write(
                "PATCH",
                path,
                _subject(ref, obj),
                cause=cause,
                why=why,
                body={"metadata": meta},
                content_type=MERGE_PATCH,
            )

    async def _delete(self, ref: Ref, obj: Obj, policy: str) -> None:
        path = self._resources.path(ref.resource, ref.namespace, ref.name)
        if path is not None:
            # The UID protects a namesake that was created after we looked; the revision protects
            # one that somebody has deleted since in the foreground: this policy would end its waiting.
            meta = metadata(obj)
            preconditions = {name: meta[name] for name in ("uid", "resourceVersion") if meta.get(name)}
            options = {"propagationPolicy": policy, "preconditions": preconditions}
            subject, why = _subject(ref, obj), "all its owners are gone, or wait for it to be deleted"
            with ignored(404):
                await self._writer.write(
                    "DELETE", path, subject, cause=self._cause(ref), why=why, body=options
                )

    async def _read(self, ref: Ref) -> Obj | None:
        path = self._resources.path(ref.resource, ref.namespace, ref.name)
        return None if path is None else await self._writer.read(path)

    def _owner_ref(self, obj: Obj, reference: Obj) -> Ref | None:
        resource = self._resources.named(str(reference.get("apiVersion")), str(reference.get("kind")))
        if resource is None:
            return None
        namespace = key_of(obj).namespace if self._resources.is_namespaced(resource) else ""
        return Ref(resource, namespace, str(reference.get("name")))


def _subject(ref: Ref, obj: Obj) -> Subject:
    generation = int(metadata(obj).get("generation") or 0)
    return Subject(ref.resource, ref.namespace, ref.name, uid_of(obj), generation)


def _references(obj: Obj) -> list[Obj]:
    return metadata(obj).get("ownerReferences") or []


def _same_owners(body: Body, previous: Body | None) -> bool:
    """Whether the change is none for the collector: most are not, such as a node's lease that is renewed."""
    if previous is None or any(held in previous.encoded for held in _HELD):
        return False
    before, after = metadata(previous.obj), metadata(body.obj)
    return before["uid"] == after["uid"] and _references(previous.obj) == _references(body.obj)


def _event(ref: Ref, revision: int, *, gone: bool) -> WakeCause:
    event = DELETED if gone else CHANGED
    return WakeCause("event", "", ref.resource, ref.namespace, ref.name, revision, event=event, gone=gone)
