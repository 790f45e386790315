"""The `paths` of an OpenAPI document: each address with its verbs, their parameters and results.

kubectl reads three things here: the kind at an address (`explain`), whether PATCH has a `fieldValidation`
parameter (else it falls back to OpenAPI v2, which we do not have), and which kinds of patch there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fathom.kube.definitions.catalogue import Subresource
from fathom.kube.definitions.kind import Kind
from fathom.model.media_types import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from fathom.model.objects import Obj

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
DELETE_OPTIONS: Final = f"{_META}DeleteOptions"
STATUS: Final = f"{_META}Status"
PATCH: Final = f"{_META}Patch"
_REF: Final = "#/components/schemas/"

# verb -> (HTTP method, x-kubernetes-action)
_COLLECTION: Final = {
    "list": ("get", "list"),
    "create": ("post", "post"),
    "deletecollection": ("delete", "deletecollection"),
}
_OBJECT: Final = {
    "get": ("get", "get"),
    "update": ("put", "put"),
    "patch": ("patch", "patch"),
    "delete": ("delete", "delete"),
}
_SUBRESOURCE: Final = {**_OBJECT, "create": ("post", "post")}

_WRITE: Final = {
    "dryRun": ("string", "All: process the request, but do not store the result."),
    "fieldManager": ("string", "The name of the client that makes the change, at most 128 characters."),
    "fieldValidation": ("string", "What to do about unknown and duplicate fields: Ignore, Warn or Strict."),
}
_DELETE: Final = {
    "dryRun": _WRITE["dryRun"],
    "gracePeriodSeconds": ("integer", "How long the object may take to terminate; 0 deletes it at once."),
    "orphanDependents": ("boolean", "Deprecated: use propagationPolicy."),
    "propagationPolicy": ("string", "What happens to dependents: Orphan, Background or Foreground."),
}
_LIST: Final = {
    "allowWatchBookmarks": ("boolean", "Request bookmarks in a watch."),
    "continue": ("string", "The continue token of the previous page."),
    "fieldSelector": ("string", "Restrict the answer by fields."),
    "labelSelector": ("string", "Restrict the answer by labels."),
    "limit": ("integer", "The maximum number of objects in a page."),
    "resourceVersion": ("string", "The revision to read at or to watch from."),
    "resourceVersionMatch": ("string", "How to interpret resourceVersion: Exact or NotOlderThan."),
    "sendInitialEvents": ("boolean", "Begin a watch with the existing objects."),
    "timeoutSeconds": ("integer", "How long a list or watch may take."),
    "watch": ("boolean", "Watch for changes instead of listing."),
}
_PARAMETERS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "list": _LIST,
    "post": _WRITE,
    "put": _WRITE,
    "patch": {**_WRITE, "force": ("boolean", "Only for server-side apply.")},
    "delete": _DELETE,
    "deletecollection": {**_DELETE, **_LIST},
}
# Options of a connection into a pod.
_STREAMS: Final = {
    "container": ("string", "The container; may be left out if the pod has one, or names its default."),
    "stderr": ("boolean", "Whether the client wants what is written to stderr."),
    "stdin": ("boolean", "Whether the client sends what is read from stdin."),
    "stdout": ("boolean", "Whether the client wants what is written to stdout."),
    "tty": ("boolean", "Whether the streams are those of a terminal."),
}
_CONNECT: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "attach": _STREAMS,
    "exec": {"command": ("string", "The program and its arguments, each in one of these."), **_STREAMS},
    "portforward": {"ports": ("integer", "The ports, where the client does not name them later.")},
}
PATCH_TYPES: Final = (APPLY_PATCH, JSON_PATCH, MERGE_PATCH)


def paths_of(kind: Kind, subresources: Mapping[str, Subresource], component: str) -> Obj:
    """All addresses of a kind. `component` names its schema."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    inside = f"{root}/namespaces/{{namespace}}" if kind.namespaced else root
    own = _Answer(kind.group, kind.version, kind.kind, component)
    items = {f"{inside}/{kind.plural}": _item(kind, own, _COLLECTION, kind.verbs)}
    if kind.namespaced and "list" in kind.verbs:
        everywhere = _item(kind, own, {"list": _COLLECTION["list"]}, kind.verbs, namespaced=False)
        items[f"{root}/{kind.plural}"] = everywhere
    items[f"{inside}/{kind.plural}/{{name}}"] = _item(kind, own, _OBJECT, kind.verbs, named=True)
    for name in kind.subresources:
        subresource = subresources[name]
        answer = own if not subresource.kind else _Answer.of(subresource)
        address = f"{inside}/{kind.plural}/{{name}}/{name}"
        if subresource.connects:
            items[address] = _connection(kind, answer, subresource.verbs, name)
            continue
        items[address] = _item(kind, answer, _SUBRESOURCE, subresource.verbs, named=True, subresource=name)
    return {address: item for address, item in items.items() if len(item) > 1}


class _Answer:
    """The kind that an operation accepts and returns."""

    def __init__(self, group: str, version: str, kind: str, component: str) -> None:
        self.gvk = {"group": group, "version": version, "kind": kind}
        self.component = component

    @classmethod
    def of(cls, subresource: Subresource) -> _Answer:
        group = subresource.group.split(".")[0] or "core"
        return cls(
            subresource.group,
            subresource.version,
            subresource.kind,
            f"io.k8s.api.{group}.{subresource.version}.{subresource.kind}",
        )


def _item(
    kind: Kind,
    answer: _Answer,
    table: Mapping[str, tuple[str, str]],
    verbs: tuple[str, ...],
    *,
    named: bool = False,
    namespaced: bool = True,
    subresource: str = "",
) -> Obj:
    """One address with its operations, and their common parameters."""
    shared = _path_parameters(kind, named=named, namespaced=namespaced)
    shared.append(_parameter("pretty", "string", "Format the answer for people."))
    item: Obj = {}
    for verb, (method, action) in table.items():
        if verb in verbs:
            name = _operation_id(kind, verb, subresource, namespaced=namespaced)
            item[method] = _operation(kind, answer, action, name)
    return {**item, "parameters": shared}


def _path_parameters(kind: Kind, *, named: bool, namespaced: bool) -> list[Obj]:
    parameters = []
    if named:
        parameters.append(_parameter("name", "string", f"The name of the {kind.kind}.", where="path"))
    if kind.namespaced and namespaced:
        parameters.append(_parameter("namespace", "string", "The namespace.", where="path"))
    return parameters


def _connection(kind: Kind, answer: _Answer, verbs: tuple[str, ...], subresource: str) -> Obj:
    """A connection into an object: its options are in the query, and what comes is no object."""
    text = {"description": "OK", "content": {"*/*": {"schema": {"type": "string"}}}}
    name = _operation_id(kind, "connect", subresource, namespaced=True)
    item: Obj = {}
    for method, _ in (_SUBRESOURCE[verb] for verb in sorted(verbs, reverse=True)):
        item[method] = {
            "operationId": name.replace("Namespaced", f"{method.capitalize()}Namespaced"),
            "tags": [f"{kind.group or 'core'}_{kind.version}"],
            "responses": {"200": text, "401": {"description": "Unauthorized"}},
            "x-kubernetes-action": "connect",
            "x-kubernetes-group-version-kind": answer.gvk,
        }
    options = [_parameter(word, of, about) for word, (of, about) in _CONNECT[subresource].items()]
    return {**item, "parameters": [*options, *_path_parameters(kind, named=True, namespaced=True)]}


def _operation_id(kind: Kind, verb: str, subresource: str, *, namespaced: bool) -> str:
    group = "".join(part.capitalize() for part in (kind.group or "core").split("."))
    scope = "Namespaced" if kind.namespaced and namespaced else ""
    tail = subresource.capitalize() if namespaced or not kind.namespaced else "ForAllNamespaces"
    return f"{verb}{group}{kind.version.capitalize()}{scope}{kind.kind}{tail}"


def _operation(kind: Kind, answer: _Answer, action: str, name: str) -> Obj:
    listed = _PARAMETERS.get(action, {})
    operation: Obj = {
        "operationId": name,
        "tags": [f"{kind.group or 'core'}_{kind.version}"],
        "parameters": [_parameter(word, of, text) for word, (of, text) in listed.items()],
        "responses": _responses(answer, action),
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": answer.gvk,
    }
    body = _request_body(kind, answer, action)
    return {**operation, "requestBody": body} if body else operation


def _request_body(kind: Kind, answer: _Answer, action: str) -> Obj | None:
    if action in {"post", "put"}:
        return {"required": True, "content": {"*/*": {"schema": _ref(answer.component)}}}
    if action == "patch":
        types = PATCH_TYPES if kind.schema is not None else (*PATCH_TYPES, STRATEGIC_MERGE_PATCH)
        return {"required": True, "content": {media: {"schema": _ref(PATCH)} for media in types}}
    if action in {"delete", "deletecollection"}:
        return {"content": {"*/*": {"schema": _ref(DELETE_OPTIONS)}}}
    return None


def _responses(answer: _Answer, action: str) -> Obj:
    component = {
        "list": f"{answer.component}List",
        "delete": STATUS,
        "deletecollection": STATUS,
    }.get(action, answer.component)
    good = {"description": "OK", "content": {"application/json": {"schema": _ref(component)}}}
    return {"201" if action == "post" else "200": good, "401": {"description": "Unauthorized"}}


def _parameter(name: str, kind: str, text: str, *, where: str = "query") -> Obj:
    parameter: Obj = {"name": name, "in": where, "description": text, "schema": {"type": kind}}
    return {**parameter, "required": True} if where == "path" else parameter


def _ref(component: str) -> Obj:
    return {"$ref": f"{_REF}{component}"}
