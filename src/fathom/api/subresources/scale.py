"""`scale`: the replica count of a workload, the same for every kind that has one (autoscaling/v1 Scale)."""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.api import response_forms
from fathom.api.core import Call, Core
from fathom.api.request import Response
from fathom.api.verbs import bodies
from fathom.api.verbs.get import read
from fathom.api.writing import Written, update
from fathom.kube.definitions.kind import Kind, ScalePaths
from fathom.kube.patch.apply import apply_patch
from fathom.model import causes
from fathom.model.body import encode_json
from fathom.model.column import Column
from fathom.model.errors import Cause, bad_request, invalid, no_such_path
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.selectors import LabelSelector

REPLICAS_MAX = 2**31 - 1

# A Scale in a table, for every scaled kind.
SCALE = Kind(
    group="autoscaling",
    version="v1",
    kind="Scale",
    plural="scales",
    singular="scale",
    namespaced=True,
    list_kind="ScaleList",
    columns=(
        Column("Desired", "integer", ".spec.replicas", "How many replicas are asked for."),
        Column("Available", "integer", ".status.replicas", "How many replicas there are."),
        Column("Age", "string", "=age", "How long ago the scaled object was created."),
    ),
    definition="io.k8s.api.autoscaling.v1.Scale",
)


class _Spec(msgspec.Struct):
    replicas: int = 0


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # Spelled as on the wire.
    uid: str = ""


class _Scale(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


async def get_scale(core: Core, call: Call) -> Response:
    entry = await read(core, call)
    return _shown(core, call, entry.body.obj_at(entry.revision))


async def put_scale(core: Core, call: Call) -> Response:
    bodies.check_options(call.request)
    wanted = _decode(call, bodies.as_json(core, call, (SCALE.group, SCALE.version, SCALE.kind)))

    def scaled(old: Obj) -> Obj:
        return _with_replicas(call, old, wanted)

    return _answer(core, call, await update(core, call, scaled, subresource="scale"))


async def patch_scale(core: Core, call: Call) -> Response:
    bodies.check_options(call.request)
    media = bodies.content_type(call.request)
    if media == "application/strategic-merge-patch+json":
        media = "application/merge-patch+json"  # Equivalent for an object without lists.

    def scaled(old: Obj) -> Obj:
        result = apply_patch(media, call.request.body, scale_of(call.kind, old), None)
        return _with_replicas(call, old, _decode(call, encode_json(result)))

    return _answer(core, call, await update(core, call, scaled, subresource="scale"))


def scale_of(kind: Kind, obj: Obj) -> Obj:
    paths = _paths(kind)
    meta = metadata(obj)
    fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Obj = {"replicas": _count(obj, paths.status_replicas)}
    selector = _selector(lookup(obj, *paths.selector.split("."))) if paths.selector else ""
    if selector:
        status["selector"] = selector
    spec: Obj = {}
    replicas = _count(obj, paths.spec_replicas)
    if replicas:
        spec["replicas"] = replicas
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: meta[field] for field in fields if field in meta},
        "spec": spec,
        "status": status,
    }


def _count(obj: Obj, path: str) -> int:
    """A custom resource without a schema may hold anything there; a value that is not a number counts as
    0."""
    value = lookup(obj, *path.split("."))
    return value if type(value) is int else 0


def _selector(selector: Any) -> str:
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    if "matchLabels" in selector or "matchExpressions" in selector:
        return str(LabelSelector.from_object(selector))
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))


def _decode(call: Call, raw: bytes) -> _Scale:
    try:
        wanted = msgspec.json.decode(raw, type=_Scale)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"the body could not be read as a Scale: {error}") from None
    if not 0 <= wanted.spec.replicas <= REPLICAS_MAX:
        why = f"Invalid value: {wanted.spec.replicas}: must be greater than or equal to 0"
        cause = Cause("spec.replicas", "FieldValueInvalid", why)
        raise invalid(group="autoscaling", kind="Scale", name=call.target.name, causes=[cause])
    if wanted.metadata.name not in {"", call.target.name}:
        raise bad_request("the name of the Scale does not match the name on the URL")
    return wanted


def _with_replicas(call: Call, old: Obj, wanted: _Scale) -> Obj:
    path = _paths(call.kind).spec_replicas.split(".")
    _check_place(call, old, path)
    meta = {**metadata(old), "resourceVersion": wanted.metadata.resourceVersion}
    if wanted.metadata.uid:
        meta["uid"] = wanted.metadata.uid
    return {**_put(old, path, wanted.spec.replicas), "metadata": meta}


def _check_place(call: Call, obj: Obj, path: list[str]) -> None:
    for depth in range(1, len(path)):
        value = lookup(obj, *path[:depth])
        if value is not None and not isinstance(value, dict):
            cause = causes.invalid(".".join(path[:depth]), value, "must be an object to hold the replicas")
            raise invalid(group=call.kind.group, kind=call.kind.kind, name=call.target.name, causes=[cause])


def _put(obj: Obj, path: list[str], value: int) -> Obj:
    if len(path) == 1:
        return {**obj, path[0]: value}
    return {**obj, path[0]: _put(obj.get(path[0]) or {}, path[1:], value)}


def _paths(kind: Kind) -> ScalePaths:
    if kind.scale is None:
        raise no_such_path()
    return kind.scale


def _answer(core: Core, call: Call, written: Written) -> Response:
    entry = written.entry
    return _shown(core, call, written.obj if entry is None else response_forms.wire_obj(call.kind, entry))


def _shown(core: Core, call: Call, obj: Obj) -> Response:
    now_ns = core.outside.clock.now_ns()
    return response_forms.unstored(SCALE, scale_of(call.kind, obj), call.form, now_ns=now_ns)
