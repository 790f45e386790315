"""Structs as JSON of the API: fields in camelCase, fields with their default value left out where the Struct
says so. Keys of dicts are names of nodes, kinds and reasons, and stay as they are."""

from __future__ import annotations

from typing import Any

import msgspec


def wire(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        leaves_out = value.__struct_config__.omit_defaults
        return {
            name: wire(field)
            for name, field, default in _fields(value)
            if not (leaves_out and _is_default(field, default))
        }
    if isinstance(value, dict):
        return {str(name): wire(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [wire(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return value


def _fields(value: msgspec.Struct) -> list[tuple[str, Any, Any]]:
    return [
        (_camel(field.encode_name), getattr(value, field.name), field.default)
        for field in msgspec.structs.fields(type(value))
    ]


def _is_default(field: Any, default: Any) -> bool:
    """As msgspec: empty collections count as defaults too."""
    return field == default or (isinstance(field, dict | list | tuple) and not field)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
