"""PUT and PATCH, of an object or of its status."""

from __future__ import annotations

from collections.abc import Callable

from fathom.api import response_forms
from fathom.api.core import Call, Core
from fathom.api.request import JSON, Request, Response
from fathom.api.verbs import bodies
from fathom.api.verbs.create import answer
from fathom.api.write_checks import REPORTS
from fathom.api.writing import Change, renew, update
from fathom.api.writing import create as create_object
from fathom.kube.definitions import parse
from fathom.kube.patch.apply import apply_patch, check_type
from fathom.kube.patch.refusal import unreadable
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, Cause, bad_request, invalid, too_large
from fathom.model.objects import Obj, metadata
from fathom.model.resource_names import LEASES

# Kinds whose PUT creates a missing object, as in kube-apiserver.
CREATED_BY_PUT = frozenset(
    {
        "events",
        "endpoints",
        "limitranges",
        "leases.coordination.k8s.io",
        "roles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
    }
)

# The fields of a report: those that identify the object, and its status.
REPORTED = frozenset({"kind", "apiVersion", "metadata", "status"})


async def put(core: Core, call: Call, require_create: Callable[[Call], None] | None = None) -> Response:
    """`require_create` raises if the caller may not create the object; without it, none is created."""
    if call.kind.resource == LEASES and _is_plain(call.request):
        written = await renew(core, call)
        if written is not None:
            return answer(core, call, written)
    obj = bodies.decode(core, call)
    subresource = call.target.subresource
    name = metadata(obj).get("name")
    if name != call.target.name:
        raise bad_request(
            f"the name of the object ({name or ''}) does not match the name on the URL ({call.target.name})"
        )
    if require_create and _creates(call, obj) and await core.current(call.store_key) is None:
        require_create(call)
        return answer(core, call, await create_object(core, call, obj), status=201)
    # Each try gets a fresh copy of the caller's object: a lost race must not leave traces in it.
    untouched = [obj]

    def replaced(_: Obj) -> Obj:
        return untouched.pop() if untouched else bodies.decode(core, call)

    return answer(core, call, await update(core, call, replaced, subresource=subresource))


def _is_plain(request: Request) -> bool:
    return not request.query and bodies.content_type(request) == JSON


def _creates(call: Call, obj: Obj) -> bool:
    if call.target.subresource or call.kind.resource not in CREATED_BY_PUT:
        return False
    return not metadata(obj).get("resourceVersion") and not metadata(obj).get("uid")


async def patch(core: Core, call: Call) -> Response:
    bodies.check_options(call.request)
    if call.request.param("force"):
        why = "Forbidden: may not be specified for non-apply patch"
        cause = Cause("force", "FieldValueForbidden", why)
        raise invalid(group="meta.k8s.io", kind="PatchOptions", name="", causes=[cause])
    change = patching(core, call)
    return answer(core, call, await update(core, call, change, subresource=call.target.subresource))


def patching(core: Core, call: Call) -> Change:
    media = bodies.content_type(call.request)
    kind = call.kind
    schema = core.decoder.patch_schema(kind)
    check_type(media, custom=schema is None)

    def patched(old: Obj) -> Obj:
        current = response_forms.as_kind(kind, old)
        result = apply_patch(media, call.request.body, current, schema)
        check_size(core, encode_json(result))
        if call.target.subresource in REPORTS:
            result = _touched(result, current)
        try:
            return bodies.complete(core, call, kind, core.decoder.decode_obj(kind, result))
        except ApiError as error:
            if error.code != 400:
                raise
            raise unreadable(media, call.request.body, result, error) from None

    return patched


def _touched(result: Obj, current: Obj) -> Obj:
    """A status report without the fields that the patch left unchanged. Those are put back in any case, and
    need not be decoded again."""
    return {
        name: value for name, value in result.items() if name in REPORTED or value is not current.get(name)
    }


def check_size(core: Core, encoded: bytes) -> None:
    """A whole object is bounded by its request. Patches add up, so their result is bounded here."""
    if len(encoded) > core.limits.body_bytes_max:
        raise too_large(core.limits.body_bytes_max)
    if parse.too_many(encoded):
        raise bad_request(f"the patched object has {parse.TOO_MANY}")
