"""The draft of a write: the caller's object, with what only the server sets."""

from __future__ import annotations

from fathom.api.core import Call, Core
from fathom.api.field_owners import is_apply
from fathom.api.write_checks import APPROVAL, REPORTS
from fathom.kube.definitions.kind import Kind
from fathom.model.errors import CHANGED_SINCE_READ, Cause, bad_request, conflict, invalid
from fathom.model.objects import Obj, metadata
from fathom.store.protocol import Entry

# Fields of metadata that only the server sets.
SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")

_NOT_THE_CREATORS = frozenset((*SERVER_OWNED, "selfLink", "resourceVersion"))


def new_draft(core: Core, call: Call, obj: Obj) -> Obj:
    meta = obj.setdefault("metadata", {})
    if not call.kind.namespaced:
        pass  # Validation refuses a namespace here.
    elif meta.get("namespace") in {None, ""}:
        meta["namespace"] = call.namespace
    elif meta["namespace"] != call.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if meta.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    for field in _NOT_THE_CREATORS.intersection(meta):
        del meta[field]
    if not is_apply(call.request):
        meta.pop("managedFields", None)
    if not meta.get("name") and not meta.get("generateName"):
        cause = Cause(
            "metadata.name", "FieldValueRequired", "Required value: name or generateName is required"
        )
        raise invalid(group=call.kind.group, kind=call.kind.kind, name="", causes=[cause])
    if not meta.get("name"):
        # 63 is the length of a DNS label, 5 that of the suffix.
        meta["name"] = f"{meta['generateName'][: 63 - 5]}{core.outside.ids.suffix()}"
    meta["uid"] = core.outside.ids.uid()
    moment = core.moment(call.caller.user)
    meta["creationTimestamp"] = moment.now
    if call.kind.generation:
        meta["generation"] = 1
    rules = core.rules(call.kind)
    if "status" in call.kind.subresources and not rules.keeps_status_at_create:
        obj.pop("status", None)
    rules.prepare_create(obj, moment)
    if call.kind.definition and "status" in call.kind.subresources:
        core.decoder.fill_status(call.kind, obj)
    return obj


def revised_draft(core: Core, call: Call, new: Obj, old: Obj, *, entry: Entry, subresource: str) -> Obj:
    """The caller's object, with every field that the caller may not change put back."""
    meta, old_meta = {**metadata(new)}, metadata(old)
    new = {**new, "metadata": meta}
    _check_identity(call, meta, old_meta, entry)
    for field in SERVER_OWNED:
        if field in old_meta:
            meta[field] = old_meta[field]
        else:
            meta.pop(field, None)
    meta["name"] = old_meta["name"]
    meta.pop("managedFields", None)
    meta.pop("selfLink", None)
    if "namespace" in old_meta:
        meta["namespace"] = old_meta["namespace"]
    rules, moment = core.rules(call.kind), core.moment(call.caller.user)
    if subresource in REPORTS:
        # The caller may change the status only; the rest stays.
        status = new.get("status")
        new = {**old, "metadata": {**old_meta}}
        new.pop("status", None)
        if status is not None:
            new["status"] = status
        (rules.prepare_approval if subresource == APPROVAL else rules.prepare_status)(new, old, moment)
        if call.kind.definition:
            core.decoder.fill_status(call.kind, new)
        return new
    if "status" in call.kind.subresources and not subresource:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    if not subresource:
        rules.prepare_update(new, old, moment)
    if call.kind.generation and (rules.generation_changed(new, old) or _state_changed(call.kind, new, old)):
        meta["generation"] = int(old_meta.get("generation") or 0) + 1
    return new


def _state_changed(kind: Kind, new: Obj, old: Obj) -> bool:
    """Of a custom kind whose status is no subresource, the status is a field as any other."""
    is_custom = kind.schema is not None and "status" not in kind.subresources
    return is_custom and new.get("status") != old.get("status")


def _check_identity(call: Call, meta: Obj, old_meta: Obj, entry: Entry) -> None:
    name = str(old_meta["name"])
    if meta.get("name") not in {None, "", name}:
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )
    if meta.get("namespace") not in {None, "", old_meta.get("namespace")}:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if meta.get("uid") not in {None, "", old_meta.get("uid")}:
        why = (
            f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old_meta['uid']}"
        )
        raise conflict(call.kind.resource, name, why)
    version = meta.pop("resourceVersion", None)
    if version not in {None, "", "0"} and version != str(entry.revision):
        raise conflict(call.kind.resource, name, CHANGED_SINCE_READ)
    whole = call.request.method == "PUT" and call.target.subresource != "scale"
    if version in {None, ""} and call.kind.schema is not None and whole:
        why = "Invalid value: 0: must be specified for an update"
        cause = Cause("metadata.resourceVersion", "FieldValueInvalid", why)
        raise invalid(group=call.kind.group, kind=call.kind.kind, name=name, causes=[cause])
