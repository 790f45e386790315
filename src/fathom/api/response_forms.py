"""The form of an answer: the object, a Table for kubectl, or the object's metadata alone.

The plain form is the stored bytes. The other forms are made from objects, on demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fathom.api import tables
from fathom.api.request import JSON, Request, Response
from fathom.kube.definitions import shared
from fathom.kube.definitions.kind import Kind
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, bad_request, not_acceptable
from fathom.model.objects import Obj, metadata
from fathom.store.protocol import Entry

PLAIN, TABLE, METADATA = "", "Table", "PartialObjectMetadata"


class ResponseForm(msgspec.Struct, frozen=True):
    """The form that the client accepts."""

    shape: str = PLAIN
    version: str = "v1"
    include: str = "Metadata"  # What a table's rows carry: None, Metadata, Object.
    shared: bool = False  # Plain form only: the answer is the shared object itself.

    @property
    def content_type(self) -> str:
        return JSON


_PLAIN, _SHARED = ResponseForm(), ResponseForm(shared=True)


def form_of(request: Request) -> ResponseForm:
    accept = request.headers.get("accept", "")
    if not accept or accept == JSON or accept.startswith("*/*"):
        return _SHARED if request.shares else _PLAIN
    for choice in accept.split(","):
        media, _, rest = choice.strip().partition(";")
        if media not in {JSON, "*/*", "application/*"}:
            continue
        options = dict(part.strip().partition("=")[::2] for part in rest.split(";") if part)
        shape = options.get("as", "")
        if not shape:
            return ResponseForm()
        if options.get("g") != "meta.k8s.io" or options.get("v") not in {"v1", "v1beta1"}:
            continue
        if shape == TABLE:
            return ResponseForm(shape=TABLE, version=options["v"], include=_include(request))
        if shape.removesuffix("List") == METADATA:
            return ResponseForm(shape=METADATA, version=options["v"])
    raise not_acceptable("only the following media types are accepted: application/json")


def _include(request: Request) -> str:
    include = request.param("includeObject", "Metadata")
    if include not in {"None", "Metadata", "Object"}:
        raise bad_request(f'includeObject: Unsupported value: "{include}"')
    return include


def one(kind: Kind, entry: Entry, form: ResponseForm, *, now_ns: int, status: int = 200) -> Response:
    """An answer that carries one stored object."""
    if form.shared:
        return Response(status=status, body=wire_obj(kind, entry))
    if form.shape == PLAIN:
        return Response(status=status, body=wire(kind, entry))
    obj = wire_obj(kind, entry)
    return Response(status=status, body=encode_json(shaped(kind, [obj], form, now_ns=now_ns)))


def unstored(kind: Kind, obj: Obj, form: ResponseForm, *, now_ns: int, status: int = 200) -> Response:
    """An answer that carries an object which is not in the store: a dry run, a review."""
    shape = obj if form.shape == PLAIN else shaped(kind, [obj], form, now_ns=now_ns)
    return Response(status=status, body=encode_json(shape))


def wire(kind: Kind, entry: Entry) -> bytes:
    if kind.is_converted:
        return encode_json(wire_obj(kind, entry))
    return entry.body.encoded_at(entry.revision)


def wire_obj(kind: Kind, entry: Entry) -> Obj:
    return as_kind(kind, entry.body.obj_at(entry.revision))


def as_kind(kind: Kind, obj: Obj) -> Obj:
    """The object as the requested kind, where two kinds share one storage."""
    return shared.shown(kind, obj)


def shaped(
    kind: Kind, objs: Sequence[Obj], form: ResponseForm, *, now_ns: int, list_meta: Obj | None = None
) -> Obj:
    """A Table, or metadata alone; of one object, or of a list where `list_meta` is given."""
    if form.shape == TABLE:
        table = tables.table(kind, objs, now_ns=now_ns, include=form.include)
        table["metadata"] = list_meta if list_meta is not None else _table_meta(objs)
        return {**table, "apiVersion": f"meta.k8s.io/{form.version}"}
    partial = [_partial(obj, form) for obj in objs]
    if list_meta is None:
        return partial[0]
    kind_of_list = {"kind": f"{METADATA}List", "apiVersion": f"meta.k8s.io/{form.version}"}
    return {**kind_of_list, "metadata": list_meta, "items": partial}


def _table_meta(objs: Sequence[Obj]) -> Obj:
    return {"resourceVersion": metadata(objs[0]).get("resourceVersion", "")} if objs else {}


def _partial(obj: Obj, form: ResponseForm) -> Obj:
    return {
        "kind": METADATA,
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": metadata(obj),
    }


def shared_list(kind: Kind, entries: Iterable[Entry], list_meta: Obj) -> Obj:
    items = [wire_obj(kind, entry) for entry in entries]
    return {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": list_meta, "items": items}


def plain_list(kind: Kind, encoded: Iterable[bytes], list_meta: Obj) -> bytes:
    return b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":[%b]}' % (
        kind.list_kind.encode(),
        kind.api_version.encode(),
        encode_json(list_meta),
        b",".join(encoded),
    )


def failure(error: ApiError) -> Response:
    headers = () if error.retry_after_s is None else (("retry-after", str(error.retry_after_s)),)
    if error.allow:
        headers = (*headers, ("allow", ", ".join(error.allow)))
    return Response(status=error.code, body=encode_json(error.status()), headers=headers)
