"""Pieces that the schemas of our own kinds are made of."""

from __future__ import annotations

from typing import Any

from fathom.api.kinds.kind import Column, Kind
from fathom.model.own.shape import GROUP, VERSION

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 253}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "format": "int64", "minimum": 0}
PERCENT: Schema = {"type": "integer", "minimum": 0, "maximum": 100}
TIME: Schema = {"type": "string", "format": "date-time"}
AMOUNTS: Schema = {
    "type": "object",
    "additionalProperties": {"x-kubernetes-int-or-string": True},
    "maxProperties": 64,
}
TEXTS_BY_NAME: Schema = {"type": "object", "additionalProperties": TEXT, "maxProperties": 64}
CONDITIONS: Schema = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": TEXT,
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "observedGeneration": COUNT,
            "lastTransitionTime": TIME,
            "reason": TEXT,
            "message": TEXT,
        },
    },
}

AGE = Column("Age", "date", ".metadata.creationTimestamp")


def group(*required: str, **properties: Schema) -> Schema:
    """An object; what is required is named first. A trailing underscore frees a Python word: `from_`."""
    named = {name.rstrip("_"): schema for name, schema in properties.items()}
    return {"type": "object", "properties": named, **({"required": list(required)} if required else {})}


def listed(items: Schema, most: int = 256) -> Schema:
    return {"type": "array", "items": items, "maxItems": most}


def one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def said(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def own_kind(
    kind: str,
    plural: str,
    *,
    spec: Schema,
    status: Schema | None,
    columns: tuple[Column, ...],
    namespaced: bool,
    short_names: tuple[str, ...] = (),
    selectable: tuple[str, ...] = (),
    spec_required: bool = True,
    approval: bool = False,
) -> Kind:
    """`approval`: whether somebody's decision is written through a subresource of its own."""
    parts = {"spec": spec} if status is None else {"spec": spec, "status": status}
    required = ("spec",) if spec_required else ()
    return Kind(
        group=GROUP,
        version=VERSION,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=namespaced,
        list_kind=f"{kind}List",
        short_names=short_names,
        categories=("fathom",),
        subresources=(*(("status",) if status is not None else ()), *(("approval",) if approval else ())),
        generation=True,
        columns=(*columns, AGE),
        selectable=selectable,
        schema=group(*required, apiVersion=TEXT, kind=TEXT, metadata={"type": "object"}, **parts),
    )
