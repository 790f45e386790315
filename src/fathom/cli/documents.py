"""Objects as documents: YAML, JSON or names, as kubectl prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fathom.terminal import say, say_json, say_text

Obj = dict[str, Any]
Output = Literal["", "yaml", "json", "name"]


def print_documents(objs: Sequence[Obj], output: str, *, as_list: bool = False) -> None:
    """One document. `as_list`: a list, also of one object."""
    shown = [without_managed_fields(obj) for obj in objs]
    if output == "name":
        say(*(name_of(obj) for obj in objs))
        return
    document: Any = {"apiVersion": "v1", "kind": "List", "items": shown} if as_list else shown[0]
    if output == "json":
        import msgspec  # noqa: PLC0415  # See the package's docstring.

        say_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    else:
        import yaml  # noqa: PLC0415

        say_text(yaml.safe_dump(document, sort_keys=False))


def name_of(obj: Obj) -> str:
    """'scheduleroverride.fathom.dev/risk-api'"""
    group = str(obj.get("apiVersion") or "").rpartition("/")[0]
    kind = str(obj.get("kind") or "").lower()
    return f"{kind}.{group}/{obj['metadata']['name']}" if group else f"{kind}/{obj['metadata']['name']}"


def without_managed_fields(obj: Obj) -> Obj:
    meta = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    return {**obj, "metadata": meta}


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Aligned columns; the first row is the head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
