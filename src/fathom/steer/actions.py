"""Carries out one action of a step, and finds out by reading whether it was done.

Every write has an identity, `RUN_UID/STEP`: an annotation on what it wrote. So nothing is repeated blindly:

    1. `prepare` reads the target. 2. The run's record says what is about to be written.
    3. `perform` writes, with the UID or the revision that was read. 4. The record has the outcome.

A runner that dies between 2 and 4 leaves an unknown outcome; `settle` reads the identity. A request that
arrives late meets its own object (create), a newer revision (patch) or another UID (delete): it does nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.client.api import Api, Resource
from fathom.client.outcomes import Committed, Conflict, Outcome, Rejected
from fathom.kinds.runbook import RunbookAction
from fathom.kinds.runbook_run import STEP_ANNOTATION, UNDO, RecordedWrite, StepRecord, identities_on
from fathom.kinds.shape import ObjectRef
from fathom.model.objects import Obj, is_deleting, lookup, metadata, uid_of
from fathom.steer.merge_patches import inverse, still_ours
from fathom.steer.resources import Resources
from fathom.steer.run_record import ActResult, Done, Intention, NotDone, Unsettled

CONFLICTS_MAX = 10  # Others write the same object; each try reads it again.


class Work(msgspec.Struct, frozen=True):
    """One action with its values, ready to be done."""

    action: RunbookAction
    identity: str
    namespace: str
    record: StepRecord
    patched: Obj | None = None  # For `restore`: the patch that the step had written.

    @property
    def undo(self) -> bool:
        return self.identity.endswith(UNDO)

    @property
    def verb(self) -> str:
        action = self.action
        names = ("create", "apply", "patch", "delete", "scale")
        return next((name for name in names if getattr(action, name) is not None), "restore")


class Actions:
    def __init__(self, api: Api, resources: Resources) -> None:
        self._api = api
        self._resources = resources

    async def prepare(self, work: Work) -> Intention:
        """What is about to be written. Raises ApiError, NoSuchKind; nothing was written then."""
        ref, _ = self._target(work)
        earlier = work.record.object
        if work.verb == "delete" and not work.undo and earlier is not None and earlier.uid:
            # 1. A delete got no answer. 2. A read still found the object. 3. The delete arrived, and somebody
            # made another object of the name. The step is about the first one, however often it is tried.
            return Intention(earlier)
        resource, namespace = await self._where(ref, work)
        current = await self._api.get(resource, namespace, ref.name)
        uid = uid_of(current) if current is not None and work.verb != "create" else ""
        named = msgspec.structs.replace(ref, namespace=namespace, uid=uid)
        if current is not None and work.identity in identities_on(current):
            # 1. A patch got no answer. 2. A read did not find it. 3. It arrived. What is there now is not
            # what was there before: the first intention has the values of before.
            return Intention(named, work.record.undo_patch)
        patch = self._patch(work)
        undone = inverse(current, patch) if current is not None and patch is not None else None
        return Intention(named, undone)

    async def perform(self, work: Work, time: str) -> ActResult:
        """Do it. The record of the step has the intention of `prepare`."""
        match work.verb:
            case "create":
                return await self._create(work, time)
            case "delete":
                return await self._delete(work, time)
        return await self._change(work, time)

    async def settle(self, work: Work) -> ActResult:
        """Whether it was done, found by reading. Raises ApiError where nothing could be read."""
        ref, _ = self._target(work)
        resource, namespace = await self._where(ref, work)
        current = await self._api.get(resource, namespace, ref.name)
        if work.verb == "delete" or (work.verb == "restore" and work.record.undo_patch is None):
            if self._is_gone(current, work):
                return Done(work.record.object, None, "found by reading: it is deleted")
            return NotDone("found by reading: it was not deleted", again=True)
        if current is not None and work.identity in identities_on(current):
            return Done(_ref_of(current, ref, namespace), None, "found by reading")
        return NotDone("found by reading: it was not done", again=True)

    # Each verb.

    async def _create(self, work: Work, time: str) -> ActResult:
        ref, template = self._target(work)
        resource, namespace = await self._where(ref, work)
        outcome = await self._api.create(resource, namespace, _marked(template, work.identity))
        if not isinstance(outcome, Conflict):
            return self._result(outcome, work, namespace, time)
        current = await self._api.get(resource, namespace, ref.name)
        if current is None:
            return NotDone(outcome.why, again=True)
        if work.identity in identities_on(current):
            return Done(_ref_of(current, ref, namespace), None, "found by reading")
        return NotDone(f"{ref.kind} {ref.name} exists already, and this run did not make it", again=False)

    async def _delete(self, work: Work, time: str) -> ActResult:
        ref, _ = self._target(work)
        resource, namespace = await self._where(ref, work)
        current = await self._api.get(resource, namespace, ref.name)
        if current is None or self._is_gone(current, work):
            return Done(work.record.object, None, "it was not there any more")
        outcome = await self._api.delete(resource, namespace, ref.name, uid=uid_of(current))
        if isinstance(outcome, Conflict):
            return NotDone(outcome.why, again=True)
        if isinstance(outcome, Rejected) and outcome.code == 404:
            return Done(work.record.object, None, "it was not there any more")
        return self._result(outcome, work, namespace, time)

    async def _change(self, work: Work, time: str) -> ActResult:
        """apply, patch, scale, restore: a merge patch at the revision that was read."""
        if work.verb == "restore" and work.record.undo_patch is None:
            return await self._delete(work, time)  # It was not there before.
        ref, _ = self._target(work)
        resource, namespace = await self._where(ref, work)
        for _ in range(CONFLICTS_MAX):
            current = await self._api.get(resource, namespace, ref.name)
            if current is None:
                if work.verb == "apply":
                    return await self._create(work, time)
                return _absent(work, ref)
            if work.identity in identities_on(current):
                return Done(_ref_of(current, ref, namespace), None, "found by reading")
            if self._is_outdated(work, current):
                return NotDone(f"others have changed {ref.kind} {ref.name} since it was read", again=True)
            patch = self._to_send(work, current)
            if not patch:
                return Done(
                    _ref_of(current, ref, namespace), None, "others have changed it since: it is left"
                )
            outcome = await self._api.patch(
                resource, namespace, ref.name, _guarded(patch, current, work.identity)
            )
            if not isinstance(outcome, Conflict):
                return self._result(outcome, work, namespace, time)
        return NotDone(f"others write {ref.kind} {ref.name} all the time", again=True)

    def _is_outdated(self, work: Work, current: Obj) -> bool:
        """1. A step reads a value, and records it as that of before. 2. Somebody changes it. 3. The step's
        patch conflicts, and is sent again. To undo it would put back what the other has replaced."""
        patch = None if work.undo else self._patch(work)
        return patch is not None and inverse(current, patch) != work.record.undo_patch

    def _to_send(self, work: Work, current: Obj) -> Obj:
        if work.verb != "restore":
            return self._patch(work) or {}
        return still_ours(current, work.patched or {}, work.record.undo_patch or {})

    # What and where.

    def _target(self, work: Work) -> tuple[ObjectRef, Obj]:
        """The object that an action is about, and its template."""
        action = work.action
        if action.restore:
            return work.record.object or ObjectRef(), {}
        template = action.create if action.create is not None else action.apply
        if template is not None:
            meta = metadata(template)
            ref = ObjectRef(
                api_version=str(template.get("apiVersion") or ""),
                kind=str(template.get("kind") or ""),
                namespace=str(meta.get("namespace") or ""),
                name=str(meta.get("name") or ""),
            )
            return ref, template
        if action.delete is not None:
            return action.delete, {}
        changed = action.patch or action.scale
        return (changed.target, {}) if changed is not None else (ObjectRef(), {})

    async def _where(self, ref: ObjectRef, work: Work) -> tuple[Resource, str]:
        resource = await self._resources.of_ref(ref)
        return resource, (ref.namespace or work.namespace) if resource.namespaced else ""

    def _patch(self, work: Work) -> Obj | None:
        return patch_of(work.action)

    def _is_gone(self, current: Obj | None, work: Work) -> bool:
        """The object that was meant: another one of the same name is not ours to delete."""
        if current is None or is_deleting(current):
            return True
        ref, meant = self._target(work)[0], work.record.object
        if meant is None or (meant.kind, meant.name) != (ref.kind, ref.name):
            return False
        if meant.uid:
            return uid_of(current) != meant.uid
        # The answer to our create was lost: what we made carries the identity of the step.
        return work.undo and work.identity.removesuffix(UNDO) not in identities_on(current)

    def _result(self, outcome: Outcome, work: Work, namespace: str, time: str) -> ActResult:
        ref, _ = self._target(work)
        write = _write(outcome, work, ref, namespace, time)
        if isinstance(outcome, Committed):
            known = work.record.object if work.verb == "delete" else _ref_of(outcome.obj, ref, namespace)
            return Done(known, write)
        if isinstance(outcome, Rejected):
            again = outcome.code == 429
            return NotDone(f"the API server refused it: {outcome.message}", again=again, write=write)
        cause = outcome.why if isinstance(outcome, Conflict) else outcome.cause
        return Unsettled(f"no answer: {cause}", write)


def patch_of(action: RunbookAction) -> Obj | None:
    """The merge patch of an action that changes an object; None for the others."""
    if action.apply is not None:
        meta = {
            name: value for name, value in metadata(action.apply).items() if name not in ("name", "namespace")
        }
        rest = {
            name: value
            for name, value in action.apply.items()
            if name not in ("apiVersion", "kind", "metadata")
        }
        return {**rest, **({"metadata": meta} if meta else {})}
    if action.patch is not None:
        return action.patch.patch
    if action.scale is not None:
        return {"spec": {"replicas": int(action.scale.replicas)}}
    return None


def _absent(work: Work, ref: ObjectRef) -> ActResult:
    if work.verb == "restore":
        return Done(work.record.object, None, "it was not there any more")
    return NotDone(f"{ref.kind} {ref.name} does not exist", again=False)


def _marked(template: Obj, identity: str) -> Obj:
    meta = metadata(template)
    annotations = {**(meta.get("annotations") or {}), STEP_ANNOTATION: identity}
    return {**template, "metadata": {**meta, "annotations": annotations}}


def _guarded(patch: Obj, current: Obj, identity: str) -> Obj:
    """With the identity, and only at the revision that was read. Identities of other runs go."""
    run = identity.partition("/")[0]
    kept = [each for each in identities_on(current) if each.partition("/")[0] == run]
    meta = metadata(patch)
    annotations = {**(meta.get("annotations") or {}), STEP_ANNOTATION: ",".join([*kept, identity])}
    revision = lookup(current, "metadata", "resourceVersion")
    guarded = {**meta, "resourceVersion": revision, "uid": uid_of(current), "annotations": annotations}
    return {**patch, "metadata": guarded}


def _ref_of(obj: Obj, ref: ObjectRef, namespace: str) -> ObjectRef:
    return msgspec.structs.replace(ref, namespace=namespace, uid=uid_of(obj))


def _write(outcome: Outcome, work: Work, ref: ObjectRef, namespace: str, time: str) -> RecordedWrite:
    code, audit_id, revision, message = 0, "", 0, ""
    named = msgspec.structs.replace(ref, namespace=namespace)
    if isinstance(outcome, Committed):
        code, audit_id, revision = 200, outcome.audit_id, outcome.revision
        if work.verb != "delete":
            named = _ref_of(outcome.obj, ref, namespace)
        elif work.record.object is not None:
            named = work.record.object
    elif isinstance(outcome, Rejected):
        code, audit_id, message = outcome.code, outcome.audit_id, outcome.message
    return RecordedWrite(
        verb=work.verb,
        object=named,
        revision=revision,
        audit_id=audit_id,
        code=code,
        time=time,
        undo=work.undo,
        message=message,
    )


def describe(action: RunbookAction) -> str:
    """'create SchedulerOverride risk-api-recovery', for people."""

    def named(ref: Any) -> str:
        return f"{ref.kind} {ref.name}"

    template = action.create if action.create is not None else action.apply
    if template is not None:
        verb = "create" if action.create is not None else "apply"
        return f"{verb} {template.get('kind')} {metadata(template).get('name')}"
    if action.delete is not None:
        return f"delete {named(action.delete)}"
    if action.scale is not None:
        return f"scale {named(action.scale.target)} to {action.scale.replicas}"
    if action.patch is not None:
        return f"patch {named(action.patch.target)}"
    if action.wait is not None:
        return f"wait{': ' if action.wait.about else ''}{action.wait.about}"
    if action.prompt is not None:
        return f"ask: {action.prompt.question}"
    return "put back the values of before" if action.restore else "nothing"
