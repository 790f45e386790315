"""OpenAPI v3: an index, and one document per group and version.

`kubectl explain`, client-side validation and strategic merge in kubectl read these. Pure functions of the
registry; the caller keeps the results until `registry.revision` changes. A document's address contains a hash
of its sources, so that clients can cache it until it changes.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from fathom.kube.definitions.definitions import LIST_META, OBJECT_META, Definitions, Schema, type_of
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.openapi_paths import DELETE_OPTIONS, PATCH, STATUS, paths_of
from fathom.kube.definitions.registry import Registry
from fathom.model.objects import Obj

# Increased when documents change form for the same kinds, so that no client keeps the old ones.
FORMAT: Final = 2
_REF: Final = "#/components/schemas/"

# fathom has no OpenAPI v2. For a kind it does not know, kubectl requests it, in protobuf, before it reports
# the unknown kind; without an answer it reports a server error instead. This document has only a title.
EMPTY_V2: Final = b"\x0a\x032.0" + b"\x12\x0e\x0a\x06fathom\x12\x04none" + b"\x42\x00"
EMPTY_V2_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def index(registry: Registry) -> Obj:
    """/openapi/v3: where the documents are."""
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_hash(registry, kinds)}"}
            for path, kinds in _by_path(registry).items()
        }
    }


def document(registry: Registry, path: str) -> Obj | None:
    """The document of 'api/v1' or 'apis/apps/v1'; None if there is none."""
    kinds = _by_path(registry).get(path.strip("/"))
    if kinds is None:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": registry.definitions.release},
        "paths": {
            address: item
            for kind in kinds
            for address, item in paths_of(kind, registry.subresources, _component(kind)).items()
        },
        "components": {"schemas": _schemas(registry, kinds)},
    }


def _by_path(registry: Registry) -> dict[str, list[Kind]]:
    kinds_at: dict[str, list[Kind]] = {}
    for kind in registry.kinds():
        root = f"apis/{kind.group}" if kind.group else "api"
        kinds_at.setdefault(f"{root}/{kind.version}", []).append(kind)
    return kinds_at


def _hash(registry: Registry, kinds: list[Kind]) -> str:
    sources = [FORMAT, registry.definitions.release, [msgspec.to_builtins(kind) for kind in kinds]]
    return hashlib.sha256(msgspec.json.encode(sources)).hexdigest().upper()


def _component(kind: Kind) -> str:
    """The name of a kind's schema: as defined, or 'com.example.v1.Widget'."""
    return kind.definition or ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def _schemas(registry: Registry, kinds: list[Kind]) -> Obj:
    definitions = registry.definitions
    defined = [name for kind in kinds for name in (_component(kind), f"{_component(kind)}List")]
    defined += [definitions.name_of(*answer) for kind in kinds for answer in _answers(registry, kind)]
    shared = (DELETE_OPTIONS, STATUS, PATCH, OBJECT_META, LIST_META)
    schemas = {name: published(definitions[name]) for name in definitions.reachable(*defined, *shared)}
    for kind in kinds:
        if kind.schema is not None:
            schemas |= _custom(kind, definitions)
    return schemas


def _answers(registry: Registry, kind: Kind) -> list[tuple[str, str, str]]:
    """(group, version, kind) of the objects that its subresources return."""
    subresources = [registry.subresources[name] for name in kind.subresources]
    return [
        (subresource.group, subresource.version, subresource.kind)
        for subresource in subresources
        if subresource.kind and not subresource.connects
    ]


def published(schema: Schema) -> Schema:
    """A definition as Kubernetes publishes it: one type instead of a choice with null, references into the
    components, and `allOf` around a reference that has a description beside it."""
    document_schema: dict[str, Any] = {}
    for word, value in schema.items():
        if word == "$ref":
            ref = {"$ref": value.replace("#/$defs/", _REF)}
            document_schema |= ref if len(schema) == 1 else {"allOf": [ref]}
        elif word == "type":
            document_schema["type"] = type_of(schema)
        elif word == "properties":
            document_schema["properties"] = {name: published(inner) for name, inner in value.items()}
        elif word in {"items", "additionalProperties"} and isinstance(value, dict):
            document_schema[word] = published(value)
        elif word == "oneOf":
            document_schema["oneOf"] = [published(inner) for inner in value]
        elif word != "enum":  # Only ever the kind's own name, which Kubernetes does not publish.
            document_schema[word] = value
    if document_schema.get("oneOf") == [{"type": "string"}, {"type": "integer"}]:
        document_schema["format"] = "int-or-string"
    return document_schema


def _custom(kind: Kind, definitions: Definitions) -> Obj:
    """A custom resource's schema, with the fields that every object has, and that of its list."""
    name = _component(kind)
    common = published(definitions[definitions.name_of("", "v1", "Pod")])["properties"]
    schema = kind.schema or {}
    head = {"apiVersion": common["apiVersion"], "kind": common["kind"], "metadata": _reference(OBJECT_META)}
    object_schema = {
        **schema,
        "properties": {**(schema.get("properties") or {}), **head},
        "x-kubernetes-group-version-kind": [_gvk(kind, kind.kind)],
    }
    items = {"type": "array", "items": {"$ref": f"{_REF}{name}"}, "description": f"List of {kind.plural}."}
    list_schema = {
        "description": f"{kind.list_kind} is a list of {kind.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {**head, "items": items, "metadata": _reference(LIST_META)},
        "x-kubernetes-group-version-kind": [_gvk(kind, kind.list_kind)],
    }
    return {name: object_schema, f"{name}List": list_schema}


def _reference(name: str) -> Schema:
    described = "Standard metadata, see the API conventions of Kubernetes."
    return {"allOf": [{"$ref": f"{_REF}{name}"}], "description": described}


def _gvk(kind: Kind, name: str) -> Obj:
    return {"group": kind.group, "version": kind.version, "kind": name}
