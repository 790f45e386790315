"""Tables, as `kubectl get` prints them. The server knows the columns, so any client can show any kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fathom.kube.columns import CELLS
from fathom.kube.columns.paths import parse_path
from fathom.kube.columns.pods import pod_conditions
from fathom.kube.columns.times import since
from fathom.kube.definitions.kind import Kind
from fathom.model.body import encode_json
from fathom.model.column import Column
from fathom.model.objects import Obj, metadata

NAME = Column(
    name="Name",
    type="string",
    path=".metadata.name",
    description="The object's name, unique among the objects of its kind and namespace.",
    format="name",
)
_AGE = "How long ago the object was created."
_AGE_BUILT_IN = Column(name="Age", type="string", path="=age", description=_AGE)
_AGE_CUSTOM = Column(name="Age", type="date", path=".metadata.creationTimestamp", description=_AGE)

# What Go prints for an absent field, by column type. Cells of custom kinds stay empty.
_ZEROS = {"string": "", "integer": 0, "number": 0, "boolean": False}


def columns_of(kind: Kind) -> tuple[Column, ...]:
    """All columns, NAME first unless the kind places it itself."""
    columns = kind.columns or (_AGE_BUILT_IN if kind.definition else _AGE_CUSTOM,)
    if any(column.name == NAME.name for column in columns):
        return columns
    return (NAME, *columns)


def table(
    kind: Kind,
    objs: Iterable[Obj],
    *,
    now_ns: int,
    include: str = "Metadata",
    version: str = "v1",
    headers: bool = True,
) -> Obj:
    """A Table of the objects. `include` says how much of its object each row carries: None, Metadata or
    Object. A watch sends headers with its first event only."""
    columns = columns_of(kind)
    result: Obj = {"kind": "Table", "apiVersion": f"meta.k8s.io/{version}", "metadata": {}}
    result["columnDefinitions"] = [definition(kind, column) for column in columns] if headers else None
    result["rows"] = [_row(kind, columns, obj, now_ns, _included(obj, include, version)) for obj in objs]
    return result


def definition(kind: Kind, column: Column) -> Obj:
    description = column.description
    if not description and not kind.definition:
        description = f"Custom resource definition column (in JSONPath format): {column.path}"
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format or ("name" if column.name == NAME.name else ""),
        "description": description,
        "priority": column.priority,
    }


def row(kind: Kind, obj: Obj, *, now_ns: int, include: str = "Metadata", version: str = "v1") -> Obj:
    return _row(kind, columns_of(kind), obj, now_ns, _included(obj, include, version))


def _row(kind: Kind, columns: tuple[Column, ...], obj: Obj, now_ns: int, included: Obj | None) -> Obj:
    result: Obj = {"cells": [cell(kind, column, obj, now_ns) for column in columns]}
    if kind.resource == "pods" and (conditions := pod_conditions(obj)):
        result["conditions"] = conditions
    result["object"] = included
    return result


def _included(obj: Obj, include: str, version: str) -> Obj | None:
    if include == "Object":
        return obj
    if include == "None":
        return None
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata(obj),
    }


def cell(kind: Kind, column: Column, obj: Obj, now_ns: int) -> Any:
    if column.path.startswith("="):
        return CELLS[column.path[1:]](obj, now_ns)
    try:
        value = _all(column, obj) if _is_many(column) else parse_path(column.path).first(obj)
    except ValueError:  # An invalid definition that was accepted earlier; its column stays empty.
        value = None
    if column.missing and value in (None, ""):
        return column.missing
    if value is None:
        return _ZEROS.get(column.type) if kind.definition else None
    return _shown(column.type, value, now_ns)


def _is_many(column: Column) -> bool:
    return "[*]" in column.path and column.type == "string"


def _all(column: Column, obj: Obj) -> str | None:
    return ",".join(_text(value) for value in parse_path(column.path).find(obj)) or None


def _shown(type_: str, value: Any, now_ns: int) -> Any:
    """The value in the column's type; None if it has another type."""
    if type_ == "string":
        return _text(value)
    if type_ == "date":
        return _date(value, now_ns)
    if type_ == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if type_ == "integer" else float(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if type(value) is int or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return encode_json(value).decode()


def _date(value: Any, now_ns: int) -> str | None:
    if not isinstance(value, str):
        return None
    shown = since(value, now_ns)
    return "<invalid>" if shown == "<unknown>" else shown
