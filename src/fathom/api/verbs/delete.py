"""DELETE one object, or all that a list would show."""

from __future__ import annotations

import msgspec

from fathom.api import response_forms
from fathom.api.core import Call, Core, WriteVerdicts
from fathom.api.removal import DeleteOptions, check_options
from fathom.api.request import Response
from fathom.api.verbs import bodies
from fathom.api.verbs.create import answer
from fathom.api.verbs.list import find, list_meta
from fathom.api.verbs.selection import choice_of
from fathom.api.writing import Written, remove
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, bad_request
from fathom.model.objects import Obj, metadata

_OPTIONS = msgspec.json.Decoder(DeleteOptions)
_DELETE_OPTIONS = ("", "v1", "DeleteOptions")
# Kinds whose deletion is answered with the object itself, as in Kubernetes: clients decode it as that.
_ANSWERED_WHOLE = frozenset(
    {
        *("pods", "podtemplates", "persistentvolumes", "persistentvolumeclaims"),
        *("resourcequotas", "services", "serviceaccounts"),
        *(
            f"{plural}.storage.k8s.io"
            for plural in ("csidrivers", "csinodes", "storageclasses", "volumeattachments")
        ),
    }
)


def options_of(core: Core, call: Call) -> DeleteOptions:
    request = call.request
    options = _from_body(bodies.as_json(core, call, _DELETE_OPTIONS))
    grace = request.param("gracePeriodSeconds")
    if grace:
        options = msgspec.structs.replace(options, grace_period_seconds=_whole_number(grace))
    policy = request.param("propagationPolicy")
    if policy:
        options = msgspec.structs.replace(options, propagation_policy=policy)
    if request.param("orphanDependents"):
        options = msgspec.structs.replace(options, orphan_dependents=request.flag("orphanDependents"))
    if request.query.get("dryRun"):
        options = msgspec.structs.replace(options, dry_run=request.query["dryRun"])
    check_options(options)
    return options


def _from_body(raw: bytes) -> DeleteOptions:
    if not raw.strip():
        return DeleteOptions()
    try:
        return _OPTIONS.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"the body could not be read as DeleteOptions: {error}") from None


def _whole_number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise bad_request(f'gracePeriodSeconds: Invalid value: "{text}": must be a whole number of seconds')
    return int(text)


async def delete(core: Core, call: Call) -> Response:
    written = await remove(core, call, options_of(core, call))
    if written.removed and call.kind.resource not in _ANSWERED_WHOLE:
        return Response(status=200, body=encode_json(_success(call, written)))
    return answer(core, call, written)


def _success(call: Call, written: Written) -> Obj:
    kind = call.kind
    details = {"name": call.target.name, "kind": kind.plural, "uid": metadata(written.obj).get("uid", "")}
    if kind.group:
        details["group"] = kind.group
    # The revision of the removal, by which a client finds it in watches and in the audit log.
    meta = {"resourceVersion": metadata(written.obj).get("resourceVersion", "")}
    return {"kind": "Status", "apiVersion": "v1", "metadata": meta, "status": "Success", "details": details}


async def delete_collection(core: Core, call: Call) -> Response:
    """Each object in turn; one that has been deleted meanwhile is no error. The answer lists what was
    deleted."""
    options = options_of(core, call)
    choice = choice_of(core, call)
    selected = await find(core, call, choice)
    deleted: list[Obj] = []
    for entry in selected.entries:
        key = entry.key.removeprefix(call.kind.prefix)
        namespace, _, name = key.rpartition("/")
        target = msgspec.structs.replace(call.target, namespace=namespace, name=name)
        audit = WriteVerdicts(break_glass=call.audit.break_glass)
        item_call = msgspec.structs.replace(call, target=target, audit=audit)
        try:
            written = await remove(core, item_call, options)
        except ApiError as error:
            if error.code == 404:
                continue
            raise
        call.parts.append(item_call)
        deleted.append(response_forms.as_kind(call.kind, written.obj))
    body = {"kind": call.kind.list_kind, "apiVersion": call.kind.api_version}
    meta = list_meta(call, selected)
    return Response(status=200, body=encode_json({**body, "metadata": meta, "items": deleted}))
