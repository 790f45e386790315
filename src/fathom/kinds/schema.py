"""A kind's schema, derived from its Struct: types from the annotations, the rest from `field_schema`.

What `field_schema` says is checked by the API server at a write and published in OpenAPI. msgspec does not
check it when an object is read: another server, or an earlier version of this one, may have stored something
else.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import inspect

Schema = dict[str, Any]

# For a list without a limit of its own. Long enough for what people write; every request must be bounded.
LIST_ITEMS_MAX = 256

TEXT: Schema = {"type": "string"}
# What every object has. The API server checks metadata by itself.
_OBJECT: Schema = {"apiVersion": TEXT, "kind": TEXT, "metadata": {"type": "object"}}
_SCALARS: dict[type, str] = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
}


def field_schema(description: str = "", /, *, required: bool = False, **keywords: Any) -> msgspec.Meta:
    """For use in an `Annotated[...]`. `keywords` are OpenAPI keywords (`maxLength=64`); None removes one that
    the type has. `required`: a write without the field is refused. A read is not: every field has a
    default."""
    described = {"description": description} if description else {}
    # Of several annotations the last one wins, keyword by keyword: so only keywords that were given are set.
    extra = {"required": True} if required else None
    return msgspec.Meta(extra_json_schema={**keywords, **described}, extra=extra)


def one_of(*values: str) -> msgspec.Meta:
    return field_schema(enum=list(values))


REQUIRED = field_schema(required=True)
KEEPS_UNKNOWN_FIELDS = field_schema(**{"x-kubernetes-preserve-unknown-fields": True})

Name = Annotated[str, field_schema(minLength=1, maxLength=253)]
Count = Annotated[int, field_schema(format="int64", minimum=0)]
Percent = Annotated[int, field_schema(minimum=0, maximum=100)]
Time = Annotated[str, field_schema(format="date-time")]  # RFC 3339
# A quantity on the wire: '100m', 2.
Amount = Annotated[str | int | float, field_schema(**{"x-kubernetes-int-or-string": True})]
Amounts = Annotated[dict[str, Amount], field_schema(maxProperties=64)]  # By resource name.
Labels = Annotated[dict[str, str], field_schema(maxProperties=64)]


def schema_of(shape: type[msgspec.Struct]) -> Schema:
    """The schema of a whole object."""
    derived = _schema(inspect.type_info(shape))
    own = {name: schema for name, schema in derived["properties"].items() if name not in _OBJECT}
    return {**derived, "properties": {**_OBJECT, **own}}


def _schema(info: inspect.Type) -> Schema:
    if isinstance(info, inspect.Metadata):
        base = {} if _is_choice(info.type) else _schema(info.type)
        return _with(base, info.extra_json_schema or {})
    if isinstance(info, inspect.UnionType) and not _is_choice(info):
        return _schema(
            next(alternative for alternative in info.types if not isinstance(alternative, inspect.NoneType))
        )
    if isinstance(info, inspect.StructType):
        return _object(info)
    if isinstance(info, inspect.VarTupleType):
        return {"type": "array", "items": _schema(info.item_type), "maxItems": LIST_ITEMS_MAX}
    if isinstance(info, inspect.DictType):
        return {"type": "object", **_values(info.value_type)}
    if type(info) in _SCALARS:
        return {"type": _SCALARS[type(info)]}
    raise TypeError(f"no schema for {info}: use a scalar, a Struct, tuple[X, ...], dict[str, X] or X | None")


def _is_choice(info: inspect.Type) -> bool:
    """Whether it is a union of several types besides None. A Kubernetes schema cannot express which; an
    annotation does."""
    if not isinstance(info, inspect.UnionType):
        return False
    return sum(not isinstance(alternative, inspect.NoneType) for alternative in info.types) > 1


def _object(info: inspect.StructType) -> Schema:
    required = [field.encode_name for field in info.fields if _is_required(field.type)]
    properties = {field.encode_name: _schema(field.type) for field in info.fields}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _is_required(info: inspect.Type) -> bool:
    return isinstance(info, inspect.Metadata) and bool((info.extra or {}).get("required"))


def _values(info: inspect.Type) -> Schema:
    if isinstance(info, inspect.AnyType):
        return {"x-kubernetes-preserve-unknown-fields": True}
    return {"additionalProperties": _schema(info)}


def _with(base: Schema, keywords: Schema) -> Schema:
    """Merges the keywords in the order that the document has always had: clients cache it by its hash."""
    head = {"type": base["type"]} if "type" in base else {}
    early = {word: value for word, value in keywords.items() if word == "required" or word.startswith("x-")}
    merged = {**head, **early, **base, **keywords}
    return {word: value for word, value in merged.items() if value is not None}
