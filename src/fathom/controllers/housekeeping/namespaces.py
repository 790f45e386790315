"""Creation and deletion of namespaces.

An active namespace gets its `default` service account. A terminating one is emptied; when nothing is left
inside, the `kubernetes` finalizer is removed and the server deletes it. Its conditions show what still holds
it.
"""

from __future__ import annotations

import msgspec

from fathom.controllers.housekeeping.writer import HousekeepingWriter, ignored
from fathom.controllers.pod_states import seconds
from fathom.model.cause import WakeCause
from fathom.model.conditions import NUMBERS_EVERY_S, differ_in_numbers
from fathom.model.decision import Subject
from fathom.model.media_types import MERGE_PATCH
from fathom.model.objects import Key, Obj, key_of, lookup, metadata, uid_of
from fathom.model.times import timestamp
from fathom.model.view import Resources, View
from fathom.seams.outside import Clock

FINALIZER = "kubernetes"
RECHECK_S = 1.0  # What is inside goes without waking us: only changes of the namespace itself do that.


class NamespaceCleanup(msgspec.Struct, frozen=True):
    """What to do for a terminating namespace."""

    delete: tuple[str, ...] = ()  # Resources to delete all objects of.
    finalize: bool = False
    remaining: tuple[tuple[str, int], ...] = ()  # What is left, by resource.
    held: tuple[tuple[str, int], ...] = ()  # Finalizer -> how many objects it holds.


def plan_namespace(namespace: Obj, contents: dict[str, list[Obj]]) -> NamespaceCleanup:
    """`contents`: resource -> objects inside, only those that have any."""
    if not metadata(namespace).get("deletionTimestamp"):
        return NamespaceCleanup()
    if not contents:
        return NamespaceCleanup(finalize=FINALIZER in (lookup(namespace, "spec", "finalizers") or ()))
    finalizers: dict[str, int] = {}
    delete = []
    for resource, objs in contents.items():
        if any(not metadata(obj).get("deletionTimestamp") for obj in objs):
            delete.append(resource)
        for obj in objs:
            for finalizer in metadata(obj).get("finalizers") or ():
                finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
    remaining = tuple((resource, len(objs)) for resource, objs in contents.items())
    return NamespaceCleanup(delete=tuple(delete), remaining=remaining, held=tuple(sorted(finalizers.items())))


def conditions(plan: NamespaceCleanup, *, now: str, before: list[Obj]) -> list[Obj]:
    """What a person who waits for the deletion of the namespace wants to know."""
    remaining = ", ".join(f"{resource} has {count} resource instances" for resource, count in plan.remaining)
    finalizers = ", ".join(f"{finalizer} in {count} resource instances" for finalizer, count in plan.held)
    wanted = (
        (
            "NamespaceContentRemaining",
            "SomeResourcesRemain",
            "ContentRemoved",
            remaining,
            f"Some resources are remaining: {remaining}",
            "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            "SomeFinalizersRemain",
            "ContentHasNoFinalizers",
            finalizers,
            f"Some content in the namespace has finalizers remaining: {finalizers}",
            "All content-preserving finalizers finished",
        ),
    )
    return [
        _condition(
            kind,
            (reason, message) if items else (reason_if_none, message_if_none),
            "True" if items else "False",
            now,
            before,
        )
        for kind, reason, reason_if_none, items, message, message_if_none in wanted
    ]


def _condition(
    kind: str, reason_and_message: tuple[str, str], status: str, now: str, before: list[Obj]
) -> Obj:
    since = next(
        (old.get("lastTransitionTime") for old in before if old["type"] == kind and old["status"] == status),
        None,
    )
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": since or now,
        "reason": reason_and_message[0],
        "message": reason_and_message[1],
    }


class NamespaceController:
    def __init__(self, *, writer: HousekeepingWriter, view: View, resources: Resources, clock: Clock) -> None:
        self._writer = writer
        self._view = view
        self._resources = resources
        self._clock = clock
        self._reported_s: dict[str, float] = {}  # Terminating ones: when the status of each was last written.

    async def reconcile(self, name: str, *, cause: WakeCause) -> bool:
        """Whether to look again soon."""
        namespace = await self._writer.read(f"/api/v1/namespaces/{name}")
        if namespace is None:
            self._reported_s.pop(name, None)
            return False
        if not metadata(namespace).get("deletionTimestamp"):
            await self._create_default_account(name, cause)
            return False
        contents = self._contents(namespace)
        if contents is None:
            return True
        plan = plan_namespace(namespace, contents)
        if plan.delete:
            await self._delete({resource: contents[resource] for resource in plan.delete}, name, cause)
            contents = self._contents(namespace)
            if contents is None:
                return True
            plan = plan_namespace(namespace, contents)  # Most of it is deleted already.
        await self._report(namespace, plan, cause)
        if plan.finalize:
            await self._finalize(namespace, cause)
        return bool(plan.remaining)

    async def _delete(self, contents: dict[str, list[Obj]], name: str, cause: WakeCause) -> None:
        """Each object by its UID: when the request is carried out, another server may have removed the
        namespace, and somebody made another one of its name, with objects of the same names."""
        why = f"namespace {name} is being deleted"
        for resource, objs in contents.items():
            for obj in objs:
                if metadata(obj).get("deletionTimestamp"):
                    continue
                path = self._resources.path(resource, name, key_of(obj).name) or ""
                options = {"propagationPolicy": "Background", "preconditions": {"uid": uid_of(obj)}}
                subject = Subject(resource, name, key_of(obj).name, uid_of(obj))
                with ignored(404, 409):  # It is gone, or another object has its name.
                    await self._writer.write("DELETE", path, subject, cause=cause, why=why, body=options)

    def _contents(self, namespace: Obj) -> dict[str, list[Obj]] | None:
        """None where our view has not heard of its deletion, or has another namespace of that name. Once it
        has, it has all that was ever stored in there: nothing is created after the deletion."""
        name = str(metadata(namespace)["name"])
        if not knows(self._view, "namespaces", namespace):
            return None
        contents = {}
        for resource in self._resources.all_namespaced():
            objs = [seen.obj for seen in self._view.list(resource, name)]
            if objs:
                contents[resource] = objs
        return contents

    async def _create_default_account(self, name: str, cause: WakeCause) -> None:
        if self._view.get("serviceaccounts", Key(name, "default")) is not None:
            return
        account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default"}}
        path = f"/api/v1/namespaces/{name}/serviceaccounts"
        subject = Subject("serviceaccounts", name, "default")
        why = "the namespace has no default service account"
        with ignored(403, 404, 409):  # It exists already, or the namespace is terminating.
            await self._writer.write("POST", path, subject, cause=cause, why=why, body=account)

    async def _report(self, namespace: Obj, plan: NamespaceCleanup, cause: WakeCause) -> None:
        now = timestamp(self._clock.now_ns())  # The deletions before this may have taken long.
        before = lookup(namespace, "status", "conditions") or []
        after = conditions(plan, now=now, before=before)
        if after == before or (plan.finalize and not before):
            return
        meta, now_s = metadata(namespace), seconds(now)
        recently = now_s - self._reported_s.get(meta["name"], 0.0) < NUMBERS_EVERY_S
        if recently and differ_in_numbers(before, after):
            return
        self._reported_s[meta["name"]] = now_s
        path = f"/api/v1/namespaces/{meta['name']}/status"
        # Another server may have written since: the first transition times must stay.
        guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        body = {"metadata": guard, "status": {"conditions": after}}
        subject, why = _subject(namespace), "; ".join(condition["message"] for condition in after)
        with ignored(404, 409):  # The namespace is gone, or another server was faster.
            await self._writer.write(
                "PATCH", path, subject, cause=cause, why=why, body=body, content_type=MERGE_PATCH
            )

    async def _finalize(self, namespace: Obj, cause: WakeCause) -> None:
        spec = namespace.get("spec") or {}
        kept = [finalizer for finalizer in spec.get("finalizers") or () if finalizer != FINALIZER]
        # Another server may have done it, and somebody made another namespace of that name.
        meta = {field: metadata(namespace)[field] for field in ("name", "uid", "resourceVersion")}
        body = {"kind": "Namespace", "apiVersion": "v1", "metadata": meta, "spec": {"finalizers": kept}}
        path, why = f"/api/v1/namespaces/{meta['name']}/finalize", "nothing is left in the namespace"
        with ignored(404):
            await self._writer.write("PUT", path, _subject(namespace), cause=cause, why=why, body=body)


def knows(view: View, resource: str, obj: Obj) -> bool:
    """Whether the view has this object as it was read, or later."""
    known = view.get(resource, key_of(obj))
    if known is None or uid_of(known.obj) != uid_of(obj):
        return False
    return known.revision >= int(metadata(obj).get("resourceVersion") or 0)


def _subject(namespace: Obj) -> Subject:
    meta = metadata(namespace)
    return Subject("namespaces", "", str(meta["name"]), str(meta.get("uid") or ""))
