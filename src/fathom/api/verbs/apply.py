"""Server-side apply: the caller says which fields an object has to have, and owns those."""

from __future__ import annotations

from collections.abc import Callable

from fathom.api import response_forms
from fathom.api.core import Call, Core
from fathom.api.field_owners import applier, owners_of
from fathom.api.request import Response
from fathom.api.verbs import bodies
from fathom.api.verbs.create import answer
from fathom.api.verbs.update import check_size
from fathom.api.write_checks import REPORTS
from fathom.api.writing import create, update
from fathom.kube.definitions.decode import Decoded
from fathom.kube.ownership import entries, paths
from fathom.kube.ownership.owners import APPLY, Conflicts, Owner, Owners, applied, fields_of, owners_before
from fathom.model.body import decode_json, encode_json
from fathom.model.errors import ApiError, Cause, as_wire, bad_request, conflict, invalid
from fathom.model.objects import Obj, lookup, metadata

# Of the metadata that is applied with a status.
IDENTITY = ("name", "namespace", "uid", "resourceVersion")
CONFLICTS_MAX = 100  # So many are told.
KUBECTL, LAST_APPLIED = "kubectl", "kubectl.kubernetes.io/last-applied-configuration"


async def apply(core: Core, call: Call, require_create: Callable[[Call], None]) -> Response:
    """`require_create` raises if the caller may not create the object."""
    bodies.check_options(call.request)
    if not call.request.param("fieldManager"):
        cause = Cause("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
        raise invalid(group="meta.k8s.io", kind="PatchOptions", name="", causes=[cause])
    _config(core, call)  # Refused before anything is read, if it cannot be applied.
    subresource = call.target.subresource
    if not subresource and await core.current(call.store_key) is None:
        require_create(call)
        try:
            return answer(core, call, await create(core, call, _new(core, call)), status=201)
        except ApiError as error:
            if error.reason != "AlreadyExists":  # Somebody was faster: then it is a change.
                raise
    return answer(core, call, await update(core, call, _change(core, call), subresource=subresource))


def _config(core: Core, call: Call) -> Obj:
    """What the caller applies, as far as it is for this address: a status is applied to an address of its
    own."""
    decoded = core.decoder.decode_config(call.kind, call.request.body)
    obj, meta = decoded.obj, metadata(decoded.obj)
    _check(call, decoded)
    if call.target.subresource in REPORTS:
        meta = {word: meta[word] for word in IDENTITY if word in meta}
        return {word: obj[word] for word in ("kind", "apiVersion", "status") if word in obj} | {
            "metadata": meta
        }
    if "status" in call.kind.subresources:
        obj.pop("status", None)
    return obj


def _check(call: Call, decoded: Decoded) -> None:
    kind, meta = call.kind, metadata(decoded.obj)
    if decoded.unknown:  # Nobody could own it, whatever `fieldValidation` says.
        raise bodies.unknown_fields(kind, decoded)
    if meta.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    name, wanted = str(meta.get("name") or ""), call.target.name
    if not name:
        why = f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        raise bad_request(why)
    if name != wanted:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({wanted})")


def _new(core: Core, call: Call) -> Obj:
    config = _config(core, call)
    metadata(config).pop("resourceVersion", None)
    if uid := metadata(config).get("uid"):
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(call.kind.resource, call.target.name, why)
    return _applied(core, call, {}, config, {})


def _change(core: Core, call: Call) -> Callable[[Obj], Obj]:
    def change(old: Obj) -> Obj:
        kind = call.kind
        live = response_forms.as_kind(kind, old)
        owners = owners_of(metadata(live).get("managedFields"))
        owners = owners or owners_before(core.decoder.shape(kind), live, kind.api_version)
        return _applied(core, call, live, _config(core, call), owners)

    return change


def _applied(core: Core, call: Call, live: Obj, config: Obj, owners: Owners) -> Obj:
    """The object with what is applied, complete, and with its owners."""
    by, shape, now = applier(call), core.decoder.shape(call.kind), core.moment(call.caller.user).now
    force = call.request.flag("force")
    try:
        new, owners = applied(shape, live, config, owners, by, force=force, now=now)
    except Conflicts as error:
        if not _are_kubectls(core, call, live, error):
            raise _conflict(error) from None
        new, owners = applied(shape, live, config, owners, by, force=True, now=now)
    obj = bodies.complete(core, call, call.kind, core.decoder.decode_obj(call.kind, new))
    if owners:
        metadata(obj)["managedFields"] = entries.written(owners)
    check_size(core, encode_json(obj))
    return obj


def _are_kubectls(core: Core, call: Call, live: Obj, conflicts: Conflicts) -> bool:
    """Whether all of them are fields that `kubectl apply` wrote before, without --server-side."""
    last = lookup(live, "metadata", "annotations", LAST_APPLIED)
    if call.request.param("fieldManager") != KUBECTL or not isinstance(last, str):
        return False
    try:
        config = decode_json(last.encode())
    except ValueError:
        return False
    own = fields_of(core.decoder.shape(call.kind), config if isinstance(config, dict) else {})
    return all(fields <= own for fields in conflicts.found.values())


def _conflict(conflicts: Conflicts) -> ApiError:
    """Worded as in kube-apiserver: clients show it, and people look it up."""
    found = [(_named(owner), path) for owner, fields in conflicts.found.items() for path in fields]
    told = [(name, paths.text(path)) for name, path in sorted(found)[:CONFLICTS_MAX]]
    causes = [
        Cause(field, "FieldManagerConflict", f"conflict with {name}")
        for name, field in sorted(told, key=lambda pair: pair[::-1])
    ]
    if len(found) == 1:
        message = f"Apply failed with 1 conflict: conflict with {told[0][0]}: {told[0][1]}"
    else:
        lines = []
        for name in dict.fromkeys(name for name, _ in told):
            lines += [f"conflicts with {name}:", *(f"- {field}" for of, field in told if of == name)]
        message = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", message, details={"causes": [as_wire(cause) for cause in causes]})


def _named(owner: Owner) -> str:
    name = f'"{owner.manager}"'
    if owner.subresource:
        name += f' with subresource "{owner.subresource}"'
    return name if owner.operation == APPLY else f"{name} using {owner.api_version}"
